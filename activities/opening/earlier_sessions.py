"""What a session knows about the one that it follows, read once from the server, bounded and typed."""

from typing import Final

from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.contracts.session import EarlierWork
from chargehand.contracts import EarlierSession, Finding, Report, SessionRequest, Source
from chargehand.contracts.problems import printable, shorten
from chargehand.contracts.request import MOST_DOCUMENTS
from chargehand.converter import invalid_input
from chargehand.errors import NotReachable, SessionEnded, SessionNotFound
from chargehand.session import Session
from chargehand.visibility import describe, is_open
from chargehand.wire import WorkflowType

_ANSWER_CHARACTERS: Final = 12_000
_EARLIER_CLAIM_CHARACTERS: Final = 600
_QUOTE_CHARACTERS: Final = 1_200
_FINDINGS: Final = 40
_SOURCES: Final = 60
_THREAD: Final = 20
"""Maximum summaries of a thread's sessions: the first one, and the latest."""
_GOAL_BRIEF: Final = 300
_ANSWER_BRIEF: Final = 500
_SESSION_CHARACTERS: Final = 300


async def read_earlier_work(client: Client, request: SessionRequest) -> EarlierWork | None:
    """Read the report and the documents of the session that a request follows.

    Raises `InvalidInput` if the session does not exist or has no report that this session can access.
    """
    if request.follows is None:
        return None
    earlier = Session(client, request.follows)
    name = printable(request.follows, _SESSION_CHARACTERS)
    try:
        earlier_request = await _request_of(client, earlier, request.tenant)
        report = await earlier.result()
        documents = await earlier.documents() if request.earlier_documents else ()
    except SessionNotFound as error:
        problem = f"there is no session '{name}' of tenant '{request.tenant}' in this namespace"
        raise _refusal(
            f"{problem}, or its retention has ended: give the new session the report as a document instead, if it "
            "was kept (`.chargehand/sessions/…/report.md`)"
        ) from error
    except SessionEnded as error:
        raise _refusal(
            f"session '{name}' has no report to follow: {printable(str(error), _SESSION_CHARACTERS)}"
        ) from error
    added = tuple(each for each in documents if each not in request.documents)
    if (total := len(request.documents) + len(added)) > MOST_DOCUMENTS:
        limit = f"there are {total}; at most {MOST_DOCUMENTS} are allowed"
        problem = f"documents: with those of session '{name}' {limit}; name fewer, or set earlier_documents to false"
        raise invalid_input("SessionRequest", [problem])
    return _earlier_work(report, earlier_request.goal, added)


async def _request_of(client: Client, earlier: Session, tenant: str) -> SessionRequest:
    """Return the request of an ended session; a session of another tenant counts as nonexistent."""
    try:
        execution = (await describe(client, earlier.id)).workflow_execution_info
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise SessionNotFound(earlier.id) from error
        raise NotReachable(error.message) from error
    if execution.type.name != WorkflowType.SUPERVISOR or execution.HasField("parent_execution"):
        raise SessionNotFound(earlier.id)
    session_request = await earlier.request()
    if session_request.tenant != tenant:
        raise SessionNotFound(earlier.id)
    if is_open(execution):
        name = printable(earlier.id, _SESSION_CHARACTERS)
        raise _refusal(
            f"session '{name}' is still running: wait for its report (`chargehand watch {name}`), or have it written "
            f"now (`chargehand finish {name}`)"
        )
    return session_request


def _refusal(problem: str) -> ApplicationError:
    return invalid_input("SessionRequest", [f"follows: {problem}"])


def _earlier_work(report: Report, goal: str, documents: tuple[str, ...]) -> EarlierWork:
    sources = report.sources[:_SOURCES]
    refs = {source.ref for source in sources}
    findings = [
        Finding(
            claim=claim.text[:_EARLIER_CLAIM_CHARACTERS],
            sources=claim.sources,
            confidence=report.confidence,
            quote=claim.quote if len(claim.quote) <= _QUOTE_CHARACTERS else "",
        )
        for claim in report.claims
        if claim.sources and refs.issuperset(claim.sources)
    ]
    brief = EarlierSession(
        session=report.session, goal=shorten(goal, _GOAL_BRIEF), answer=shorten(report.answer, _ANSWER_BRIEF)
    )
    before = report.thread if len(report.thread) < _THREAD else (report.thread[0], *report.thread[2 - _THREAD :])
    return EarlierWork(
        goal=goal[:_ANSWER_CHARACTERS],
        answer=shorten(report.answer, _ANSWER_CHARACTERS),
        confidence=report.confidence,
        findings=tuple(findings[:_FINDINGS]),
        sources=tuple(_mark(source, report.session) for source in sources),
        thread=(*before, brief),
        documents=documents,
        reads=report.reads,
    )


def _mark(source: Source, session: str) -> Source:
    """Mark a source with the session that read it, and keep its citable part."""
    return source.replace(session=source.session or session, quote=source.quote[:_QUOTE_CHARACTERS])
