"""`chargehand mcp`, as an assistant uses it: the official client, in this process and over the pipes of another."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from mcp import Client as Assistant
from mcp import StdioServerParameters, stdio_client
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, ImageContent, TextContent
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span
from temporalio.client import Client

from activities.contracts.tool import ToolAnswer
from activities.documents.artifacts import ArtifactStore
from activities.tools.outputs import ToolOutput, store_outputs
from chargehand.messages import MESSAGES, Row
from chargehand_cli.connection import Connection
from chargehand_cli.location import LocationOptions
from chargehand_plugins.mcp.server.server import app_of, build_server
from chargehand_plugins.mcp.server.tools import NEXT, RESULT
from chargehand_plugins.mcp.tests.http_server import serve_app
from tests.acceptance.commands import Commands, command_environment
from tests.crew_files import READS_DOCUMENTS, crew_folder
from tests.environment import SessionEnvironment, open_environment
from tests.otlp_receiver import started_trace
from tests.scripted_model import Held, Script, answer, request_tool, say, subtask, use

PICTURE = b"\x89PNG\r\n\x1a\nnot much of a picture"
ASKED = "Net or gross?"
MEANT = "Gross, please."
LINKS = "[a](http://b.example)\n<img src=c> \\href{http://d.example}{e}"
TOKEN = "canary-token-of-forty-two-characters-0815"


@dataclass
class Desk:
    """An assistant, and the sessions that it starts."""

    server: MCPServer
    opened: SessionEnvironment
    arguments: tuple[str, ...]
    """Arguments of the command that starts an equivalent server."""
    progress: list[str] = field(default_factory=list[str])

    async def call(self, tool: str, **arguments: Any) -> CallToolResult:
        async with Assistant(self.server) as assistant:
            return await assistant.call_tool(tool, arguments, progress_callback=self._note)

    async def use(self, tool: str, **arguments: Any) -> str:
        """Call a tool and return its text; a refusal begins with `Error`."""
        return text_of(await self.call(tool, **arguments))

    async def status(self, session: str, seconds: int = 60) -> dict[str, Any]:
        """Wait for news of a session."""
        result = await self.call("status", session=session, wait_seconds=seconds)
        assert result.structured_content
        return result.structured_content

    @asynccontextmanager
    async def piped(self) -> AsyncGenerator[Assistant]:
        """Run the command as an assistant does."""
        command = ["-m", "chargehand_cli.main", *self.arguments]
        program = StdioServerParameters(command=sys.executable, args=command, env=command_environment())
        async with Assistant(stdio_client(program)) as assistant:
            yield assistant

    async def _note(self, progress: float, total: float | None, message: str | None) -> None:
        assert progress
        assert total is None
        self.progress.append(message or "")


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    assert result.is_error == content.text.startswith("Error")
    return content.text


def _script() -> Script:
    question = answer("", status="ambiguous_input").model_copy(update={"message": ASKED})
    patient = Script().plan(subtask("T1", instruction="Have patience."), goal="patience")
    return (
        patient.plan(subtask("T1", agent="artist"), subtask("T2", agent="clerk"), goal="quarter")
        .work("", use("draw_chart"), answer("Drawn."), agent="artist")
        .work("", request_tool("send_invoice", amount=5), answer("Sent."), agent="clerk")
        .work("the odd one", question, agent="artist")
        .work(MEANT, answer("Gross it is."), agent="artist")
        .work("patience", Held(answer("Late.")))
        .replies("And good evening", say("As ever:\n```").model_copy(update={"gaps": [LINKS]}))
    )


@pytest.fixture(scope="module")
async def desk(client: Client, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    artist, clerk = f'tools = ["draw_chart"]\n{READS_DOCUMENTS}', 'tools = ["send_invoice"]\napprove = ["send_invoice"]'
    crews = crew_folder(folder, "office", artist=artist, clerk=clerk)
    papers = folder / "papers"
    (papers / ".private").mkdir(parents=True)
    (papers / "notes.md").write_text("# Notes\n\nThe quarter was good.\n")
    (papers / ".private" / "key.txt").write_text("secret")
    (folder / "outside.md").write_text("secret")
    (papers / "link.md").symlink_to(folder / "outside.md")
    async with open_environment(client, folder, _script(), own_crews=(crews,), acting=["send_invoice"]) as opened:
        made, _ = await store_outputs(ArtifactStore(folder / "artifacts"), [ToolOutput(name="q.png", content=PICTURE)])
        opened.tools["draw_chart"].answer = ToolAnswer(output={"drawn": 1}, artifacts=made)
        address, queue = client.service_client.config.target_host, opened.chargehand.task_queue
        state, artifacts = folder / "state", str(folder / "artifacts")
        options = LocationOptions(address=address, artifacts=artifacts, state=state, task_queue=queue)
        where = ("--address", address, "--artifacts", artifacts, "--state-dir", str(state), "--task-queue", queue)
        server = build_server(Connection(options), [papers])
        yield Desk(server, opened, ("mcp", "--docs", str(papers), *where))


@pytest.mark.slow
async def test_an_assistant_can_run_the_command_over_stdio(desk: Desk) -> None:
    """It starts a session with a document of the folder given to the command, and with no other."""
    async with desk.piped() as assistant:
        asked = {"goal": "It takes patience.", "documents": ["notes.md"], "session": "piped-1"}
        started = text_of(await assistant.call_tool("start_session", asked))
        refused = text_of(await assistant.call_tool("start_session", asked | {"documents": ["../outside.md"]}))
    await desk.use("cancel_session", session="piped-1")

    assert started.startswith("Session piped-1 is ")
    assert "that may be read; it has to be in" in refused


@pytest.mark.nightly
async def test_a_session_joins_the_trace_of_the_assistants_call(desk: Desk) -> None:
    """The trace context that its library sends with a tool call is passed on to the session."""
    caller = SpanContext(0xAB << 120, 0xCD << 56, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    async with desk.piped() as assistant:
        with use_span(NonRecordingSpan(caller)):
            await assistant.call_tool("start_session", {"goal": "It takes patience.", "session": "traced-1"})
    await desk.use("cancel_session", session="traced-1")

    assert await started_trace(desk.opened.chargehand.client, "traced-1") == {
        "traceparent": f"00-{caller.trace_id:032x}-{caller.span_id:016x}-01"
    }


async def test_an_assistant_starts_and_steers_a_session_to_its_report(desk: Desk) -> None:
    """It edits the plan, answers a question, approves a call, and reads the report and a picture."""
    asked = {"goal": "How was the quarter?", "crew": "office", "documents": ["notes.md"], "session": "quarter-1"}
    started = await desk.use("start_session", approve_plan=True, allow_questions=True, **asked)
    planned = await desk.status("quarter-1")
    plan = planned["plan"] | {"subtasks": [*planned["plan"]["subtasks"]]}
    plan["subtasks"].append({"id": "T3", "agent": "artist", "instruction": "Draw the odd one."})
    edited = await desk.use("decide_plan", session="quarter-1", decision="edit", plan=plan)
    needed: set[str] = set()
    while (position := await desk.status("quarter-1"))["next_tools"] != "session_result":
        needed.add(position["next_tools"])
        if position["questions"]:
            [question] = position["questions"]
            await desk.use("answer", session="quarter-1", subtask=question["subtask"], text=MEANT)
        for call in position["calls"]:
            shown = {"call": call["id"], "hash": call["hash"]}
            await desk.use("decide_call", session="quarter-1", decision="approve", **shown)
    result = await desk.use("session_result", session="quarter-1")
    files = await desk.use("list_artifacts", session="quarter-1")
    followed = await desk.use("start_session", goal="It takes patience.", follows="quarter-1", session="quarter-2")
    await desk.use("cancel_session", session="quarter-2")
    picture = await desk.call("read_artifact", session="quarter-1", name="q.png")
    report = await desk.opened.chargehand.session("quarter-1").result()

    assert started.startswith("Session quarter-1 is ")
    assert (planned["state"], planned["next_tools"]) == ("awaiting_approval", "decide_plan")
    assert edited.startswith("Session quarter-1 is ")
    assert needed <= {"", "answer", "decide_call"}
    assert [record.state for record in report.subtasks] == ["success"] * 3
    assert followed.startswith("Session quarter-2 is ")
    assert (await desk.opened.chargehand.session("quarter-2").request()).follows == "quarter-1"
    assert desk.opened.tools["send_invoice"].calls == [{"amount": 5}]
    assert report.answer in result
    assert "q.png" in files
    assert isinstance(picture.content[0], ImageContent)


@pytest.mark.slow
async def test_an_assistant_ends_sessions_and_gets_reasons_for_refusals(desk: Desk) -> None:
    """It sees progress, raises limits, finishes and cancels; documents outside its folder are not read."""
    refused = [
        await desk.use("start_session", goal="What is known?", documents=[path])
        for path in ("../outside.md", "/etc/passwd", "link.md", ".private/key.txt", "missing.md", "~/x")
    ]
    wrong = await desk.use("start_session", goal="What is known?", max_turns=0)
    unknown = [
        await desk.use(tool, session="no-such-session")
        for tool in ("status", "plan", "session_result", "list_artifacts", "finish_now", "cancel_session")
    ]
    for session in ("finished", "cancelled"):
        await desk.use("start_session", goal="It takes patience.", session=session)
    while "T1 (researcher): running" not in desk.progress:
        assert (await desk.status("finished", 1))["next_tools"] == ""
    told = await desk.use("tell", session="finished", text="Take your time.", subtask="T1")
    changed = await desk.use("edit_plan", session="finished", edits=[{"edit": "drop", "subtask": "T1"}])
    interrupted = await desk.use("interrupt", session="finished")
    raised = await desk.use("raise_limits", session="finished", max_turns=30)
    running = await desk.use("session_result", session="finished", wait_seconds=0)
    await desk.use("finish_now", session="finished")
    finished = await desk.use("session_result", session="finished", wait_seconds=60)
    ended = await desk.status("finished")
    await desk.use("cancel_session", session="cancelled")
    cancelled = await desk.use("session_result", session="cancelled", wait_seconds=60)
    tools = await desk.server.list_tools()

    assert all("that may be read; it has to be in" in each for each in refused)
    assert "limits.max_turns" in wrong
    assert all("There is no session or conversation 'no-such-session' here" in each for each in unknown)
    assert all(each.startswith("Session finished is executing") for each in (told, interrupted))
    assert "has begun" in changed
    assert " of 30 turns" in raised
    assert running.startswith("There is no report yet. Session finished is ")
    assert "stopped by `finish`" in finished
    assert ended["shown"] == "stopped by `finish`"
    assert "Session 'cancelled' was cancelled." in cancelled
    ends = {each.name for each in tools if each.annotations and each.annotations.destructive_hint}
    reads = {each.name for each in tools if each.annotations and each.annotations.read_only_hint}
    assert ends == {"decide_plan", "decide_call", "finish_now", "cancel_session", "close"}
    listing = {"list_sessions", "list_artifacts", "read_artifact"}
    assert reads == {"status", "plan", "session_result", "transcript", *listing}


async def test_an_assistant_talks_with_a_crew(desk: Desk) -> None:
    """It opens one by its first message, continues it by its id, reads the transcript and closes it."""
    first = await desk.use("say", session="talk-1", text="Good morning", crew="office", documents=["notes.md"])
    position = await desk.status("talk-1")
    second = await desk.use("say", session="talk-1", text="And good evening")
    other = await desk.use("say", session="talk-1", text="Who is there?", crew="research")
    said = await desk.use("transcript", session="talk-1")
    closed = await desk.use("close", session="talk-1")
    end = await desk.opened.chargehand.conversation("talk-1").result()
    ended = await desk.status("talk-1")

    assert first == "I see."
    assert second == "As ever:\n```\n```\n\nGap: [a]\\(http://b.example) &lt;img src=c> \\ href{http://d.example}{e}"
    assert "'talk-1' exists and differs in crew" in other
    assert (position["state"], position["next_tools"]) == ("awaiting_message", "say or close")
    assert (ended["state"], ended["next_tools"]) == ("finished", "transcript")
    assert "And good evening" in said
    assert closed.startswith("Session talk-1 is ")
    assert (end.reason, end.messages) == ("closed", 2)


@pytest.fixture(scope="module")
async def tools() -> dict[str, Any]:
    server = build_server(Connection(LocationOptions()), ())
    return {tool.name: tool for tool in await server.list_tools()}


def _fields(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a schema, without the titles that are made up from names."""
    fields: dict[str, Any] = schema["properties"]
    return {name: {key: part for key, part in field.items() if key != "title"} for name, field in fields.items()}


@pytest.mark.parametrize("row", MESSAGES.values(), ids=MESSAGES)
def test_the_mcp_server_has_a_tool_for_every_message(tools: dict[str, Any], row: Row) -> None:
    """The tool has the row's name and summary, and takes a session and the contract's fields unchanged."""
    tool = tools[row.name]
    taken = _fields(tool.input_schema)
    contract: dict[str, Any] = row.takes.model_json_schema() if row.takes else {"properties": {}}

    assert tool.description.startswith(f"{row.summary}.")
    assert taken.pop("session")["description"]
    if row.name == "status":
        taken.pop("wait_seconds")
    assert taken == _fields(contract)
    assert set(tool.input_schema["required"]) == {"session", *contract.get("required", ())}


def test_assistants_are_pointed_to_tools_that_exist(tools: dict[str, Any]) -> None:
    """Each thing a session may wait for names the tool that resolves it."""
    named = {name for words in (*NEXT.values(), RESULT) for name in words.split(" or ")}

    assert named <= set(tools)


async def test_over_http_only_clients_with_the_token_are_served() -> None:
    """A web page is refused by its Origin or Host, even with the token."""
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "assistant", "version": "1"}}
    called = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    own = {"Authorization": f"Bearer {TOKEN}"}
    cases: list[tuple[dict[str, str], int]] = [
        (own, 200),
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        (own | {"Origin": "https://evil.example"}, 403),
        (own | {"Host": "evil.example"}, 421),
    ]

    with serve_app(app_of(build_server(Connection(LocationOptions()), ()), TOKEN)) as url:
        async with httpx2.AsyncClient(timeout=30, headers={"Accept": "application/json, text/event-stream"}) as http:
            answers = [await http.post(f"{url}/mcp", json=called, headers=headers) for headers, _ in cases]

    assert [each.status_code for each in answers] == [status for _, status in cases]
    assert ["chargehand" in each.text for each in answers] == [True, False, False, False, False]


async def test_over_http_a_token_must_be_set(client: Client) -> None:
    """Without CHARGEHAND_MCP_TOKEN the command exits with 2."""
    ran = await Commands(client)("mcp", "--http", "8765")

    assert ran.code == 2
    assert "Set CHARGEHAND_MCP_TOKEN, which clients have to send." in " ".join(ran.said.split())
