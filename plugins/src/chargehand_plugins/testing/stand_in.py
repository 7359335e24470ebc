"""A stand-in for the client: its interface without a server, with scripted sessions."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import Any, Final, Unpack, cast, overload

from temporalio.client import Schedule

from chargehand.client import Chargehand
from chargehand.contracts import (
    ConversationRequest,
    Event,
    Plan,
    PlanDecision,
    Report,
    SessionRequest,
    SessionState,
    Status,
    Timing,
    Trace,
    TypedByPeople,
    VerificationReport,
)
from chargehand.contracts.base import contract
from chargehand.contracts.problems import one_line
from chargehand.errors import SessionCancelled, SessionEnded, SessionNotFound, SessionTerminated, UpdateRefused
from chargehand.interface import refuse_difference, valid_id
from chargehand.listing import SessionFilters, SessionSummary
from chargehand.messages import Input, Output, SessionMessage
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.storage import Storage
from chargehand.schedules import Overlap, scheduled, times
from chargehand.session import Session
from chargehand.shared_files import Document
from chargehand.wire import TASK_QUEUE, ErrorType, SearchAttribute
from chargehand_plugins.testing.stand_in_conversation import StandInConversation, Talk

_AT: Final = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class StandInScript:
    """The script of a stand-in session."""

    result: Report | SessionEnded
    """Its result: the report, or the error to raise."""
    status: Status | None = None
    """Its status; derived from `result` if absent."""
    plan: Plan | None = None
    """The plan that can be read and decided on."""
    trace: Trace | None = None
    """Its trace; empty if absent."""
    verification: VerificationReport | None = None
    """Its verification."""
    events: tuple[Event, ...] = ()
    """Its events, for `follow`."""
    artifacts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Files created by its agents, by name."""


def report_of(answer: str, *, session: str = "session-1", goal: str = "") -> Report:
    """Build a report with this answer and no duration; change other fields by `model_copy(update=…)`."""
    timing = Timing(
        started_at=_AT,
        ended_at=_AT,
        wall=timedelta(0),
        subtasks_one_after_another=timedelta(0),
        critical_path=timedelta(0),
        speed_up=1.0,
    )
    return Report(session=session, goal=goal, answer=answer, stop_reason="completed", timing=timing)


@dataclass
class _Run:
    script: StandInScript
    request: SessionRequest
    documents: tuple[Document, ...] = ()
    sent: list[tuple[str, TypedByPeople | None]] = field(default_factory=list[tuple[str, TypedByPeople | None]])
    was_cancelled: bool = False


class StandInSession(Session):
    """A session that follows its script."""

    def __init__(self, session_id: str, chargehand: "StandInChargehand") -> None:  # it has no client
        self.id = session_id
        self._chargehand = chargehand

    async def request(self) -> SessionRequest:
        return self._run().request

    follow_up = Session.follow_up

    async def documents(self) -> tuple[str, ...]:
        return self._run().request.documents

    async def ask(
        self, goal: str, *, documents: Sequence[Document] = (), session_id: str | None = None, **fields: Any
    ) -> "StandInSession":
        """Start a follow-up session."""
        request = await self.follow_up(contract(SessionRequest, **{**fields, "goal": goal}))
        return await self._chargehand.start(request, documents=documents, session_id=session_id)

    async def thread(self) -> tuple[SessionSummary, ...]:
        """List the sessions of the thread, oldest first."""
        first = self._chargehand.summary(self.id).thread
        return tuple([each async for each in self._chargehand.list(1_000, thread=first)][::-1])

    async def send(
        self,
        message: SessionMessage[..., Input, Output],
        content: Input,
        *,
        id: str | None = None,  # noqa: A002, ARG002  # as in Temporal; as in `Session`
    ) -> Output:
        """Record an update in `sent`; return the script's status or plan, or the decision's plan."""
        run = self._run()
        plan = content.plan if isinstance(content, PlanDecision) and content.plan else run.script.plan
        status = Status(session=self.id, goal=run.request.goal, state=_state(run), plan=run.script.plan)
        answer = plan if message.returns is not Status else run.script.status or status
        if message.kind == "update":
            if answer is None:
                raise UpdateRefused("This session is not awaiting approval.", ErrorType.UPDATE_REFUSED)
            run.sent.append((message.name, content))
        return cast("Output", answer)

    async def result(self) -> Report:
        """Return the script's report, or raise its error."""
        run = self._run()
        if run.was_cancelled:
            raise SessionCancelled(f"Session '{self.id}' was cancelled.")
        if isinstance(run.script.result, SessionEnded):
            raise run.script.result
        return run.script.result

    async def opened(self) -> None: ...

    async def cancel(self) -> None:
        """Cancel the session: its result is `SessionCancelled` from now on."""
        self._run().was_cancelled = True

    async def recorded_status(self) -> Status:
        """Return the script's status."""
        return await self.status()

    async def trace(self) -> Trace:
        return self._run().script.trace or Trace(session=self.id, exported_at=_AT)

    async def verify(self) -> VerificationReport:
        """Return the script's verification; empty if absent."""
        return self._run().script.verification or VerificationReport(session=self.id)

    async def follow(self, after: str | None = None) -> AsyncGenerator[Event]:
        """Yield the script's events, or those after a cursor."""
        events = self._run().script.events
        cursors = [event.cursor for event in events]
        for event in events[cursors.index(after) + 1 if after else 0 :]:
            yield event

    @overload
    async def artifacts(self) -> dict[str, bytes]: ...

    @overload
    async def artifacts(self, to: str | PathLike[str]) -> dict[str, Path]: ...

    async def artifacts(self, to: str | PathLike[str] | None = None) -> dict[str, bytes] | dict[str, Path]:
        """Return the script's files, or write them into a folder."""
        files = dict(self._run().script.artifacts)
        if to is None:
            return files
        return await asyncio.to_thread(_write, files, Path(to))

    def _run(self) -> _Run:
        return self._chargehand.run_of(self.id)


class StandInChargehand(Chargehand):
    """Sessions without a server."""

    def __init__(
        self,
        *scripts: StandInScript | Report | SessionEnded,
        task_queue: str = TASK_QUEUE,
        replies: Sequence[str] = ("So it is.",),
    ) -> None:
        """Take scripts of sessions in order of their start, and replies of conversations.

        The last script and the last reply apply to all further ones.
        """
        if not scripts:
            raise ValueError(
                "say how sessions end: StandInChargehand(report_of('…')) or StandInChargehand(SessionFailed(…))"
            )
        self.task_queue = task_queue
        self._scripts = [script if isinstance(script, StandInScript) else StandInScript(script) for script in scripts]
        self.schedules: dict[str, Schedule] = {}
        """Schedules by id."""
        self._runs: dict[str, _Run] = {}
        self._replies = replies
        self.talks: dict[str, Talk] = {}
        """Conversations by id."""

    @property
    def requests(self) -> dict[str, SessionRequest]:
        """Requests by session id, oldest first."""
        return {session_id: run.request for session_id, run in self._runs.items()}

    @property
    def uploads(self) -> dict[str, tuple[Document, ...]]:
        """Documents passed with the requests, by session id."""
        return {session_id: run.documents for session_id, run in self._runs.items()}

    @property
    def sent(self) -> dict[str, list[tuple[str, TypedByPeople | None]]]:
        """Sent updates by session id, each with name and content."""
        return {session_id: run.sent for session_id, run in self._runs.items()}

    @classmethod
    async def connect(
        cls,
        address: str | None = None,
        *,
        task_queue: str | None = None,
        encryption: Encryption | None = None,
        storage: Storage | None = None,
        artifacts: str | PathLike[str] | None = None,
    ) -> Chargehand:
        """Refuse: there is no server to connect to."""
        raise NotImplementedError("a stand-in is made, not connected: StandInChargehand(report_of('…'))")

    async def start(
        self, request: str | SessionRequest, *, documents: Sequence[Document] = (), session_id: str | None = None
    ) -> StandInSession:
        """Start a session; return the existing one for the same id and request.

        `uploads` has the documents, which are not read.
        """
        number = len(self._runs)
        session_request = contract(SessionRequest, goal=request) if isinstance(request, str) else request
        session_id = f"session-{number + 1}" if session_id is None else valid_id(session_id)
        if session_id not in self._runs:
            script = self._scripts[min(number, len(self._scripts) - 1)]
            self._runs[session_id] = _Run(script, session_request, tuple(documents))
        refuse_difference(session_id, self._runs[session_id].request, session_request)
        return self.session(session_id)

    run = Chargehand.run

    async def converse(
        self,
        request: ConversationRequest | None = None,
        *,
        documents: Sequence[Document] = (),  # noqa: ARG002  # they are not read
        conversation_id: str | None = None,
        **fields: Any,
    ) -> StandInConversation:
        """Open a conversation; return the existing one for the same id and request."""
        fallback = f"conversation-{len(self.talks) + 1}"
        conversation_id = fallback if conversation_id is None else valid_id(conversation_id, "conversation_id")
        conversation_request = contract(ConversationRequest, **fields) if request is None else request
        talk = self.talks.setdefault(conversation_id, Talk(conversation_request, self._replies))
        refuse_difference(conversation_id, talk.request, conversation_request)
        return self.conversation(conversation_id)

    def conversation(self, conversation_id: str) -> StandInConversation:
        """Return a handle to an open conversation.

        Raises:
            SessionNotFound: it was not.
        """
        if conversation_id not in self.talks:
            raise SessionNotFound(conversation_id, is_session=conversation_id in self._runs)
        return StandInConversation(conversation_id, self.talks[conversation_id])

    async def schedule(
        self,
        schedule_id: str,
        request: str | SessionRequest,
        *,
        cron: str | None = None,
        every: timedelta | None = None,
        time_zone: str | None = None,
        overlap: Overlap = "skip",
        documents: Sequence[Document] = (),  # noqa: ARG002  # nothing is started
    ) -> None:
        """Validate a schedule and store it in `schedules`, without starting sessions."""
        session_request = contract(SessionRequest, goal=request) if isinstance(request, str) else request
        self.schedules[schedule_id] = scheduled(
            schedule_id, session_request, self.task_queue, times(cron, every, time_zone), overlap
        )

    async def unschedule(self, schedule_id: str) -> None:
        """Drop a schedule from `schedules`."""
        self.schedules.pop(schedule_id, None)

    def session(self, session_id: str) -> StandInSession:
        """Return a handle to a session by id, without checking that it exists."""
        return StandInSession(session_id, self)

    async def list(self, limit: int = 20, **filters: Unpack[SessionFilters]) -> AsyncIterator[SessionSummary]:
        """List sessions, newest first; all have ended."""
        named = {name: filters.get(name) for name in ("crew", "tenant", "thread")}
        state, ids = filters.get("state"), filters.get("ids")
        since, before = filters.get("since") or _AT, filters.get("before")
        for session_id in [*reversed(self._runs)][:limit]:
            session = self.summary(session_id)
            is_wanted = all(value in (None, getattr(session, name)) for name, value in named.items())
            is_wanted &= (ids is None or session_id in ids) and state in (None, session.state, session.step)
            is_in_time = since <= session.started_at and (before is None or session.started_at < before)
            if is_wanted and is_in_time and not filters.get("waiting"):
                yield session

    async def missing_search_attributes(self) -> tuple[SearchAttribute, ...]:
        return ()

    def run_of(self, session_id: str) -> _Run:
        run = self._runs.get(session_id)
        if run is None:
            raise SessionNotFound(session_id)
        return run

    def summary(self, session_id: str) -> SessionSummary:
        run = self.run_of(session_id)
        first = session_id
        while first in self._runs and (follows := self._runs[first].request.follows):
            first = follows
        report = run.script.result if isinstance(run.script.result, Report) else None
        return SessionSummary(
            id=session_id,
            state=_temporals_word(run),
            started_at=_AT,
            ended_at=_AT,
            step=_state(run),
            goal=one_line(run.request.goal, 100),
            crew=run.request.crew,
            tenant=run.request.tenant,
            stop_reason=report.stop_reason if report else "",
            verification=(report.verification if report else None) or "",
            follows=run.request.follows or "",
            thread=first,
        )


def _write(files: Mapping[str, bytes], folder: Path) -> dict[str, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return {name: folder / name for name in files}


def _state(run: _Run) -> SessionState:
    if run.was_cancelled or isinstance(run.script.result, SessionCancelled):
        return "cancelled"
    return "finished" if isinstance(run.script.result, Report) else "failed"


def _temporals_word(run: _Run) -> str:
    if isinstance(run.script.result, SessionTerminated) and not run.was_cancelled:
        return "terminated"
    return {"cancelled": "canceled", "finished": "completed"}.get(_state(run), "failed")
