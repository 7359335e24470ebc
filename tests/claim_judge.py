"""The part of a model that judges the claims of a report, as tests play it."""

import re
from collections.abc import Callable
from typing import Final

from activities.models.protocol import ModelCall
from activities.turn_kinds.judgements import ClaimVerdict, JudgeClaimsAnswer, JudgeClaimsTask, Verdict

OBJECTION: Final = re.compile(r"Claim \d+ is not what its evidence says\.")
"""How a claim begins that is an objection of code to the one before it."""


def claim_judge(
    *, verdict: Verdict = "says", of: str = "", objections: Verdict = "does_not_say"
) -> Callable[[ModelCall], JudgeClaimsAnswer]:
    """Give all claims with these words a verdict, find the others in their evidence, and dismiss what code objects."""

    def decide(text: str) -> Verdict:
        if OBJECTION.match(text):
            return objections
        return verdict if of in text else "says"

    def judge(call: ModelCall) -> JudgeClaimsAnswer:
        assert isinstance(call.task, JudgeClaimsTask)
        verdicts = [
            ClaimVerdict(claim=number, verdict=decide(claim.text), reason="It says 4.")
            for number, claim in enumerate(call.task.claims, start=1)
        ]
        return JudgeClaimsAnswer(verdicts=verdicts)

    return judge
