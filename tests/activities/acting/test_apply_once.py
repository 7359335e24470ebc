"""Acting calls to a slow service, whose worker is lost mid-call or whose server was restored."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import ClassVar, Literal, cast, get_args

import pytest
from pydantic import JsonValue
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities import heartbeat
from activities.contracts.rounds import ToolCall, ToolRequest
from activities.contracts.tool import LookUpResult, ToolAnswer, ToolContext, ToolSpec
from activities.heartbeat import Pulse
from activities.turn.apply_once import SHORTEST_DOUBT, ActingCalls, CallTimes, Entry, apply_once, certain_failures
from chargehand.contracts import Capability
from chargehand.record import Record
from chargehand.tools import NOT_YET_KNOWN, failed
from chargehand.wire import ErrorType

REQUEST = ToolRequest(session="s", step="1", crew="c", agent="a", call=ToolCall(id="1", tool="pay", arguments={}))
CONTEXT = ToolContext(session="s", agent="a", idempotency_key="k")
DONE = ToolAnswer(output={"done": True})
KnownBy = Literal["heartbeat", "record"]
"""Where the beginning of a call is known from."""
known_by_either = pytest.mark.parametrize("known_by", get_args(KnownBy))
LOST_AFTER = timedelta(seconds=5)
"""How long after the last heartbeat another worker takes over."""


@dataclass
class Service:
    """Applies each request some time after it arrived, by its own clock."""

    lateness: timedelta = timedelta()
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    requests: list[datetime] = field(default_factory=list[datetime])
    lookups: list[datetime] = field(default_factory=list[datetime])
    is_reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def pause(self, seconds: float) -> None:
        self.now += timedelta(seconds=max(0.0, seconds))

    def is_applied(self) -> bool:
        return any(self.now - request >= self.lateness for request in self.requests)


@dataclass
class Acting:
    """A tool whose first call is lost before it reaches the service, after that, or by its time limit."""

    service: Service
    spec: ToolSpec
    lost: str = "after"
    capabilities: frozenset[Capability] = frozenset()
    calls: int = 0

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        assert (arguments, context) == ({}, CONTEXT)
        self.calls += 1
        is_lost = self.calls == 1
        if not (is_lost and self.lost == "before") and not (self.spec.idempotent and self.service.requests):
            self.service.requests.append(self.service.now)
        if is_lost and self.lost == "by its time limit":
            raise TimeoutError
        if is_lost:
            self.service.is_reached.set()
            await asyncio.Event().wait()
        return DONE


class LookingUp(Acting):
    unknown: int | None = 0
    """Number of lookups that do not know the outcome yet; None if no lookup ever does."""

    async def look_up(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> LookUpResult:
        assert (arguments, context) == ({}, CONTEXT)
        self.service.lookups.append(self.service.now)
        if self.unknown is None or len(self.service.lookups) <= self.unknown:
            return NOT_YET_KNOWN
        return DONE if self.service.is_applied() else None


class Handles:
    """A client whose server keeps the last heartbeat, and the record of its workers."""

    folder: ClassVar[Path]

    def __init__(self) -> None:
        self.details: Sequence[object] = ()
        self.record = Record(mkdtemp(dir=self.folder))

    def get_async_activity_handle(self, **_: object) -> "Handles":
        return self

    async def heartbeat(self, *details: object) -> None:
        self.details = details


@pytest.fixture(autouse=True)
def folder_of_records(tmp_path: Path) -> None:
    """Keep the records of a test in its folder."""
    Handles.folder = tmp_path


def spec(*, idempotent: bool = False, settles_within: float | None = None) -> ToolSpec:
    made = ToolSpec(name="pay", description="Pay.", parameters={}, acts=True, idempotent=idempotent)
    return made.model_copy(update={"settles_within_seconds": settles_within})


def begin_attempt(
    server: Handles, tool: Acting, times: CallTimes, request: ToolRequest = REQUEST
) -> asyncio.Task[ToolAnswer | None]:
    """Begin an attempt at the call, given what the server has kept of the previous one."""

    async def run() -> ToolAnswer | None:
        heartbeat.begin()
        calls = ActingCalls(server.record, times)
        with certain_failures():
            return await apply_once(calls, tool, request, CONTEXT, lambda: tool.use({}, CONTEXT))

    environment = ActivityEnvironment(cast("Client", server))
    details = list(server.details)
    environment.info = replace(environment.info, started_time=tool.service.now, heartbeat_details=details)
    return asyncio.ensure_future(environment.run(run))


async def lose_a_worker(tool: Acting) -> Handles:
    """Have a worker make the call, and lose it in the middle."""
    server = Handles()
    await lose(begin_attempt(server, tool, CallTimes(pause=tool.service.pause)), tool.service)
    return server


async def lose(attempt: asyncio.Task[ToolAnswer | None], service: Service) -> None:
    await service.is_reached.wait()
    attempt.cancel()
    with suppress(asyncio.CancelledError):
        await attempt
    service.now += LOST_AFTER


async def make_again(tool: Acting, known_by: KnownBy = "heartbeat") -> ToolAnswer | None:
    server = await lose_a_worker(tool)
    if known_by == "record":
        server.details = ()  # as of a restored database
    return await begin_attempt(server, tool, CallTimes(pause=tool.service.pause))


@known_by_either
@pytest.mark.parametrize("lost", ["before", "after"])
@pytest.mark.parametrize("lateness", [0, 3, 12, 30, 59])
async def test_a_call_with_a_settle_time_is_applied_once(lost: str, lateness: int, known_by: KnownBy) -> None:
    """The next attempt looks it up once, when `settles_within` has passed since the call began."""
    service = Service(timedelta(seconds=lateness))
    tool = LookingUp(service, spec(settles_within=60.0), lost)
    began = service.now

    answer = await make_again(tool, known_by)

    assert (answer, len(service.requests)) == (DONE, 1)
    [looked_up] = service.lookups
    assert timedelta(seconds=59) < looked_up - began < timedelta(seconds=61)


@pytest.mark.parametrize("lost", ["before", "after"])
@pytest.mark.parametrize("lateness", [0, 3, 12, 19])
async def test_a_call_without_a_settle_time_is_looked_up_twice(lost: str, lateness: int) -> None:
    """“Not applied” is checked again after 15 seconds or more, then left to a person; “applied” is accepted."""
    service = Service(timedelta(seconds=lateness))
    tool = LookingUp(service, spec(), lost)

    answer = await make_again(tool)

    assert (answer, len(service.requests)) == ((DONE, 1) if lost == "after" else (None, 0))
    is_found_at_once = lost == "after" and lateness < 5
    pauses = [later - earlier for earlier, later in zip(service.lookups, service.lookups[1:], strict=False)]
    assert pauses == ([] if is_found_at_once else [SHORTEST_DOUBT])


@pytest.mark.parametrize(("settles_within", "unknown"), [(None, 1), (None, 2), (60.0, 1), (None, None), (60.0, None)])
async def test_a_call_with_an_unknown_outcome_is_not_repeated(
    settles_within: float | None, unknown: int | None
) -> None:
    """“Not yet known” is looked up again like “not applied”, but in the end a person decides."""
    tool = LookingUp(Service(), spec(settles_within=settles_within), "before")
    tool.unknown = unknown

    answer = await make_again(tool)

    assert (answer, tool.calls) == (None, 1)


@known_by_either
@pytest.mark.parametrize("lost", ["before", "after"])
async def test_idempotent_tools_and_tools_without_lookup_never_wait(lost: str, known_by: KnownBy) -> None:
    """An idempotent tool is called again with the same key at once; one without a lookup is not called again."""
    cases: list[tuple[type[Acting], bool, ToolAnswer | None, int]] = [
        (Acting, False, None, 0 if lost == "before" else 1),
        (Acting, True, DONE, 1),
        (LookingUp, True, DONE, 1),
    ]
    for kind, idempotent, expected, requests in cases:
        service = Service(timedelta(seconds=30))
        began = service.now

        answer = await make_again(kind(service, spec(idempotent=idempotent), lost), known_by)

        assert (answer, len(service.requests)) == (expected, requests)
        assert service.now - began == LOST_AFTER


@pytest.mark.parametrize("settles_within", [None, 60.0])
async def test_cancelling_the_wait_neither_looks_up_nor_calls(settles_within: float | None) -> None:
    """The next attempt still knows that the call began."""
    tool = LookingUp(Service(), spec(settles_within=settles_within), "before")
    waiting = asyncio.Event()

    async def wait(_: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    server = await lose_a_worker(tool)
    attempt = begin_attempt(server, tool, CallTimes(pause=wait))
    await waiting.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    looked_up = len(tool.service.lookups)
    calls = tool.calls
    again = await begin_attempt(server, tool, CallTimes(pause=tool.service.pause))

    assert (calls, looked_up) == (1, 0 if settles_within else 1)
    assert (again, tool.calls, len(tool.service.requests)) == ((DONE, 2, 1) if settles_within else (None, 1, 0))


async def test_a_timed_out_call_is_looked_up_after_its_settle_time() -> None:
    """It may continue in its thread, so it is found if it was applied, and never called again."""
    for lateness, expected in ((30, DONE), (90, None)):
        service = Service(timedelta(seconds=lateness))
        tool = LookingUp(service, spec(settles_within=60.0), "by its time limit")

        answer = await begin_attempt(Handles(), tool, CallTimes(pause=service.pause))

        assert (answer, len(service.requests), len(service.lookups)) == (expected, 1, 1)


def test_lookup_delay_is_twice_the_longest_recent_call() -> None:
    """It is kept per tool, over its last twenty calls, and is never below 15 seconds."""
    times = CallTimes()
    for seconds in (40, 1, 12, *(2,) * 18):
        times.note("pay", timedelta(seconds=seconds))
    times.note("ship", timedelta(seconds=7))

    doubts = [times.doubt(name) for name in ("pay", "ship", "book")]
    assert doubts == [timedelta(seconds=24), SHORTEST_DOUBT, SHORTEST_DOUBT]


@dataclass
class Refusing(Acting):
    """Its first call changes nothing, and says so."""

    async def use(self, arguments: object, context: object) -> ToolAnswer:
        del arguments, context
        self.calls += 1
        return failed("There is no such order.") if self.calls == 1 else DONE


def sound() -> LookingUp:
    """Make a tool that has been called before, so that none of its calls is lost."""
    return LookingUp(Service(), spec(settles_within=60.0), calls=1)


async def call(server: Handles, tool: Acting) -> ToolAnswer | None:
    """Make the call in a session that has just begun or was just restored."""
    server.details = ()
    return await begin_attempt(server, tool, CallTimes(pause=tool.service.pause))


async def test_a_call_with_a_recorded_tool_error_is_made_again() -> None:
    """A recorded `ToolError` states that nothing was applied, so the next call counts as another attempt."""
    server, tool = Handles(), Refusing(Service(), spec())
    answers = [await call(server, tool) for _ in range(3)]

    assert ([answer and answer.ok for answer in answers], tool.calls) == ([False, True, True], 2)
    last = server.record.last_call("s", "k")
    assert last is not None
    assert (last.begun.number, last.answer) == (1, DONE)


async def test_an_approved_repeat_of_an_earlier_call_is_made_once() -> None:
    """After a restore that forgets the decision, the result of the repeated call is returned."""
    tool = Acting(Service(), spec(), "after")
    server = await lose_a_worker(tool)
    server.details = ()
    decided = REQUEST.model_copy(update={"decided_at": tool.service.now, "decision": "approved by Ann"})
    tool.service.now += LOST_AFTER

    again = await begin_attempt(server, tool, CallTimes(), decided)
    restored = [await call(server, tool), await begin_attempt(server, tool, CallTimes(), decided)]

    assert (again, restored, tool.calls) == (DONE, [DONE, DONE], 2)
    last = server.record.last_call("s", CONTEXT.idempotency_key)
    assert last is not None
    assert (last.begun.number, last.begun.decision) == (1, "approved by Ann")


async def test_concurrent_workers_make_the_same_call_once() -> None:
    """After a restore, several workers may reach one call; the others return its result or “not yet known”."""
    tool, server = Acting(Service(), spec(), calls=1), Handles()
    attempts = (begin_attempt(server, tool, CallTimes(pause=tool.service.pause)) for _ in range(5))
    answers = await asyncio.gather(*attempts)

    assert DONE in answers
    assert [answer for answer in answers if answer not in (None, DONE)] == []
    assert len(tool.service.requests) == 1


async def test_no_tool_is_called_if_the_record_cannot_be_written(tmp_path: Path) -> None:
    """The failure states that nothing was called, so the next attempt calls, unless a worker was lost before."""
    tool, server, lost = Acting(Service(), spec(), calls=1), Handles(), Acting(Service(), spec())
    working, server.record = server.record, Record(tmp_path / "file")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ApplicationError, match="Not a directory") as told:
        await call(server, tool)
    requests, server.record = list(tool.service.requests), working
    again = await begin_attempt(server, tool, CallTimes())
    doubtful = await lose_a_worker(lost)
    doubtful.record = Record(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        await begin_attempt(doubtful, lost, CallTimes())

    assert (told.value.type, requests, again, len(tool.service.requests)) == (ErrorType.TOOL_NOT_CALLED, [], DONE, 1)


KNOWN = {
    "before the intent is recorded": {"book", "ship", "pay"},
    "after the intent is recorded": {"pay"},
    "before the answer is recorded": {"ship", "pay"},
    "after the answer is recorded": {"book", "ship", "pay"},
}
"""The tools whose outcome the heartbeats still reveal, by the moment at which the worker is lost."""


@pytest.mark.parametrize("shares_record", [True, False])
@pytest.mark.parametrize("moment", KNOWN)
async def test_a_lost_worker_never_makes_a_tool_act_twice(
    moment: str, monkeypatch: pytest.MonkeyPatch, *, shares_record: bool
) -> None:
    """It acts once, or at most once and reported as unknown; workers that share no folder rely on heartbeats."""
    tools = {
        "book": Acting(Service(), spec(), calls=1),
        "ship": LookingUp(Service(), spec(), calls=1),
        "pay": Acting(Service(), spec(idempotent=True), calls=1),
    }
    answers = {
        name: await make_again_after(moment, tool, monkeypatch, shares_record=shares_record)
        for name, tool in tools.items()
    }

    known = {name for name, answer in answers.items() if answer == DONE}
    is_in_record = shares_record and moment == "before the answer is recorded"
    assert known == (tools.keys() if is_in_record else KNOWN[moment])
    assert {name for name, answer in answers.items() if answer is None} == tools.keys() - known
    assert max(len(tool.service.requests) for tool in tools.values()) == 1
    assert known <= {name for name, tool in tools.items() if tool.service.requests}


async def make_again_after(
    moment: str, tool: Acting, monkeypatch: pytest.MonkeyPatch, *, shares_record: bool
) -> ToolAnswer | None:
    """Lose a worker at this moment of its heartbeats, and have another one take over."""
    server, times, record = Handles(), CallTimes(pause=tool.service.pause), Pulse.record

    async def reach(here: str) -> None:
        if here == moment:
            tool.service.is_reached.set()
            await asyncio.Event().wait()

    async def record_and_reach(self: Pulse, *details: object) -> None:
        what = "answer" if cast("Entry", details[0]).answer else "intent"
        await reach(f"before the {what} is recorded")
        await record(self, *details)
        await reach(f"after the {what} is recorded")

    with monkeypatch.context() as patched:
        patched.setattr(Pulse, "record", record_and_reach)
        await lose(begin_attempt(server, tool, times), tool.service)
    if not shares_record:
        server.record = Handles().record
    return await begin_attempt(server, tool, times)
