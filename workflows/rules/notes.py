"""The notes of a subtask: claims that an agent keeps, checked against what it has read."""

from collections.abc import Iterable, Mapping
from typing import Final

from activities.contracts.rounds import Note, ToolCall, ToolResult
from activities.tools.note import NOTE
from chargehand.contracts import Source
from workflows.rules.citation_checks import stands_in
from workflows.rules.evidence import CLAIM_CHARACTERS, QUOTE_CHARACTERS

MOST_NOTES: Final = 100
_MOST_BYTES: Final = 60_000
"""Of all notes as JSON: each new conversation begins with them."""


class Notes:
    """The notes of one subtask, each kept once, up to a bound in number and bytes."""

    def __init__(self, kept: Iterable[Note] = ()) -> None:
        self._kept: dict[tuple[str, str], Note] = {}
        self._bytes = 0
        for note in kept:
            self._keep(note)

    @property
    def kept(self) -> tuple[Note, ...]:
        return tuple(self._kept.values())

    def answer(self, call: ToolCall, read: Mapping[str, Source]) -> ToolResult:
        """Answer a call of the tool `note`."""
        if call.malformed:
            problem = f"The arguments could not be read: {call.malformed}"
        else:
            claim, ref, quote = (call.arguments.get(name, "") for name in ("claim", "ref", "quote"))
            if isinstance(claim, str) and isinstance(ref, str) and isinstance(quote, str):
                problem = self.add(claim, ref, quote, read)
            else:
                problem = "claim, ref and quote are texts."
        output = {"error": problem} if problem else {"notes": len(self._kept)}
        return ToolResult(call_id=call.id, tool=NOTE.name, ok=not problem, output={**output})

    def add(self, claim: str, ref: str, quote: str, read: Mapping[str, Source]) -> str:
        """Keep a claim that rests on a source that was read, or on none; returns why not, or nothing."""
        claim, ref, quote = claim.strip(), ref.strip().removeprefix("[").removesuffix("]"), quote.strip()
        source = read.get(ref)
        if not claim or len(claim) > CLAIM_CHARACTERS:
            return f"A claim has 1 to {CLAIM_CHARACTERS:,} characters."
        if (claim, ref) in self._kept:
            return "You have kept this note already."
        if source is not None:
            problem = _problem_with(quote, source)
            return problem or self._keep(Note(claim=claim, source=source.model_copy(update={"quote": quote})))
        if ref:
            return "No tool has returned this ref; copy it as it stands in brackets."
        return self._keep(Note(claim=claim))

    def _keep(self, note: Note) -> str:
        size = len(note.model_dump_json().encode())
        if len(self._kept) == MOST_NOTES or self._bytes + size > _MOST_BYTES:
            return f"No more notes fit beside the {len(self._kept)} that you have kept; go on, and answer from them."
        self._bytes += size
        self._kept[note.claim, note.source.ref if note.source else ""] = note
        return ""


def _problem_with(quote: str, source: Source) -> str:
    if len(quote) > QUOTE_CHARACTERS:
        return f"A quote has at most {QUOTE_CHARACTERS} characters; copy only the words that matter."
    if quote and not stands_in(quote, source.quote):
        return "The source does not contain these words; copy them exactly, or leave the quote empty."
    return ""
