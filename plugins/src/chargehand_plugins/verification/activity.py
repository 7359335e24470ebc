"""The activity that verifies a session's report against the documents that the session could read."""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from temporalio import activity
from temporalio.service import RPCError, RPCStatusCode

from activities.contracts.quotations import PASSAGE_GAP, as_compared
from activities.documents.library import DocumentLibrary, OpenLibrary
from activities.documents.locations import DocumentSources
from activities.documents.names import UnknownDocumentError
from activities.documents.passages import parse_reference
from chargehand.contracts import Claim, ClaimCheck, QuoteCheck, Report, Source, VerificationReport, VerificationRequest
from chargehand.converter import invalid_input
from chargehand.errors import SessionEnded, SessionNotFound
from chargehand.session import Session
from chargehand.visibility import describe, is_open
from chargehand.wire import ActivityType, WorkflowType
from worker.parts import WorkerParts

_CUT_GAP: Final = re.compile(r"\n\[?…?\]?\Z")
"""The remainder of the separator between passages in a truncated quotation."""


@dataclass(frozen=True)
class VerificationActivities:
    """Reads documents again, without an existing index."""

    sources: DocumentSources

    @activity.defn(name=ActivityType.VERIFY_REPORT)
    async def verify_report(self, request: VerificationRequest) -> VerificationReport:
        """Verify each quotation and claim of a report, which is read from the server instead of the caller."""
        report, documents = await _read_report(request.session)
        quotations, claims = await verify_sources(documents, report.sources, report.claims, self.sources)
        return VerificationReport(session=request.session, quotations=quotations, claims=claims)


async def add_parts(parts: WorkerParts) -> None:
    parts.activities.append(VerificationActivities(parts.library.sources).verify_report)


async def _read_report(session_id: str) -> tuple[Report, tuple[str, ...]]:
    """Read the report and documents of an ended session of this worker's task queue."""
    client, own = activity.client(), activity.info().task_queue
    try:
        description = (await describe(client, session_id)).workflow_execution_info
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise invalid_input("VerificationRequest", [f"session: {SessionNotFound(session_id)}"]) from error
        raise
    if description.type.name != WorkflowType.SUPERVISOR or description.task_queue != own:
        raise invalid_input("VerificationRequest", [f"session: is not a session of the task queue '{own}'"])
    if is_open(description):
        raise invalid_input("VerificationRequest", ["session: it still runs; verify it when it has ended"])
    session = Session(client, session_id)
    try:
        return await session.result(), await session.documents()
    except SessionEnded as error:
        raise invalid_input("VerificationRequest", [f"session: it has no report: {error}"]) from error


async def quote_stands(document: OpenLibrary, place: str, quote: str) -> QuoteCheck:
    """Check that the words of a quotation appear, in order, at a place such as `handbook.md#L10-L14`.

    White space, hyphens, ligatures and the form of quotation marks are ignored. Other words are allowed between parts
    separated by `[…]` or line ends.
    """
    documents = document.catalog.documents
    named = parse_reference(place, [entry.name for entry in documents])
    if named is None:
        unread = next(
            (f"; {entry.name} could not be read. {entry.problem}" for entry in documents if entry.problem), ""
        )
        return QuoteCheck(ref=place, stands=False, problem=f"it names no place in a document of this session{unread}")
    try:
        there = as_compared(await document.text_at(named))
    except UnknownDocumentError as error:
        return QuoteCheck(ref=place, stands=False, problem=str(error))
    if not quote.strip():
        return QuoteCheck(ref=place, stands=False, problem="nothing is quoted")
    for stretch in _CUT_GAP.sub("", quote.rstrip()).split(PASSAGE_GAP):
        at = 0
        for line in filter(None, map(as_compared, stretch.split("\n"))):
            start = there.find(line, at)
            if start < 0:
                return QuoteCheck(ref=place, stands=False, problem=f"these words do not stand there: {line[:80]}")
            at = start + len(line)
    return QuoteCheck(ref=place, stands=True)


async def verify_sources(
    documents: tuple[str, ...], quotations: Sequence[Source], claims: Sequence[Claim], sources: DocumentSources
) -> tuple[tuple[QuoteCheck, ...], tuple[ClaimCheck, ...]]:
    """Read a session's documents again, without an existing index, and check each document source, then each claim.

    Other sources, such as web pages and queries, are omitted.
    """
    with tempfile.TemporaryDirectory() as directory:
        library = DocumentLibrary(sources.artifacts, Path(directory), sources.allowed_roots, sources.downloads)
        opened = await library.open(documents)
        quoted = {each.ref: each for each in quotations if each.quote and _is_of_a_document(each)}
        checks = [await quote_stands(opened, each.ref, each.quote) for each in quoted.values()]
        return tuple(checks), tuple([await _check_claim(opened, claim) for claim in claims])


async def _check_claim(document: OpenLibrary, claim: Claim) -> ClaimCheck:
    """Look for a claim's quotation in the documents that it cites."""
    if not claim.quote:
        return ClaimCheck(claim=claim.text, verification=claim.verification)
    places = [ref for ref in claim.sources if _is_of_a_document(Source(ref=ref)) and "://" not in ref]
    checks = [await quote_stands(document, place, claim.quote) for place in places]
    if not checks or any(check.stands for check in checks):
        return ClaimCheck(claim=claim.text, verification=claim.verification, was_found=bool(checks))
    return ClaimCheck(claim=claim.text, verification="unsupported", stands=False, problem=checks[0].problem)


def _is_of_a_document(source: Source) -> bool:
    return not source.url and not source.ref.startswith("sql:") and "#" in source.ref
