"""Sessions as tasks of an A2A agent that the console serves, in the trace of their caller."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest
from a2a.client import ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as a2a
from a2a.utils import errors
from hypothesis import given
from hypothesis import strategies as st
from temporalio.client import Client

from activities.turn_kinds.plan import PlanTask
from chargehand.contracts import SessionRequest
from chargehand_plugins.console.tests.conftest import TOKEN, OpenConsole, open_console
from chargehand_plugins.opentelemetry.caller_trace import CallerTrace, carried, received_trace
from tests.conftest import local_server
from tests.crew_files import crew_folder
from tests.otlp_receiver import started_trace
from tests.scripted_model import Held, Script, answer, request_tool, say, subtask
from tests.waiting import eventually

ASKED = "Which year?"
MEANT = "The latest one."


async def call(
    console: OpenConsole, method: str, headers: Mapping[str, str] | None = None, /, **parameters: object
) -> dict[str, Any]:
    """Call the agent as a client that does not use the library would."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    return (await console.api.post("/api/a2a", json=body, headers={"A2A-Version": "1.0", **(headers or {})})).json()


@pytest.mark.slow
async def test_an_a2a_message_starts_a_session_whose_report_is_an_artifact(tmp_path: Path) -> None:
    """Resending returns the same session, a reply resumes it, cancel stops it, and only the card is public."""
    question = answer("", status="ambiguous_input").model_copy(update={"message": ASKED})
    script = Script().plan(subtask("T1")).work("", question).work(MEANT, answer("It is known."))
    script = script.plan(subtask("T1", instruction="Have patience."), goal="patience")
    script = script.work("patience", Held(answer("Late.")))
    # Uses its own server, since all sessions are listed.
    async with local_server() as client, open_console(client, tmp_path, script) as console:
        environment, url = console.environment, console.running.url
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            card = (await http.get(f"{url}/.well-known/agent-card.json")).json()
            stranger = await http.post(card["supportedInterfaces"][0]["url"], json={"jsonrpc": "2.0", "id": 1})
            http.headers["Authorization"] = f"Bearer {TOKEN}"
            agent = await ClientFactory(ClientConfig(streaming=False, httpx_client=http)).create_from_url(url)

            async def send(text: str, message_id: str, task: str = "", *, waits: bool = True) -> a2a.Task:
                message = a2a.Message(message_id=message_id, role=a2a.ROLE_USER, parts=[a2a.Part(text=text)])
                message.task_id = task
                configuration = a2a.SendMessageConfiguration(return_immediately=not waits)
                request = a2a.SendMessageRequest(message=message, configuration=configuration)
                [answered] = [each async for each in agent.send_message(request)]
                return answered.task

            message_id = str(uuid4())
            asks = await send("What is known?", message_id)
            again = await send("What is known?", message_id)
            ended = await send(MEANT, str(uuid4()), asks.id)
            read = await agent.get_task(a2a.GetTaskRequest(id=asks.id))
            patient = await send("It takes patience.", message_id, waits=False)
            cancelled = await agent.cancel_task(a2a.CancelTaskRequest(id=patient.id))
            with pytest.raises(errors.TaskNotCancelableError):
                await agent.cancel_task(a2a.CancelTaskRequest(id=asks.id))
            parts = [a2a.Part(raw=b"p", media_type="image/png")]
            picture = a2a.Message(message_id="p", role=a2a.ROLE_USER, parts=parts)
            with pytest.raises(errors.ContentTypeNotSupportedError):
                _ = [each async for each in agent.send_message(a2a.SendMessageRequest(message=picture))]
            await client.start_workflow("NoSession", id="no-session", task_queue="not-polled")
            for unknown in ("no-such-task", "no-session"):
                with pytest.raises(errors.TaskNotFoundError):
                    await agent.cancel_task(a2a.CancelTaskRequest(id=unknown))
            listed = partial(agent.list_tasks, a2a.ListTasksRequest(status=a2a.TASK_STATE_CANCELED))
            await eventually(listed, lambda found: found.total_size == 1)  # lists are updated a moment later
            one = await agent.list_tasks(a2a.ListTasksRequest(page_size=1))
            rest = await agent.list_tasks(a2a.ListTasksRequest(page_token=one.next_page_token, include_artifacts=True))
            own = await agent.list_tasks(a2a.ListTasksRequest(context_id=asks.id))
            for wrong in (
                a2a.ListTasksRequest(page_size=0),
                a2a.ListTasksRequest(page_size=101),
                a2a.ListTasksRequest(page_token="x"),
                a2a.ListTasksRequest(page_token="0001-01-01T00:00:00+14:00"),
                a2a.ListTasksRequest(history_length=-1),
                a2a.ListTasksRequest(context_id="\0"),
            ):
                with pytest.raises(errors.InvalidParamsError):
                    await agent.list_tasks(wrong)
            with pytest.raises(errors.UnsupportedOperationError):
                await agent.list_tasks(a2a.ListTasksRequest(status=a2a.TASK_STATE_REJECTED))
        report = await environment.chargehand.session(asks.id).result()

    assert stranger.status_code == 401
    assert again.id == asks.id != patient.id
    assert asks.status.state == a2a.TASK_STATE_INPUT_REQUIRED
    assert ASKED in asks.status.message.parts[0].text
    assert ended == read
    assert read.status.state == a2a.TASK_STATE_COMPLETED
    assert report.answer in read.artifacts[0].parts[0].text
    assert cancelled.status.state == a2a.TASK_STATE_CANCELED
    assert ([each.id for each in one.tasks], one.total_size, rest.total_size) == ([patient.id], 2, 2)
    assert ([each.id for each in rest.tasks], rest.next_page_token) == ([asks.id], "")
    assert rest.tasks[0].artifacts == read.artifacts
    [one] = own.tasks
    assert (one.id, one.status.state, list(one.artifacts)) == (asks.id, a2a.TASK_STATE_COMPLETED, [])
    assert [task.goal for task in environment.model.tasks(PlanTask)].count("What is known?") == 1


@pytest.mark.slow
async def test_only_new_sessions_and_conversations_count_as_starts(client: Client, tmp_path: Path) -> None:
    """Starts over A2A and HTTP share one rate limit; reads and messages to an existing task are free."""
    async with open_console(client, tmp_path, Script(), starts_per_minute=1) as console:

        async def post(path: str, body: object) -> int:
            return (await console.api.post(path, json=body, headers={"A2A-Version": "1.0"})).status_code

        async def call(method: str, **parameters: object) -> int:
            return await post("/api/a2a", {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters})

        message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "What is known?"}]}
        reads = [await call("ListTasks"), await call("GetTask", id="none"), await call("CancelTask", id="none")]
        goes_on = [await call("SendMessage", message=message | {name: "none"}) for name in ("taskId", "task_id")]
        starts = [
            await call("SendMessage", message=message, configuration={"returnImmediately": True}),
            await call("SendMessage", message=message | {"taskId": ""}),
            await post("/api/v1/sessions", {"goal": "Help."}),
            await post("/api/v1/conversations", {"goal": "Help."}),
        ]
        last = await call("ListTasks")

    assert [*reads, *goes_on, last] == [200] * 6
    assert starts == [200, 429, 429, 429]


_HOSTILE = (
    *("[" * 5_000, '{"a":' * 5_000, "[" * 100 + "]" * 100, "9" * 6_000),
    *('"\\ud800"', "NaN", '{"a":1,"a":2}', "{", "\ufeff1"),
)


@pytest.mark.slow
async def test_invalid_json_is_reported_as_a_parse_error(client: Client, tmp_path: Path) -> None:
    """Invalid JSON, as the whole body or as a call's id, returns -32700 with our own message."""
    async with open_console(client, tmp_path, Script()) as console:
        for body in (*_HOSTILE, *(f'{{"jsonrpc":"2.0","method":"GetTask","id":{each}}}' for each in _HOSTILE)):
            answered = await console.api.post("/api/a2a", content=body, headers={"A2A-Version": "1.0"})
            error = answered.json()["error"]
            assert (error["code"], error["message"].startswith("input")) == (-32700, True), body[:60]


@pytest.mark.slow
async def test_a_conversation_is_an_a2a_task_that_accepts_messages(client: Client, tmp_path: Path) -> None:
    """Each message gets its own reply, a resent one counts once, and wrong ids and crews are named."""
    held = Held(say("Its valve is closed."))
    hm = say("Hm.").model_copy(update={"gaps": ["[a](http://b.example)"]})
    script = Script().replies("", hm).replies("Hello", say("Hello. What can I do?")).replies("pump", held)
    async with open_console(client, tmp_path, script) as console:

        async def ask(method: str, **parameters: object) -> list[str]:
            if "error" in (told := await call(console, method, **parameters)):
                return [told["error"]["message"]]
            task = told["result"].get("task", told["result"])
            assert task["contextId"] == task["id"]
            messages = (task["status"]["message"], *task.get("history", ()))
            lines = ["\n".join(part["text"] for part in each["parts"]) for each in messages]
            return [task["id"], task["status"]["state"].removeprefix("TASK_STATE_"), *lines]

        async def send(text: str, name: str, *, waits: bool = True, **fields: object) -> list[str]:
            message = {"messageId": name, "role": "ROLE_USER", "parts": [{"text": text}], **fields}
            return await ask("SendMessage", message=message, configuration={"returnImmediately": not waits})

        opened, again = [await send("Hello", "1", metadata={"conversation": "research"}) for _ in range(2)]
        task = opened[0]
        pump = asyncio.create_task(send("Why does the pump not run?", "2", taskId=task))
        await held.reached.wait()
        working = await send("And the lamp?", "3", taskId=task, waits=False)
        lamp = asyncio.create_task(send("And the lamp?", "3", taskId=task))
        held.released.set()
        told, last, repeated = await pump, await lamp, await send("And the lamp?", "3", taskId=task, contextId=task)
        refused = [
            *await send("Hello", "4", taskId=task, contextId="another"),
            *[(await send("Hello", "5", metadata={"conversation": crew}))[0] for crew in (5, "", "none")],
        ]
        read = await ask("GetTask", id=task, historyLength=1)
        ended = await ask("CancelTask", id=task)
        refused += await send("Hello?", "6", taskId=task)

    said = ["Hello", "Hello. What can I do?", "Why does the pump not run?"]
    assert opened == again == [task, "INPUT_REQUIRED", said[1], *said[:2]]
    assert (working[1], working[3:6], told[1:3]) == ("WORKING", said, ["INPUT_REQUIRED", "Its valve is closed."])
    gap = "Hm.\nGap: [a]\\(http://b.example)"
    assert last == repeated == [task, "INPUT_REQUIRED", gap, *said, "And the lamp?", "Its valve is closed.", "Hm."]
    assert read == [task, "INPUT_REQUIRED", "Hm.", "Hm."]
    assert (ended[1], ended[3:]) == ("CANCELED", last[3:])
    for problem, reason in zip(refused, ("contextId", "metadata", "metadata", "crew 'none'", "cancelled"), strict=True):
        assert reason in problem


@pytest.mark.slow
async def test_a_sender_is_told_when_a_tool_call_awaits_approval(client: Client, tmp_path: Path) -> None:
    """The notice does not wait for the reply timeout, and covers a call that was already waiting."""
    script = Script().replies("money", request_tool("refund", amount=7), say("Refunded.")).replies("When", say("Now."))
    crews = crew_folder(tmp_path, "desk", clerk='tools = ["refund"]\napprove = ["refund"]')
    async with open_console(client, tmp_path, script, own_crews=(crews,), acting=("refund",)) as console:

        async def send(text: str, **fields: object) -> dict[str, Any]:
            message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}], **fields}
            return (await call(console, "SendMessage", message=message))["result"]["task"]

        asked = await send("I want my money.", metadata={"conversation": "desk"})
        then = await send("When?", taskId=asked["id"])
        talk = console.environment.chargehand.conversation(asked["id"])
        await talk.approve_call((await talk.status()).calls[0])
        replies = [await send(text, taskId=talk.id) for text in ("I want my money.", "When?")]

    for told in (asked["status"], then["status"]):
        assert told["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert "A tool call awaits approval." in told["message"]["parts"][0]["text"]
    assert [each["status"]["message"]["parts"][0]["text"] for each in replies] == ["Refunded.", "Now."]


PARENT: Final = f"00-{'ab' * 16}-{'cd' * 8}-01"


@dataclass(frozen=True)
class Desk:
    """A console, and the client that it starts sessions with."""

    console: OpenConsole
    client: Client

    async def start(self, headers: dict[str, str]) -> str:
        """Start a session through the API, as a caller's program does."""
        request = SessionRequest(goal="What is known?", review="never")
        body = request.model_dump(mode="json", exclude_unset=True)
        answered = await self.console.api.post("/api/v1/sessions", json=body, headers=headers)
        return answered.json()["session"]

    async def send(self, headers: dict[str, str]) -> str:
        """Start a session through A2A."""
        message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": "What is known?"}]}
        parameters = {"message": message, "configuration": {"returnImmediately": True}}
        return (await call(self.console, "SendMessage", headers, **parameters))["result"]["task"]["id"]


@pytest.fixture(scope="module")
async def desk(client: Client, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Desk]:
    config: dict[str, Any] = {**client.config(), "interceptors": [CallerTrace()]}
    sending = Client(**config)
    async with open_console(sending, tmp_path_factory.mktemp("traces"), Script()) as console:
        yield Desk(console, client)


async def test_a_session_joins_the_trace_of_the_request_that_starts_it(desk: Desk) -> None:
    """traceparent and tracestate are propagated, baggage is not; without a traceparent there is no trace."""
    headers = {"traceparent": PARENT, "tracestate": "vendor=1", "baggage": "user=zanzibar"}
    carrier = {"traceparent": PARENT, "tracestate": "vendor=1"}

    assert await started_trace(desk.client, await desk.start(headers)) == carrier
    assert await started_trace(desk.client, await desk.send(headers)) == carrier
    assert await started_trace(desk.client, await desk.start({})) is None


async def test_a_session_with_an_invalid_trace_header_starts_without_a_trace(desk: Desk) -> None:
    """The request succeeds; an oversized tracestate is dropped and the valid traceparent is kept."""
    assert await started_trace(desk.client, await desk.start({"traceparent": f"{PARENT}-zanzibar"})) is None
    assert await started_trace(desk.client, await desk.start({"traceparent": PARENT, "tracestate": "x" * 600})) == {
        "traceparent": PARENT
    }


@given(
    st.text()
    | st.tuples(
        st.sampled_from(["00", "ff", "0"]),
        st.sampled_from(["0" * 32, "AB" * 16, "ab" * 15]),
        st.sampled_from(["0" * 16, "cd" * 8]),
    ).map(lambda parts: "-".join((*parts, "01")))
)
def test_only_a_valid_traceparent_is_propagated(text: str) -> None:
    """A traceparent with zero, uppercase or wrong-length ids, or any other text, is ignored."""
    with received_trace(text, "vendor=1"):
        assert carried() == {}
    with received_trace(PARENT):
        assert carried() == {"traceparent": PARENT}
