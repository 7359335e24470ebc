"""The report by rules: an evidence sheet, answers first, every line with its source."""

import re
from collections.abc import Mapping
from typing import Final

from activities.contracts import ContradictionDraft, InputOutcome, ReportDraft, SynthesisTask
from activities.models.extractive.agents import NO_MODEL
from activities.models.extractive.instructions import Lead, read_instruction
from activities.models.extractive.wording import one_line, shortened

_MEASURED: Final = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)\s*(%|[A-Za-z]{3,})")
_EXPECTS_NUMBER: Final = re.compile(r"(?i)\bhow (?:many|much|long|often|far|high|old)\b|\b(?:limit|number|price|cost|speed|interval|wind|rate)\b")


def synthesise(task: SynthesisTask) -> ReportDraft:
    """Write the evidence sheet of a session."""
    numbers = {ref: number for number, ref in enumerate(task.sources, start=1)}
    answered = [given for given in task.outcomes if _has_answer(given)]
    lost = [given for given in task.outcomes if not _has_answer(given)]
    parts: list[str] = []
    if not answered:
        parts.append("**No document here answers this.**" if task.outcomes else "**Nothing was found.**")
    if task.stopped_because:
        parts.append(f"The work stopped early: {task.stopped_because}")
    if len(answered) > 1:
        parts.append("\n".join(f"- {_short_answer(given, numbers)}" for given in answered))
    for given in answered:
        body = _cited(_body(given), numbers)
        parts.append(f"### {_title(given)}\n\n{body}" if len(task.outcomes) > 1 else body)
    gaps = [*dict.fromkeys([*(gap for given in answered for gap in given.outcome.gaps), *(_loss(given) for given in lost)])]
    if gaps:
        parts.append("### Not answered\n\n" + "\n".join(f"- {gap}" for gap in gaps))
    parts.append(NO_MODEL)
    confidences = [given.outcome.confidence for given in answered]
    whole = sum(confidences) / len(task.outcomes) if confidences else 0
    return ReportDraft(
        answer="\n\n".join(parts),
        gaps=gaps,
        contradictions=[found for given in answered for found in _contradictions(given, numbers)],
        confidence=round(whole),
    )


def _has_answer(given: InputOutcome) -> bool:
    return given.outcome.kind in {"success", "partial"} and bool(given.outcome.content or given.outcome.findings)


def _title(given: InputOutcome) -> str:
    assignment = read_instruction(given.instruction)
    if assignment.lead in {Lead.SUMMARISE, Lead.PROFILE}:
        return shortened(assignment.place, 120) or assignment.question
    question = assignment.question
    return shortened(f"{question[:1].upper()}{question[1:]}", 200)


def _body(given: InputOutcome) -> str:
    """What the agent wrote, without the lines that the sheet says once for all."""
    return given.outcome.content.replace(NO_MODEL, "").strip() or "\n".join(f"- {finding.claim}" for finding in given.outcome.findings)


def _short_answer(given: InputOutcome, numbers: Mapping[str, int]) -> str:
    best = given.outcome.findings[0] if given.outcome.findings else None
    if best is None:
        return f"{_title(given)} {shortened(one_line(_body(given)), 240)}"
    citations = "".join(f" [S{numbers[ref]}]" for ref in best.sources if ref in numbers)
    doubt = " (may not be the answer)" if given.outcome.kind == "partial" else ""
    return f"{shortened(one_line(best.claim), 280)}{doubt}{citations}"


def _cited(text: str, numbers: Mapping[str, int]) -> str:
    for ref in sorted(numbers, key=len, reverse=True):
        text = text.replace(f"[{ref}]", f"[S{numbers[ref]}]")
    return text


def _loss(given: InputOutcome) -> str:
    outcome = given.outcome
    message = getattr(outcome, "message", "") or getattr(outcome, "reason", "")
    if outcome.gaps:
        return outcome.gaps[0]
    return f"“{_title(given)}”: {message}"


def _contradictions(given: InputOutcome, numbers: Mapping[str, int]) -> list[ContradictionDraft]:
    """Name two quotations that answer one question with different amounts of the same unit."""
    title = _title(given)
    if read_instruction(given.instruction).lead is not Lead.QUOTE or not _EXPECTS_NUMBER.search(title):
        return []
    said: list[tuple[str, str, str]] = []
    for finding in given.outcome.findings[:3]:
        amounts = {(unit.lower(), amount) for amount, unit in _MEASURED.findall(finding.claim)}
        units = {unit for unit, _ in amounts}
        document = finding.sources[0].split("#", 1)[0] if finding.sources else ""
        said += [(unit, amount, document) for unit, amount in amounts if len(units) == len(amounts)]
    for unit, amount, document in said:
        other = next(((a, d) for u, a, d in said if u == unit and a != amount and d != document), None)
        if other:
            positions = [
                f"{finding.claim}{''.join(f' [S{numbers[ref]}]' for ref in finding.sources if ref in numbers)}"
                for finding in given.outcome.findings[:3]
                if finding.sources and finding.sources[0].split("#", 1)[0] in {document, other[1]}
            ]
            return [ContradictionDraft(about=f"{title} ({amount} {unit} or {other[0]} {unit})", positions=positions, resolution="")]
    return []
