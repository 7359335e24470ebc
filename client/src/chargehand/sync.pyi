"""Written by `python -m tests.unit.client.sync_stub`."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any, overload

from pydantic import JsonValue

from chargehand import client, session
from chargehand.client import OutputModel
from chargehand.contracts import (
    Event,
    PendingCall,
    Plan,
    PlanChange,
    Report,
    SessionRequest,
    Status,
    TenantUsage,
    Trace,
    VerificationReport,
)
from chargehand.listing import SessionSummary
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.storage import Storage
from chargehand.schedules import Overlap
from chargehand.shared_files import Document
from chargehand.wire import SearchAttribute

class Session:
    """One session on a server.

    Every method raises errors of `chargehand.errors` only: `SessionNotFound` if there is no such session,
    `NotReachable` if the server does not answer, `NoWorker` if a worker has to answer and none runs.
    """

    id: str
    asynchronous: session.Session

    def __init__(self, asynchronous: session.Session) -> None: ...
    def request(self) -> SessionRequest:
        """Read what was asked, as the session was given it; works without a worker."""

    def ask(
        self, goal: str, *, documents: Sequence[Document] = (), session_id: str | None = None, **fields: Any
    ) -> Session:
        """Start a session that follows this one, which has to be finished, and knows its report.

        Args:
            goal: the question, in the user's words.
            documents: what the agents may read beside the documents of this session, as in `Chargehand.start()`.
            session_id: up to 175 characters; made up if absent.
            fields: those of `SessionRequest`; crew and tenant are this session's unless they are named.

        Raises:
            InvalidInput: a field is invalid.
            UploadRefused: a document cannot be used, or it is unknown where the workers read.
        """

    def documents(self) -> tuple[str, ...]:
        """List the addresses of all documents that it could read: its own, and those of sessions that it follows."""

    def thread(self) -> tuple[SessionSummary, ...]:
        """List this session with those that it follows and those that follow it, in the order of their starts.

        Without search attributes on the server, those that follow it are not known.
        """

    def follow_up(self, request: SessionRequest) -> SessionRequest:
        """Have a request follow this session; its crew and tenant are this session's unless it names others."""

    def status(self) -> Status:
        """Return state, plan, open questions, waiting tool calls, and what was spent, by running subtasks too.

        Costs one history for each workflow that runs below the session, beside the worker's answer; `follow()` says
        the same as it happens.
        """

    def plan(self) -> Plan | None:
        """Return the plan; None until there is one."""

    def approve(self) -> Plan:
        """Approve the plan of a session that awaits approval, and return it.

        Raises:
            UpdateRefused: the session does not await approval.
        """

    def edit(self, plan: Plan) -> Plan:
        """Replace the plan of a session that awaits approval, and return the plan that is carried out.

        Raises:
            UpdateRefused: the plan is invalid, or the session does not await approval.
        """

    def reject(self, reason: str = "") -> None:
        """Reject the plan of a session that awaits approval: the session fails, and quotes the reason.

        Args:
            reason: up to 2,000 characters.

        Raises:
            UpdateRefused: the session does not await approval.
        """

    def approve_call(self, call: PendingCall, arguments: Mapping[str, JsonValue] | None = None) -> Status:
        """Let a tool call of `status().calls` be made, with these arguments instead of its own if there are any.

        Raises:
            UpdateRefused: the call no longer waits, or the arguments do not fit the tool.
        """

    def reject_call(self, call: PendingCall, reason: str = "") -> Status:
        """Refuse a tool call of `status().calls`; its agent reads the reason, up to 2,000 characters, and continues.

        Raises:
            UpdateRefused: the call no longer waits.
        """

    def answer(self, subtask: str, text: str) -> Status:
        """Answer the question of a subtask of `status().questions`, which then continues.

        Args:
            subtask: id of the subtask, such as `T1`.
            text: 1 to 4,000 characters.

        Raises:
            UpdateRefused: the subtask has no open question.
        """

    def raise_limits(
        self,
        *,
        max_turns: int | None = None,
        budget_usd: Decimal | float | None = None,
        deadline: timedelta | float | None = None,
    ) -> Status:
        """Allow the session more; one that waits at a limit goes on. All are totals, so calling twice changes nothing.

        Args:
            max_turns: model calls, including those already made.
            budget_usd: US dollars, including those already spent.
            deadline: time since the start of the session; a number is seconds.

        Raises:
            UpdateRefused: a limit is not higher than before, or above the operator's ceiling.
        """

    def tell(self, text: str, subtask: str | None = None) -> Status:
        """Have agents read a message at their next turn: those of a subtask, or all that run or begin later.

        Raises:
            UpdateRefused: the session is over, or the subtask has ended.
        """

    def interrupt(self, subtask: str | None = None) -> Status:
        """End the tools that the agent of a subtask is using, or all agents; they go on with their next turn.

        Raises:
            UpdateRefused: the session is over, or the subtask has ended.
        """

    def edit_plan(self, *edits: PlanChange) -> Plan:
        """Change what has not begun of the plan, in this order and checked as a whole; returns the plan.

        Raises:
            UpdateRefused: an edit is invalid, or concerns what has begun.
        """

    def finish_now(self) -> Status:
        """Stop the subtasks that run, and have the report written from what is there.

        Raises:
            AlreadyEnded: there is nothing to finish.
        """

    def cancel(self) -> None:
        """Ask the session to stop without a report; one that has ended stays as it is."""

    def result(self) -> Report:
        """Wait for the report, however long that takes; a session without a worker waits for one.

        Raises:
            SessionEnded: there is none and never will be.
        """

    def trace(self) -> Trace:
        """Read every step back from the histories; works without a worker."""

    @overload
    def artifacts(self) -> dict[str, bytes]: ...
    @overload
    def artifacts(self, to: str | PathLike[str]) -> dict[str, Path]: ...
    def artifacts(self, to: str | PathLike[str] | None = None) -> dict[str, bytes] | dict[str, Path]:
        """Read the files that the session's agents made, once there is a report: into memory, or into a folder.

        The names are made safe for a file system and different from each other.

        Args:
            to: a folder, which is created; an existing file with another content is left alone, and is an error.

        Raises:
            SessionEnded: there is no report.
            DownloadRefused: it is unknown where the workers keep files, or a file is missing or damaged.
            BucketError: the bucket cannot be used.
        """

    def follow(self, after: str | None = None) -> Generator[Event]:
        """Yield what happens in the session as it happens, from its beginning to its end; works without a worker.

        Args:
            after: the `cursor` of an event, to get every event after that one instead, in whichever process.

        Raises:
            SessionNotFound: the server has no such session.
            NotReachable: the server does not answer at first; later on it is waited for.
        """

    def verify(self) -> VerificationReport:
        """Have a worker look up the report's quotations in the session's documents again; costs nothing.

        Raises:
            SessionFailed: the session still runs, or has no report.
        """

class Chargehand:
    """Sessions on one Temporal namespace and task queue."""

    task_queue: str
    asynchronous: client.Chargehand

    def __init__(self, asynchronous: client.Chargehand) -> None: ...
    @classmethod
    def connect(
        cls,
        address: str | None = None,
        *,
        task_queue: str | None = None,
        encryption: Encryption | None = None,
        storage: Storage | None = None,
        artifacts: str | PathLike[str] | None = None,
    ) -> Chargehand:
        """Connect to a server.

        What is not given is taken from the settings of Temporal (`TEMPORAL_ADDRESS`, `TEMPORAL_API_KEY`, TLS, profiles)
        and of Chargehand (`CHARGEHAND_…`, as they are set for the workers). Where no server is set, it is the embedded
        one of this machine that `chargehand up` runs, or else `localhost:7233`.

        Args:
            address: `HOST:PORT` of the server.
            task_queue: of the workers; CHARGEHAND_TASK_QUEUE, or `chargehand`.
            encryption: that of the workers; CHARGEHAND_ENCRYPTION_KEYS and CHARGEHAND_ENCRYPTION_KEY_ID.
            storage: of large payloads, that of the workers; CHARGEHAND_STORAGE.
            artifacts: where the workers read documents: a directory, `s3://bucket/prefix` or `gs://bucket/prefix`;
                CHARGEHAND_ARTIFACTS.

        Raises:
            UnusableSettings: a setting, a profile or the address is wrong, or there is no such namespace.
            NotReachable: no server answers.
            AccessDenied: the server refuses the API key or the certificate.
            ProtectionSettingsError: the settings of encryption or storage are wrong.
        """

    def start(
        self, request: str | SessionRequest, *, documents: Sequence[Document] = (), session_id: str | None = None
    ) -> Session:
        """Start a session; with the id of one that exists, give that one back instead of starting a second.

        Args:
            request: a goal in the user's words, or a whole request.
            documents: what the agents may read beside the request's own: paths of files and folders, and (name, bytes),
                which are uploaded; and public addresses at `https://`, which the workers read.
            session_id: up to 175 characters; made up if absent.

        Raises:
            InvalidInput: the goal or the id is invalid.
            UploadRefused: a document cannot be used, or it is unknown where the workers read.
        """

    @overload
    def run(
        self, request: str | SessionRequest, *, documents: Sequence[Document] = (), session_id: str | None = None
    ) -> Report: ...
    @overload
    def run(
        self,
        request: str | SessionRequest,
        *,
        output: type[OutputModel],
        documents: Sequence[Document] = (),
        session_id: str | None = None,
    ) -> OutputModel: ...
    def run(
        self,
        request: str | SessionRequest,
        *,
        output: type[OutputModel] | None = None,
        documents: Sequence[Document] = (),
        session_id: str | None = None,
    ) -> Report | OutputModel:
        """Run a session to its end; returns the report, or the report's output as an instance of a pydantic model.

        The arguments are those of `start`; `output` is the model.

        Raises:
            SessionEnded: there is no report.
            OutputInvalid: there is a report without a valid output; the error has the report.
        """

    def session(self, session_id: str) -> Session:
        """Give access to a session by its id, without asking the server whether it exists."""

    def list(
        self,
        limit: int = 20,
        *,
        state: str | None = None,
        crew: str | None = None,
        tenant: str | None = None,
        waiting: bool = False,
        since: datetime | None = None,
        thread: str | None = None,
    ) -> Iterator[SessionSummary]:
        """List sessions that no other session started, the newest first.

        Args:
            limit: the most sessions.
            state: their own, such as `executing`, or Temporal's, such as `running`.
            crew: the name of their crew.
            tenant: whom they run for.
            waiting: only those that wait for a person.
            since: only those that were started then or later.
            thread: the first session's id of those that follow each other.

        Raises:
            SearchAttributesMissing: a filter needs search attributes that the namespace does not have.
        """

    def tenants(self) -> tuple[TenantUsage, ...]:
        """Read how much of their limits tenants use, by name: those with limits of which a session has run today.

        Raises:
            NotReachable: no worker answers.
        """

    def schedule(
        self,
        schedule_id: str,
        request: str | SessionRequest,
        *,
        cron: str | None = None,
        every: timedelta | None = None,
        time_zone: str | None = None,
        overlap: Overlap = "skip",
        documents: Sequence[Document] = (),
    ) -> None:
        """Start a session again and again, by a schedule of Temporal; with the id of one that exists, replace that one.

        Each session has an id of its own, `<schedule_id>-<time in UTC>`, such as `nightly-2026-11-21T02:00:00Z`.

        Args:
            schedule_id: 1 to 150 characters.
            request: a goal in the user's words, or a whole request.
            cron: when to start, such as `0 2 * * *`; either this or `every`.
            every: how often to start, at least a minute.
            time_zone: of `cron`, such as `Europe/Berlin`; UTC if absent.
            overlap: what to do while the last session still runs: `skip` this one, `wait` for the last (one at most
                waits), or start it `beside`.
            documents: as for `start`; they are uploaded now.

        Raises:
            InvalidInput: an argument is invalid.
            UploadRefused: a document cannot be used, or it is unknown where the workers read.
        """

    def unschedule(self, schedule_id: str) -> None:
        """Delete a schedule; its sessions go on. There may be none."""

    def missing_search_attributes(self) -> tuple[SearchAttribute, ...]:
        """List the search attributes of sessions that the namespace lacks; without them a list says less."""
