"""Quick tools that are used within the turn that asks for them."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue

from activities.contracts.tool import ToolAnswer, ToolContext
from activities.models.protocol import ModelReply
from activities.turn import activity as turns
from activities.turn.contracts import TurnRequest, UsedTool
from activities.turn.tool_use import ToolActivities
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import SessionRequest, ToolEvent
from chargehand.session import Session
from chargehand.tools import tool
from chargehand.wire import ActivityType
from chargehand_plugins import testing
from tests.crew_files import READS_DOCUMENTS, crew_folder
from tests.environment import SessionEnvironment
from tests.scripted_model import Script, ScriptedTool, answer, subtask, use
from tests.workflows.conftest import OpenEnvironment, scheduled_in

REQUEST = SessionRequest(goal="What do the documents say?", review="never")
QUICK = "search_documents"
SCRIPT = Script().plan(subtask("T1"))


async def uses_of(opened: SessionEnvironment, session: Session) -> list[str]:
    """List the tools for which a session's subtask had a separate activity."""
    [record] = (await session.result()).subtasks
    history = await opened.chargehand.client.get_workflow_handle(record.workflow_id or "").fetch_history()
    used = [each for each in scheduled_in(history) if each.activity_type.name == ActivityType.USE_TOOL]
    return [each.activity_id.rpartition(".")[2] for each in used]


@pytest.mark.real_server
async def test_a_quick_tool_needs_no_separate_activity(environment: OpenEnvironment) -> None:
    """The agent reads the result, the report counts the call, and followers and the trace show it."""
    script = SCRIPT.on("work", use(QUICK), answer("Known."))
    async with environment(script, at_once=[QUICK]) as opened:
        session = await opened.chargehand.start(REQUEST)
        events = [event async for event in session.follow() if isinstance(event, ToolEvent)]
        report, trace = await session.result(), await session.trace()

        assert await uses_of(opened, session) == []
    assert (len(opened.tools[QUICK].calls), report.usage.tool_calls) == (1, 1)
    assert [task.rounds[0].results[0].ok for task in opened.model.tasks(WorkTask)[1:]] == [True]
    shown = [(event.tool, event.state, event.subtask) for event in events]
    assert shown == [(QUICK, "started", "T1"), (QUICK, "completed", "T1")]
    [step] = [step for step in trace.steps if step.kind == "tool"]
    assert (step.tool, step.state, step.id.rpartition("#")[2]) == (QUICK, "completed", f"turn-1/1.{QUICK}")
    assert step.arguments is not None
    assert step.result is not None


@pytest.mark.real_server
@pytest.mark.parametrize(
    ("agent", "asked", "own", "calls"),
    [
        pytest.param("reader", [use(QUICK, "read_document")], [QUICK, "read_document"], 2, id="beside one not quick"),
        pytest.param("reader", [use(QUICK), use(QUICK)], [], 1, id="the same call again"),
        pytest.param("reader", [use(QUICK), use(QUICK.upper())], [], 1, id="a tool that there is not"),
        pytest.param("reader", [use(*[QUICK] * 9)], [QUICK] * 8, 8, id="more calls than a round may have"),
        pytest.param("researcher", [use("search")], ["search"], 1, id="a tool that reaches out"),
    ],
)
async def test_a_turn_runs_no_tool_that_the_workflow_must_check(
    environment: OpenEnvironment, agent: str, asked: list[ModelReply], own: list[str], calls: int
) -> None:
    """Repeated or excess calls, mixed rounds and tools that reach out are left to the workflow."""
    script = Script().plan(subtask("T1", agent)).on("work", *asked, answer("Known."))
    async with environment(script, at_once=[QUICK, "search"]) as opened:
        session = await opened.chargehand.start(REQUEST)

        assert sorted(await uses_of(opened, session)) == sorted(own)
    assert sum(len(tool.calls) for tool in opened.tools.values()) == calls


def fails_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the tool fail when it is used for the first time."""
    failures = [OSError("the index is being written")]
    real = ScriptedTool.use

    async def failing(self: ScriptedTool, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        if failures:
            raise failures.pop()
        return await real(self, arguments, context)

    monkeypatch.setattr(ScriptedTool, "use", failing)


def is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each attempt be lost while its tools are used."""

    async def lose(_uses: ToolActivities, request: TurnRequest, *_: object) -> tuple[UsedTool, ...]:
        if request.at_once:
            raise RuntimeError("the process ends")
        return ()

    monkeypatch.setattr(turns, "use_at_once", lose)


def is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the tool return more bytes than the server would accept, in any script."""

    async def use_large(self: ScriptedTool, _arguments: Mapping[str, JsonValue], _context: ToolContext) -> ToolAnswer:
        del self
        return ToolAnswer(ok=True, output={"text": "🚢" * 70_000})

    monkeypatch.setattr(ScriptedTool, "use", use_large)


@pytest.mark.real_server
@pytest.mark.parametrize("spoil", [fails_once, is_lost, is_too_large])
async def test_a_quick_tool_that_fails_in_its_turn_runs_as_an_activity(
    environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """The reply is recorded before its tools run, so a failed tool costs an activity, not a second turn."""
    spoil(monkeypatch)
    async with environment(SCRIPT.on("work", use(QUICK), answer("Known.")), at_once=[QUICK]) as opened:
        session = await opened.chargehand.start(REQUEST)

        assert await uses_of(opened, session) == [QUICK]
        assert (await session.result()).usage.turns == len(opened.model.calls)
    assert len(opened.model.tasks(WorkTask)) == 2


_BOTH = 'capabilities = ["reads_private", "reaches_out"]'
_RULE = f'[[agents.policy]]\ntool = "{QUICK}"\napproval = "auto"\nwithin = {{ about = ["what nobody asks"] }}'


@pytest.mark.real_server
@pytest.mark.parametrize(
    ("reader", "made", "decided"),
    [
        pytest.param(f'tools = ["{QUICK}"]\napprove = ["{QUICK}"]\n{READS_DOCUMENTS}', [], QUICK, id="by the crew"),
        pytest.param(f'tools = ["{QUICK}"]\n{READS_DOCUMENTS}\n{_RULE}', [], QUICK, id="by a rule"),
        pytest.param(f'tools = ["{QUICK}", "mail"]\n{_BOTH}', [QUICK], "mail", id="private text has been read"),
    ],
)
async def test_a_quick_call_that_needs_approval_is_not_made_in_its_turn(
    environment: OpenEnvironment, tmp_path: Path, reader: str, made: list[str], decided: str
) -> None:
    """It waits for the decision, however quick the tool is."""
    crews = crew_folder(tmp_path, "careful", reader=reader)
    script = SCRIPT.on("work", *map(use, made), use(decided), answer("Known."))
    async with environment(script, at_once=[QUICK, "mail"], more_tools=["mail"], own_crews=(crews,)) as opened:
        session = await opened.chargehand.start(REQUEST.model_copy(update={"crew": "careful"}))
        async for event in session.follow():
            if event.kind == "call":
                break

        assert opened.tools[decided].calls == []
        await session.cancel()


async def test_an_interruption_discards_tool_results_of_the_running_turn(
    environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent is told, and may make the call again."""
    sessions: list[Session] = []
    real = ScriptedTool.use

    async def interrupted(self: ScriptedTool, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        if not self.calls:
            await sessions[0].interrupt()
        return await real(self, arguments, context)

    monkeypatch.setattr(ScriptedTool, "use", interrupted)
    script = SCRIPT.on("work", use(QUICK), use(QUICK), answer("Known."))
    async with environment(script, at_once=[QUICK]) as opened:
        sessions.append(await opened.chargehand.start(REQUEST))
        report = await sessions[0].result()

    assert report.usage.tool_calls == 2
    [*_, last] = opened.model.tasks(WorkTask)
    assert [past.results[0].ok for past in last.rounds] == [False, True]
    assert last.rounds[0].results[0].output == {"error": "Interrupted by the user."}
    assert len(opened.tools[QUICK].calls) == 2


async def test_a_quick_tool_gets_its_tenant(environment: OpenEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that reads tenant data reads the same, whether in a turn or in an activity."""
    tenants: list[str] = []

    async def note(_: ScriptedTool, _arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        tenants.append(context.tenant)
        return ToolAnswer()

    monkeypatch.setattr(ScriptedTool, "use", note)
    async with environment(SCRIPT.on("work", use(QUICK), answer("Known.")), at_once=[QUICK]) as opened:
        await opened.run(REQUEST.model_copy(update={"tenant": "acme"}))

    assert tenants == ["acme"]


async def test_a_read_after_an_act_in_the_same_round_sees_its_effect(tmp_path: Path) -> None:
    """A model that cancels and then reads in one reply sees the result of the cancellation."""
    orders = {"A": "open"}

    @tool(capabilities=[], acts=True)
    async def cancel(order: str) -> bool:
        """Cancel an order."""
        await asyncio.sleep(0)
        orders[order] = "cancelled"
        return True

    @tool(capabilities=[])
    def order(order: str) -> str:
        """Say how an order stands."""
        return orders[order]

    crews = crew_folder(tmp_path, "shop", clerk='tools = ["cancel", "order"]')
    asked = testing.use_all(testing.use("cancel", order="A"), testing.use("order", order="A"))
    script = testing.Script().plan(testing.subtask("T1", "clerk", "Cancel order A, and say how it stands."))
    request = REQUEST.model_copy(update={"crew": "shop"})
    script = script.work("", asked, testing.answer("It is."))
    ran = await testing.run_session(request, script, crews=crews, tools=[cancel, order])

    assert "\ncancelled\n" in ran.turns[-1].prompt
