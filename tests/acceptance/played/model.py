"""A competent model, written by hand: it reacts to what a request shows, and knows nothing else."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.acceptance.played import agents, planning
from tests.acceptance.played.billing import Meter
from tests.acceptance.played.prose import Claim, contradictions, long_text, report_words
from tests.acceptance.played.sight import Sight
from tests.scripted_provider import ScriptedReply, ScriptedRequest, calling

_ROLE: Final = re.compile(r"You are (?:the|a|an) (\w+)")
_NUMBERED: Final = re.compile(r"^\[S(\d+)\] (\S+)", re.MULTILINE)
_GAP: Final = re.compile(r"^Gap: (.+)$|^.*?(Outcome of \S+ \(\w+\)):\n(?:.*\n)*?It produced no result", re.MULTILINE)


@dataclass
class CompetentModel:
    """Answers any turn, and notes where it was not let do what it wanted."""

    meter: Meter = field(default_factory=Meter)
    forced: list[str] = field(default_factory=list[str])
    """The tools that it wanted when it had to answer."""
    replies: list[ScriptedReply] = field(default_factory=list[ScriptedReply])

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        sight = Sight(request)
        reply = self.meter.bill(request, self._turn(sight))
        self.replies.append(reply)
        return reply

    def _turn(self, sight: Sight) -> ScriptedReply:
        kind = sight.request.answer
        if kind.startswith("Work"):
            return self._work(sight)
        return _TURNS[kind](sight)

    def _work(self, sight: Sight) -> ScriptedReply:
        role = _ROLE.search(sight.request.system)
        step, answer = agents.AGENTS[role[1] if role else ""]
        task = agents.assignment(sight)
        uses = step(sight, task)
        if uses and sight.may_use_tools:
            return calling(*uses)
        self.forced += [f"{use.tool}: {task.subject}" for use in uses]
        return answer(sight, task)


def _claims(sight: Sight) -> list[tuple[Claim, str]]:
    """List the claims of the outcomes, each with its number in the list of sources."""
    numbers = {ref: number for number, ref in _NUMBERED.findall(sight.task)}
    found: list[tuple[Claim, str]] = []
    for claim in agents.given_claims(sight.task):
        number = claim.ref.removeprefix("S") if re.fullmatch(r"S\d+", claim.ref) else numbers.get(claim.ref)
        if number:
            found.append((claim, number))
    return found


def _synthesis(sight: Sight) -> ScriptedReply:
    numbered = dict(_claims(sight))
    claims = list(numbered)
    text = "\n\n".join(f"{claim.text} [S{number}]" for claim, number in numbered.items())
    if words := report_words(sight.task):
        text = long_text(claims, words, lambda claim: f"[S{numbered[claim]}]")
    gaps = [gap or f"{lost} gave no result." for gap, lost in _GAP.findall(sight.task)]
    return sight.answer(
        answer=text or "Nothing that was found answers the request.",
        gaps=gaps,
        contradictions=_disagreements(claims, lambda claim: f"[S{numbered[claim]}]"),
        confidence=85 if claims and not gaps else 40,
    )


def _disagreements(claims: list[Claim], cite: Callable[[Claim], str]) -> list[dict[str, object]]:
    return [
        {
            "about": " ".join(one.text.split()[:4]),
            "positions": [f"{one.text} {cite(one)}", f"{other.text} {cite(other)}"],
            "resolution": "",
        }
        for one, other in contradictions(claims)
    ]


def _review(sight: Sight) -> ScriptedReply:
    claims = agents.given_claims(sight.task)
    found = _disagreements(claims, lambda claim: f"[{claim.ref}]")
    return sight.answer(enough=True, missing=[], contradictions=found, subtasks=[])


def _compress(sight: Sight) -> ScriptedReply:
    asked = re.search(r"at most (\d+) words", sight.task)
    text = sight.task.rpartition("Text:")[2].replace("<data>", "").replace("</data>", "")
    return sight.answer(content=" ".join(text.split()[: int(asked[1]) if asked else 100]))


_TURNS: Final[Mapping[str, Callable[[Sight], ScriptedReply]]] = {
    "PlanAnswer": lambda sight: sight.answer(**planning.plan(sight)),
    "SynthesisAnswer": _synthesis,
    "ReviewAnswer": _review,
    "CritiqueAnswer": lambda sight: sight.answer(acceptable=True, problems=[]),
    "JudgeAnswer": lambda sight: sight.answer(chosen="", reason="The evidence does not decide.", confidence=30),
    "RefineAnswer": lambda sight: sight.answer(worthwhile=False, instruction="", reason="The pages do not say it."),
    "CompressAnswer": _compress,
}
