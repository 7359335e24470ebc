"""The world around a simulated session: models, tools and a provider that keeps its own books."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import ROUND_UP, Decimal
from functools import cache
from pathlib import Path
from typing import Final, Literal
from zlib import crc32

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from activities.contracts.crew import Crew
from activities.contracts.rounds import ToolCall, ToolRequest, ToolResult
from activities.contracts.session import OpenSessionRequest, SessionFacts
from activities.crews.files import load_crews
from activities.crews.versions import CrewVersions
from activities.opening.activity import SessionActivities
from activities.turn.activity import interpret
from activities.turn.contracts import TurnRequest, TurnResult, UsedTool
from chargehand.contracts import Limits, SessionRequest, Source
from chargehand.wire import ActivityType, ErrorType, WorkflowType
from chargehand_plugins.testing.in_memory.executions import Execution, at, nanoseconds
from chargehand_plugins.testing.in_memory.jobs import PAYLOADS, application_failure
from chargehand_plugins.testing.in_memory.sdk import Job, ScheduleActivity
from chargehand_plugins.webhooks.activity import WebhookNotice, WebhookRules
from tests.environment import PRICES, scripted_cards
from tests.recording_server import RecordedExecution, RecordingServer, Task
from tests.scripted_model import ScriptedTool, found
from tests.simulation.script import Script, choice

ROOT: Final = "session"
UNANSWERED: Final = pytest.mark.filterwarnings(r"ignore:\[TMPRL1102\]")
"""A cancelled session does not answer pending updates; the SDK warns of that."""
CEILINGS: Final = Limits(
    max_turns=60, budget_usd=Decimal(5), deadline=timedelta(hours=1), subtask_deadline=timedelta(hours=1)
)

Fate = Literal[
    "answers", "usage unknown", "attempt lost", "outcome unknown", "reserve too small", "conversation missing",
    "provider unavailable", "provider refused", "hangs",
]  # fmt: skip
"""The fate of a model call."""

ToolFate = Literal["answers", "fails", "hangs"]

_CREWS: Final = Path(__file__).resolve().parents[2] / "crews"
_MOST_LOST_IN_A_ROW: Final = 4
_MOST_EVENTS: Final = 6_000
_LONGEST_OPENING: Final = timedelta(milliseconds=100)
"""Opening only reads the worker's memory, and a session's time counts from its end."""


class Stuck(AssertionError):  # noqa: N818  # it is raised as a statement of fact
    """More happened than a session can need (I20)."""


@dataclass(frozen=True)
class Answer:
    """The result of an activity and its time; without one, it hangs until its time limit."""

    after: timedelta
    result: Payload | None = None
    cause: Failure | None = None
    hangs: bool = False


@dataclass(frozen=True)
class Scenario:
    request: SessionRequest
    script: Script
    fates: tuple[Fate, ...] = ("answers",)
    tool_fates: tuple[ToolFate, ...] = ("answers",)
    costs: tuple[int, ...] = (50,)
    """What calls cost, in per cent of the worst case."""
    latencies: tuple[int, ...] = (0,)
    """How long messages take, in milliseconds."""
    durations: tuple[int, ...] = (0,)
    """How long activities take, in milliseconds."""
    seed: int = 0


@dataclass
class Call:
    workflow: str
    step: str
    worst: Decimal
    charged: Decimal
    is_certain: bool
    """Whether the workflow will learn its cost."""
    is_final: bool = True
    """Whether its result settles the turn for good."""
    is_estimated: bool = False
    """Whether the provider does not report its cost."""
    is_under_way: bool = True
    is_repeated: bool = False
    """Whether the reply to the same task was cut off before: both are one turn."""

    @property
    def turn(self) -> tuple[str, str]:
        """The turn that it belongs to, shared with calls that were lost."""
        return self.workflow, self.step.split(".again-")[0]


@dataclass
class World:
    scenario: Scenario
    calls: list[Call] = field(default_factory=list[Call])
    turns_asked: list[tuple[Execution, TurnRequest, ScheduleActivity]] = field(
        default_factory=list[tuple[Execution, TurnRequest, ScheduleActivity]]
    )
    notices: list[WebhookNotice] = field(default_factory=list[WebhookNotice])
    """What webhooks were told."""
    watch: Callable[["World", RecordedExecution, Sequence[Job]], None] | None = None
    """Checks everything, and raises on violations."""

    def __post_init__(self) -> None:
        self.server = SimulatedServer(self)

    def open(self) -> Execution:
        return self.server.start(ROOT, WorkflowType.SUPERVISOR, PAYLOADS.to_payload(self.scenario.request))

    @property
    def root(self) -> RecordedExecution:
        root = self.server.find(ROOT)
        assert root is not None
        return root

    @property
    def charged(self) -> Decimal:
        return sum((call.charged for call in self.calls), Decimal(0))

    @property
    def at_risk(self) -> Decimal:
        """The most that the provider may end up charging."""
        return sum((call.worst if call.is_under_way else call.charged for call in self.calls), Decimal(0))

    def answer(self, execution: Execution, asked: ScheduleActivity) -> Answer:
        label = f"{self.scenario.seed} {relative(execution.workflow_id)} {asked.activity_id}"
        after = timedelta(milliseconds=choice(self.scenario.durations, f"duration {label}"))
        match asked.activity_type:
            case ActivityType.OPEN_SESSION:
                return _open(_read(asked, OpenSessionRequest), min(after, _LONGEST_OPENING))
            case ActivityType.TAKE_TURN:
                return self._turn(execution, asked, _read(asked, TurnRequest), label, after)
            case ActivityType.USE_TOOL:
                return self._tool(_read(asked, ToolRequest), label, after)
            case ActivityType.CALL_WEBHOOK:
                self.notices.append(_read(asked, WebhookNotice))
                return Answer(after)
            case ActivityType.RECORD_DECISION:
                return Answer(after)
            case other:
                raise AssertionError(f"the world knows no activity {other}")

    def end(self, execution: Execution, asked: ScheduleActivity, *, is_known: bool) -> None:
        """Note that a call is no longer in progress, and whether its workflow learns the result."""
        for call in self.calls:
            if call.workflow == execution.workflow_id and call.step == asked.activity_id:
                call.is_under_way, call.is_certain = False, call.is_certain and is_known

    def _turn(  # noqa: PLR0911  # one for each fate
        self, execution: Execution, asked: ScheduleActivity, request: TurnRequest, label: str, after: timedelta
    ) -> Answer:
        before = [turn for earlier, turn, _ in self.turns_asked if earlier is execution]
        self.turns_asked.append((execution, request, asked))
        repetition = sum(earlier is execution and turn.step == request.step for earlier, turn, _ in self.turns_asked)
        fate = choice(self.scenario.fates, f"fate {label}")
        if repetition > _MOST_LOST_IN_A_ROW and fate not in {"hangs", "provider refused"}:
            fate = "answers"
        if (fate == "reserve too small" and repetition > 1) or (
            fate == "conversation missing" and not getattr(request.task, "earlier", "")
        ):
            fate = "answers"
        if fate == "conversation missing":
            return _failed(after, "Another worker keeps it.", ErrorType.CONVERSATION_MISSING)
        if fate == "reserve too small":
            longest = request.max_input_tokens + 1_000
            return _failed(after, "The prompt is longer.", ErrorType.RESERVE_TOO_SMALL, longest)
        worst = _worst(request)
        part = Decimal(choice(self.scenario.costs, f"cost {label}")) / 100
        charged = (worst * part).quantize(Decimal("0.000000001"), rounding=ROUND_UP)
        call = Call(
            workflow=execution.workflow_id,
            step=asked.activity_id,
            worst=worst,
            charged=Decimal(0) if fate in {"provider unavailable", "provider refused"} else min(charged, worst),
            is_certain=fate in {"answers", "provider unavailable", "provider refused"},
            is_final=fate in {"answers", "usage unknown", "provider refused", "provider unavailable"},
            is_estimated=fate == "usage unknown",
            is_repeated=bool(before) and before[-1].task == request.task,
        )
        self.calls.append(call)
        match fate:
            case "attempt lost":
                return _failed(after, "A worker was lost.", ErrorType.ATTEMPT_LOST)
            case "outcome unknown":
                failures = request.provider_failures + 1
                return _failed(after, "The provider did not answer.", ErrorType.OUTCOME_UNKNOWN, failures, 0.5)
            case "provider unavailable":
                return _failed(after, "The provider is overloaded.", ErrorType.PROVIDER_UNAVAILABLE)
            case "provider refused":
                return _failed(after, "The key is wrong.", ErrorType.PROVIDER_REFUSED)
            case "hangs":
                return Answer(after, hangs=True)
            case _:
                crew = _crew()
                agent = crew.agent(request.agent)
                reply = self.scenario.script.reply(
                    relative(execution.workflow_id),
                    request.step,
                    request.task,
                    agent.tools if agent else (),
                    call.charged,
                )
                if fate == "usage unknown":
                    reply = reply.model_copy(update={"usage": None})
                result = interpret(reply, request.task.answer_type)
                return Answer(after, PAYLOADS.to_payload(self._with_tools(request, result, label)))

    def _with_tools(self, request: TurnRequest, result: TurnResult, label: str) -> TurnResult:
        """Use the tools that a reply requests within its turn, where that is allowed and does not fail."""
        fate = choice(self.scenario.tool_fates, f"at once {label}")
        now = at(self.server.now)
        used = tuple(
            UsedTool(position=position, result=_found(call), began_at=now, ended_at=now)
            for position, call in enumerate(result.tool_calls)
            if call.tool in request.at_once and fate not in {"hangs", "fails"}
        )
        return result.model_copy(update={"used": used})

    def _tool(self, request: ToolRequest, label: str, after: timedelta) -> Answer:
        fate = choice(self.scenario.tool_fates, f"fate {label}")
        if fate == "hangs":
            return Answer(after, hangs=True)
        if fate == "fails":
            return _failed(after, "The search service is down.", ErrorType.TOOL_UNAVAILABLE)
        return Answer(after, PAYLOADS.to_payload(_found(request.call)))


class SimulatedServer(RecordingServer):
    def __init__(self, world: "World") -> None:
        super().__init__(self)
        self._world = world
        self._worker_is_back_at = 0
        self.events = 0
        self.sent_signals: list[tuple[str, str, Sequence[Payload]]] = []
        """What workflows told each other."""
        self.starts: list[str] = []
        """Ids of all workflows that were started, in order."""

    def crash(self, down_for: timedelta = timedelta(0)) -> None:
        """Lose the worker and everything it knew; another one starts after a while."""
        for execution in self.recorded:
            if execution.is_open and execution.history:
                execution.rebuild()
        self._worker_is_back_at = max(self._worker_is_back_at, self.now + nanoseconds(down_for))

    def step(self) -> bool:
        """Let the next event happen; False if nothing is in progress."""
        self.events += bool(self._coming)
        if self.events > _MOST_EVENTS:
            still_open = [execution.workflow_id for execution in self.executions.values() if execution.is_open]
            raise Stuck(f"I20: {self.events} events, and {still_open} are still open")
        return super().step()

    def run(self) -> None:
        while self.step():
            pass

    def begin(self, execution: Execution, asked: ScheduleActivity) -> None:
        answer = self._world.answer(execution, asked)
        label = f"activity {execution.workflow_id} {asked.activity_id}"
        after, cause = answer.after, answer.cause
        if asked.HasField("schedule_to_close_timeout"):
            limit = asked.schedule_to_close_timeout.ToTimedelta()
            if answer.hangs or after > limit:
                after, cause = limit, _timed_out()
        elif answer.hangs:
            raise AssertionError(f"{label} has no time limit and would hang for ever")
        result = None if cause else answer.result
        self._at(self.now + nanoseconds(after), label, lambda: self.resolve(execution, asked, result, cause))

    def abandon(self, execution: Execution, asked: ScheduleActivity) -> None:
        self._world.end(execution, asked, is_known=False)

    def resolve(
        self, execution: Execution, asked: ScheduleActivity, result: Payload | None, cause: Failure | None
    ) -> None:
        """Tell a workflow the result of an activity, if it still waits for it."""
        if asked.seq in execution.activities:
            self._world.end(execution, asked, is_known=True)
        super().resolve(execution, asked, result, cause)

    def after_task(self, execution: RecordedExecution, task: Task, given: Sequence[Job]) -> None:  # noqa: ARG002  # as the server calls it
        if self._world.watch is not None:
            self._world.watch(self._world, execution, given)

    def _latency(self, label: str) -> int:
        scenario = self._world.scenario
        return nanoseconds(timedelta(milliseconds=choice(scenario.latencies, f"{scenario.seed} {label}")))

    def _tie(self, label: str) -> int:
        seed = self._world.scenario.seed
        return crc32(f"{seed} tie {label}".encode()) if seed else 0

    def _work_on(self, execution: Execution) -> None:
        if execution.is_open and self.now < self._worker_is_back_at:
            label = f"task {execution.workflow_id} {execution.tasks}"
            self._at(self._worker_is_back_at, label, lambda: self._work_on(execution))
        else:
            super()._work_on(execution)

    def _new(self, workflow_id: str, workflow_type: str, arguments: Sequence[Payload], **about: object) -> Execution:
        if about:
            self.starts.append(workflow_id)
        return super()._new(workflow_id, workflow_type, arguments, **about)

    def _deliver_signal(self, workflow_id: str, name: str, payloads: Sequence[Payload]) -> bool:
        self.sent_signals.append((workflow_id, name, payloads))
        return super()._deliver_signal(workflow_id, name, payloads)


def relative(workflow_id: str) -> str:
    """Remove the session and its run from a workflow id, as what is drawn for a call must not depend on them."""
    return "/".join(workflow_id.split("/")[2:])


def _read(asked: ScheduleActivity, kind: type):
    return PAYLOADS.from_payloads(list(asked.arguments), [kind])[0]


def _failed(after: timedelta, message: str, kind: ErrorType, *details: object) -> Answer:
    return Answer(after, cause=application_failure(ApplicationError(message, *details, type=kind, non_retryable=True)))


def _timed_out() -> Failure:
    failure = Failure(message="activity ScheduleToClose timeout")
    failure.timeout_failure_info.timeout_type = TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE
    return failure


def _worst(request: TurnRequest) -> Decimal:
    """Return the most that the provider would charge for what a call was allowed."""
    million = Decimal(1_000_000)
    (price,) = PRICES
    dollars = (
        request.max_input_tokens * price.input_usd_per_million
        + request.max_output_tokens * price.output_usd_per_million
    ) / million
    return dollars.quantize(Decimal("0.000000001"), rounding=ROUND_UP)


def _found(call: ToolCall) -> ToolResult:
    source = Source(ref=f"{call.tool}.md#L1", title="A title", quote=f"what {call.tool} read")
    return ToolResult(call_id=call.id, tool=call.tool, output={"found": 1}, sources=(source,))


@cache
def _tools() -> dict[str, ScriptedTool]:
    """Stand in for every tool that a crew names."""
    crews = [tomllib.loads(file.read_text(encoding="utf-8")) for file in _CREWS.glob("*.toml")]
    names = {tool for crew in crews for agent in crew["agents"] for tool in agent.get("tools", [])}
    return {
        name: ScriptedTool(
            name, found(f"{name}.md#L1", f"what {name} read"), at_once=name in {"search", "search_documents"}
        )
        for name in sorted(names)
    }


@cache
def _crew() -> Crew:
    return load_crews([_CREWS], {name: tool.capabilities for name, tool in _tools().items()})["research"]


def _open(opening: OpenSessionRequest, after: timedelta) -> Answer:
    facts = _facts(opening.request.model_copy(update={"goal": "Any goal.", "delegation": None}).model_dump_json())
    return Answer(after, facts) if isinstance(facts, Payload) else Answer(after, cause=facts)


@cache
def _facts(request: str) -> Payload | Failure:
    """Have the real activity look up the world's facts, cached by the relevant parts of the request."""
    crews = CrewVersions({"research": _crew()}, _tools(), scripted_cards())
    webhooks = WebhookRules(frozenset({"localhost"}), b"-")
    activity = SessionActivities(crews, _tools(), CEILINGS, request_checks=[webhooks.check]).open_session
    opening = activity(OpenSessionRequest(session=ROOT, request=SessionRequest.model_validate_json(request)))
    try:
        opening.send(None)
    except StopIteration as ended:
        facts: SessionFacts = ended.value
        return PAYLOADS.to_payload(facts)
    except ApplicationError as error:
        return application_failure(error)
    raise AssertionError("opening a session waits for nothing")
