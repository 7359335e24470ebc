"""A competent, hand-written model: it reacts to what a request shows, and knows nothing else."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.played import agents, planning
from benchmarks.played.billing import Meter
from benchmarks.played.prose import Claim, contradictions, long_text, words_asked
from benchmarks.played.sight import Sight, sentences, speaks_of
from tests.claim_judge import OBJECTION
from tests.scripted_provider import ScriptedReply, ScriptedRequest, calling

_ROLE: Final = re.compile(r"You are (?:the|a|an) (\w+)")
_NUMBERED: Final = re.compile(r"^\[S(\d+)\] (\S+)", re.MULTILINE)
_CITED: Final = re.compile(r"S\d+(?:\.\d+)?")
_SECTION: Final = re.compile(r"Write only this section.*?\n(?:<data>\n)?(\w+):", re.DOTALL)
_GAP: Final = re.compile(r"^Gap: (.+)$|^.*?(Outcome of \S+ \(\w+\)):\n(?:.*\n)*?It produced no result", re.MULTILINE)


@dataclass
class CompetentModel:
    """Answers any turn, and records where it was not allowed to do what it wanted."""

    meter: Meter = field(default_factory=Meter)
    seconds: float = 0.0
    """Seconds until the first token of each reply."""
    forced: list[str] = field(default_factory=list[str])
    """The tools that it wanted to use when it had to answer."""
    replies: list[ScriptedReply] = field(default_factory=list[ScriptedReply])

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        sight = Sight(request)
        self._expect_thoughts(request)
        reply = self.meter.bill(request, self._turn(sight)).after(self.seconds)
        self.replies.append(reply)
        return reply

    def _turn(self, sight: Sight) -> ScriptedReply:
        kind = sight.request.answer
        if kind.startswith("Work"):
            return self._work(sight)
        return _TURNS[kind](sight)

    def _expect_thoughts(self, request: ScriptedRequest) -> None:
        """Refuse a conversation without its thinking, as the provider does: it must precede each use of tools."""
        given = {reply.thought for reply in self.replies if reply.thought}
        for message in request.body.get("messages", ()):
            blocks: list[dict[str, Any]] = message["content"] if isinstance(message["content"], list) else []
            if (
                given
                and any(block["type"] == "tool_use" for block in blocks)
                and blocks[0].get("signature") not in given
            ):
                raise ValueError("a message that uses tools has lost the thinking before it")

    def _work(self, sight: Sight) -> ScriptedReply:
        role = _ROLE.search(sight.request.system)
        step, answer = agents.AGENTS[role[1] if role else ""]
        task = agents.assignment(sight)
        uses = step(sight, task)
        if uses and sight.may_use_tools:
            return calling(*uses)
        self.forced += [f"{use.tool}: {task.subject}" for use in uses]
        return answer(sight, task)


def _cited_claims(sight: Sight) -> dict[Claim, str]:
    """List the claims of the outcomes, each with its citation from the list of sources."""
    numbers = {ref: f"S{number}" for number, ref in _NUMBERED.findall(sight.task)}
    found: dict[Claim, str] = {}
    for claim in agents.given_claims(sight.task):
        number = claim.ref if _CITED.fullmatch(claim.ref) else numbers.get(claim.ref)
        if number:
            found[claim] = f"[{number}]"
    return found


def _synthesis(sight: Sight) -> ScriptedReply:
    cited = _cited_claims(sight)
    if section := _SECTION.search(sight.task):
        cited = {claim: citation for claim, citation in cited.items() if speaks_of(claim.text, section[1])}
    gaps = [gap or f"{lost} gave no result." for gap, lost in _GAP.findall(sight.task)]
    return sight.answer(
        answer=long_text(list(cited), words_asked(sight.task), cited.__getitem__) or "*Nothing answers the request.*",
        gaps=gaps,
        contradictions=_disagreements(list(cited), cited.__getitem__),
        confidence=85 if cited and not gaps else 40,
    )


def _outline(sight: Sight) -> ScriptedReply:
    """Create one section for each thing that the outcomes were asked about."""
    subjects = list(dict.fromkeys(re.findall(r"Subject: (\w+)", sight.task)))
    words = words_asked(sight.task) // max(len(subjects), 1)
    return sight.answer(
        title="Bericht",
        sections=[{"heading": subject, "brief": f"Alles über {subject}.", "words": words} for subject in subjects],
        gaps=[],
        contradictions=[],
        confidence=85,
    )


def _expand(sight: Sight) -> ScriptedReply:
    """Fill in the template once for each name in the list."""
    template = re.search(rf"Subject: {planning.ITEM}\..*", sight.task)
    statements = [agents.Evidence("", sentence, "") for sentence in sentences(sight.task)]
    names = agents.listed_names(statements) if template else []
    instructions = [template[0].replace(planning.ITEM, f"{name} municipality") for name in names if template]
    return sight.answer(instructions=instructions, omitted=[])


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


def _verdicts(sight: Sight) -> ScriptedReply:
    """Look up every claim in its evidence, and reject objections from code."""
    claims = re.findall(r"^Claim (\d+): <data>\n(.*)", sight.task, re.MULTILINE)
    verdicts = [
        {"claim": int(number), "verdict": "does_not_say" if OBJECTION.match(text) else "says", "reason": ""}
        for number, text in claims
    ]
    return sight.answer(verdicts=verdicts)


_TURNS: Final[Mapping[str, Callable[[Sight], ScriptedReply]]] = {
    "ExpandAnswer": _expand,
    "OutlineAnswer": _outline,
    "PlanAnswer": lambda sight: sight.answer(**planning.plan(sight)),
    "SynthesisAnswer": _synthesis,
    "ReviewAnswer": _review,
    "JudgeClaimsAnswer": _verdicts,
    "CritiqueAnswer": lambda sight: sight.answer(acceptable=True, problems=[]),
    "JudgeAnswer": lambda sight: sight.answer(chosen="", reason="The evidence does not decide.", confidence=30),
    "RefineAnswer": lambda sight: sight.answer(worthwhile=False, instruction="", reason="The pages do not say it."),
    "CompressAnswer": _compress,
}
