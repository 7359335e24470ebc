"""The activity that verifies the report of a session, by the documents that the session itself could read."""

from dataclasses import dataclass
from pathlib import Path

from temporalio import activity
from temporalio.service import RPCError, RPCStatusCode

from activities.documents.artifacts import Artifacts
from activities.documents.downloads import Downloads
from activities.documents.quotation_check import verify_sources
from chargehand.contracts import Report, VerificationReport, VerificationRequest
from chargehand.converter import invalid_input
from chargehand.errors import SessionEnded, SessionNotFound
from chargehand.session import Session
from chargehand.visibility import describe, is_open
from chargehand.wire import ActivityType, WorkflowType


@dataclass(frozen=True)
class VerificationActivities:
    """Reads documents again, without any existing index."""

    artifacts: Artifacts
    document_roots: tuple[Path, ...] = ()
    downloads: Downloads | None = None

    @activity.defn(name=ActivityType.VERIFY_REPORT)
    async def verify_report(self, request: VerificationRequest) -> VerificationReport:
        """Look up each quotation and claim of a report, which is read from the server, not taken from a caller."""
        report, documents = await _finished(request.session)
        quotations, claims = await verify_sources(
            documents, report, self.artifacts, self.document_roots, self.downloads
        )
        return VerificationReport(session=request.session, quotations=quotations, claims=claims)


async def _finished(session_id: str) -> tuple[Report, tuple[str, ...]]:
    """Read the report and the documents of a session of this worker's task queue that has ended."""
    client, own = activity.client(), activity.info().task_queue
    try:
        found = (await describe(client, session_id)).workflow_execution_info
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise invalid_input("VerificationRequest", [f"session: {SessionNotFound(session_id)}"]) from error
        raise
    if found.type.name != WorkflowType.SUPERVISOR or found.task_queue != own:
        raise invalid_input("VerificationRequest", [f"session: is not a session of the task queue '{own}'"])
    if is_open(found):
        raise invalid_input("VerificationRequest", ["session: it still runs; verify it when it has ended"])
    session = Session(client, session_id)
    try:
        return await session.result(), await session.documents()
    except SessionEnded as error:
        problem = f"session: it has no report: {error}"
        raise invalid_input("VerificationRequest", [problem]) from error
