"""The report by rules: an evidence sheet, answers first, every line with its source."""

import re
from collections.abc import Mapping
from itertools import combinations
from typing import Final

from activities.contracts import ContradictionDraft, InputOutcome
from activities.models.extractive.agents import NO_MODEL
from activities.models.extractive.instructions import Lead, read_instruction
from activities.models.extractive.wording import content_stems, one_line, shortened
from activities.turn_kinds.synthesis import SynthesisAnswer, SynthesisTask
from chargehand.contracts import Finding

_MEASURED: Final = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)\s*(%|[A-Za-z]{3,})")
_ASKS: Final = re.compile(
    r"(?i)(?:how|what|which|who|whom|whose|when|where|why|is|are|was|were|do|does|did|can|has|have)\b"
)
_EXPECTS_NUMBER: Final = re.compile(
    r"(?i)\bhow (?:many|much|long|often|far|high|old)\b|\b(?:limit|number|price|cost|speed|interval|wind|rate)\b"
)


def synthesise(task: SynthesisTask) -> SynthesisAnswer:
    """Write the evidence sheet of a session."""
    numbers = {ref: number for number, ref in enumerate(task.sources, start=1)}
    answered = [given for given in task.outcomes if _has_answer(given)]
    lost = [given for given in task.outcomes if not _has_answer(given)]
    gaps = list(dict.fromkeys(gap for given in task.outcomes for gap in given.outcome.gaps))
    parts = [] if answered else ["**No document here answers this.**"]
    if task.stopped_because:
        parts.append(f"The work stopped early: {task.stopped_because}")
    parts += [_cited(_short_answer(given), numbers) for given in answered]
    details = [(given, body) for given in answered if (body := _cited(_evidence(given), numbers))]
    if details:
        parts.append("## Evidence")
        parts += [f"**{_title(given)}**\n\n{body}" for given, body in details]
    missing = [*(_loss(given) for given in lost), *gaps]
    if missing:
        parts.append("## Not answered\n\n" + "\n".join(f"- {gap}" for gap in dict.fromkeys(missing)))
    parts.append(NO_MODEL)
    confidences = [given.outcome.confidence for given in answered]
    return SynthesisAnswer(
        answer="\n\n".join(parts),
        gaps=gaps,
        contradictions=[found for given in answered for found in _contradictions(given, numbers)],
        confidence=round(sum(confidences) / len(task.outcomes)) if confidences else 0,
    )


def _has_answer(given: InputOutcome) -> bool:
    return given.outcome.kind in {"success", "partial"} and bool(given.outcome.content or given.outcome.findings)


def _title(given: InputOutcome) -> str:
    assignment = read_instruction(given.instruction)
    if assignment.lead in {Lead.SUMMARISE, Lead.PROFILE}:
        return shortened(assignment.place, 120) or assignment.question
    question = assignment.question.rstrip(" .,")
    mark = "" if question.endswith("?") or not _ASKS.match(question) else "?"
    return shortened(f"{question[:1].upper()}{question[1:]}{mark}", 200)


def _blocks(given: InputOutcome) -> list[str]:
    """The paragraphs that the agent wrote, without what the sheet says once for all."""
    content = given.outcome.content.replace(NO_MODEL, "").strip()
    return [block for block in content.split("\n\n") if block.strip()] or [
        f"- {finding.claim}" for finding in given.outcome.findings
    ]


def _short_answer(given: InputOutcome) -> str:
    """The question with the best of what was found for it."""
    blocks = _blocks(given)
    if read_instruction(given.instruction).lead is Lead.SUMMARISE:
        return "\n\n".join(blocks)
    best = given.outcome.findings[0] if given.outcome.findings else None
    is_quoted = best is not None and best.claim.startswith("“")
    if best is not None and is_quoted:
        said = f"{best.claim} {''.join(f'[{ref}]' for ref in best.sources)}"
    else:
        said = blocks[0] if not blocks[0].startswith(("|", ">")) else ""
    doubt = " *(This may not be the answer.)*" if given.outcome.kind == "partial" and is_quoted else ""
    return f"**{_title(given)}**  \n{said}{doubt}"


def _evidence(given: InputOutcome) -> str:
    """What there is beyond the short answer."""
    if read_instruction(given.instruction).lead is Lead.SUMMARISE:
        return ""
    blocks = _blocks(given)
    best = given.outcome.findings[0] if given.outcome.findings else None
    if best is None or not best.claim.startswith("“"):
        return "\n\n".join(block for block in blocks[1:] if block not in given.outcome.gaps)
    quotations = [block for block in blocks if block.startswith(">")]
    is_whole = bool(quotations) and one_line(quotations[0].replace("\n>", " ")).startswith(
        f"> {best.claim.strip('“”')} "
    )
    rest = [block for block in blocks if block not in given.outcome.gaps]
    return "\n\n".join(block for block in rest if not (is_whole and block == quotations[0]))


def _cited(text: str, numbers: Mapping[str, int]) -> str:
    for ref in sorted(numbers, key=len, reverse=True):
        text = text.replace(f"[{ref}]", f"[S{numbers[ref]}]")
    return text


def _loss(given: InputOutcome) -> str:
    outcome = given.outcome
    message = getattr(outcome, "message", "") or getattr(outcome, "reason", "")
    return message if _title(given).rstrip("?")[1:40] in message else f"“{_title(given)}”: {message}"


def _contradictions(given: InputOutcome, numbers: Mapping[str, int]) -> list[ContradictionDraft]:
    """Name two quotations that answer one question with different amounts of the same unit."""
    title = _title(given)
    if read_instruction(given.instruction).lead is not Lead.QUOTE or not _EXPECTS_NUMBER.search(title):
        return []
    said = [(finding, *amount) for finding in given.outcome.findings[:3] if (amount := _sole_amount(finding))]
    for (first, amount, unit), (second, other, other_unit) in combinations(said, 2):
        if unit == other_unit and amount != other and _say_the_same(first, second):
            about = f"{title} ({amount} {unit} or {other} {unit})"
            positions = [_with_citations(first, numbers), _with_citations(second, numbers)]
            return [ContradictionDraft(about=about, positions=positions, resolution="")]
    return []


def _sole_amount(finding: Finding) -> tuple[str, str] | None:
    """The amount of a claim that gives only one."""
    amounts = _MEASURED.findall(finding.claim)
    return (amounts[0][0], amounts[0][1].lower()) if len(amounts) == 1 else None


def _say_the_same(first: Finding, second: Finding) -> bool:
    """Whether two claims of different documents have so many words in common that only their amounts differ."""
    if first.sources[:1] and second.sources[:1] and _document(first) == _document(second):
        return False
    left, right = (frozenset(content_stems(_MEASURED.sub(" ", finding.claim))) for finding in (first, second))
    return len(left & right) >= 0.5 * len(left | right)


def _document(finding: Finding) -> str:
    return finding.sources[0].split("#", 1)[0]


def _with_citations(finding: Finding, numbers: Mapping[str, int]) -> str:
    return finding.claim + "".join(f" [S{numbers[ref]}]" for ref in finding.sources if ref in numbers)
