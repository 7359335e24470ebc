"""A scripted judge of a report's claims."""

import re
from collections.abc import Callable
from typing import Final

from activities.models.protocol import ModelCall
from activities.turn_kinds.judgements import ClaimVerdict, JudgeClaimsAnswer, JudgeClaimsTask, Verdict

OBJECTION: Final = re.compile(r"Claim \d+ is not what its evidence says\.")
"""The beginning of a claim that is code's objection to the claim before it."""


def claim_judge(
    *, verdict: Verdict = "says", of: str = "", objections: Verdict = "does_not_say"
) -> Callable[[ModelCall], JudgeClaimsAnswer]:
    """Give claims with these words a verdict, find all others in their evidence, and dismiss code's objections."""

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
