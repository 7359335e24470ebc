"""Check quotations, and the claims that rest on them, by reading the documents again."""

import re
import tempfile
from pathlib import Path
from typing import Final, Protocol

from activities.contracts.rounds import PASSAGE_GAP
from activities.documents.artifacts import Artifacts
from activities.documents.downloads import Downloads
from activities.documents.library import DocumentLibrary, OpenLibrary
from activities.documents.names import UnknownDocumentError
from activities.documents.passages import parse_reference
from chargehand.contracts import Claim, ClaimCheck, QuoteCheck, Source

_CUT_GAP: Final = re.compile(r"\n\[?…?\]?\Z")
"""The rest of the mark between two passages, where a quotation was cut."""


class Quoting(Protocol):
    """What has quotations, such as a report."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """The quotations."""
        ...

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What rests on them."""
        ...


async def quote_stands(document: OpenLibrary, place: str, quote: str) -> QuoteCheck:
    """Check that the words of a quotation appear, in order, at a place such as `handbook.md#L10-L14`.

    White space is ignored. Between stretches that `[…]` or line ends separate, other words may stand.
    """
    documents = document.catalog.documents
    named = parse_reference(place, [entry.name for entry in documents])
    if named is None:
        unread = next(
            (f"; {entry.name} could not be read. {entry.problem}" for entry in documents if entry.problem), ""
        )
        return QuoteCheck(ref=place, stands=False, problem=f"it names no place in a document of this session{unread}")
    try:
        there = _plain(await document.text_at(named))
    except UnknownDocumentError as error:
        return QuoteCheck(ref=place, stands=False, problem=str(error))
    if not quote.strip():
        return QuoteCheck(ref=place, stands=False, problem="nothing is quoted")
    for stretch in _CUT_GAP.sub("", quote.rstrip()).split(PASSAGE_GAP):
        at = 0
        for line in filter(None, map(_plain, stretch.split("\n"))):
            found = there.find(line, at)
            if found < 0:
                return QuoteCheck(ref=place, stands=False, problem=f"these words do not stand there: {line[:80]}")
            at = found + len(line)
    return QuoteCheck(ref=place, stands=True)


async def verify_sources(
    documents: tuple[str, ...],
    report: Quoting,
    artifacts: Artifacts,
    allowed_roots: tuple[Path, ...] = (),
    downloads: Downloads | None = None,
) -> tuple[tuple[QuoteCheck, ...], tuple[ClaimCheck, ...]]:
    """Read a session's documents again, without any existing index, and check each document source, then each claim.

    Other sources, such as web pages and queries, are left out.
    """
    with tempfile.TemporaryDirectory() as directory:
        library = DocumentLibrary(artifacts, Path(directory), allowed_roots, downloads)
        opened = await library.open(documents)
        quoted = {each.ref: each for each in report.sources if each.quote and _is_of_a_document(each)}
        checks = [await quote_stands(opened, each.ref, each.quote) for each in quoted.values()]
        return tuple(checks), tuple([await _check_claim(opened, claim) for claim in report.claims])


async def _check_claim(document: OpenLibrary, claim: Claim) -> ClaimCheck:
    """Look for the words that a claim rests on in the documents that it cites."""
    if claim.verification != "quoted":
        return ClaimCheck(claim=claim.text, verification=claim.verification)
    places = [ref for ref in claim.sources if _is_of_a_document(Source(ref=ref)) and "://" not in ref]
    checks = [await quote_stands(document, place, claim.quote) for place in places]
    if not checks or any(check.stands for check in checks):
        return ClaimCheck(claim=claim.text, verification="quoted" if checks else "unchecked")
    return ClaimCheck(claim=claim.text, verification="unsupported", stands=False, problem=checks[0].problem)


def _is_of_a_document(source: Source) -> bool:
    return not source.url and not source.ref.startswith("sql:") and "#" in source.ref


def _plain(text: str) -> str:
    return " ".join(text.split())
