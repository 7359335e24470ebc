"""The HTTP API on a real server: what a program can do with a session."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from itertools import product
from typing import Any
from urllib.parse import quote

import pytest
from openapi_spec_validator import validate
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from chargehand.contracts import Report, SessionRequest
from chargehand.contracts.base import contract
from chargehand.errors import InvalidInput, SessionEnded, SessionNotFound
from chargehand.wire import WorkflowType
from chargehand_plugins.console.api import OPERATIONS
from chargehand_plugins.console.streams import message
from chargehand_plugins.console.tests.conftest import OpenConsole, events_of, open_console
from tests.scripted_model import Held, Script, answer, subtask
from tests.waiting import eventually, until_state

HELD = Held(answer("Late."))
GOAL = "What do the documents say?"
STEERED = "Let me steer."
QUICK = Script().plan(subtask("T1"), subtask("T2")).work("", answer("It is known."))
SCRIPT = QUICK.plan(subtask("T3"), subtask("T4", after=["T3"]), goal=STEERED).work("T3", HELD)


@pytest.fixture(scope="module")
async def console(client: Client, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenConsole]:
    async with open_console(client, tmp_path_factory.mktemp("console"), SCRIPT) as opened:
        yield opened


async def start(console: OpenConsole, **fields: Any) -> str:
    answered = await console.api.post("/api/v1/sessions", json={"goal": GOAL, **fields})
    assert answered.status_code == 201, answered.text
    return answered.json()["session"]


async def test_a_session_can_be_run_from_start_to_report_over_http(console: OpenConsole) -> None:
    """A program starts it, decides on its plan and gets the report; a decision on nothing pending is a conflict."""
    session, rejected = await start(console, approval="plan"), await start(console, approval="plan")
    path = f"/api/v1/sessions/{session}"
    for each in (session, rejected):
        await until_state(console.environment.chargehand.session(each), "awaiting_approval")
    not_yet = await console.api.get(f"{path}/result")
    call = {"call": "c1", "hash": "0" * 64, "decision": "approve"}
    bodies = {"decide_call": call, "answer": {"subtask": "T1", "text": "Yes."}, "decide_plan": {"decision": "edit"}}
    refused = [(await console.api.post(f"{path}/{name}", json=body)).status_code for name, body in bodies.items()]
    reason = {"decision": "reject", "reason": "Not now."}
    rejecting = await console.api.post(f"/api/v1/sessions/{rejected}/decide_plan", json=reason)
    ended = await console.api.get(f"/api/v1/sessions/{rejected}/result?wait=60")
    plan = (await console.api.get(f"{path}/plan")).json()
    del plan["subtasks"][1]
    decided = await console.api.post(f"{path}/decide_plan", json={"decision": "edit", "plan": plan})
    reported = await console.api.get(f"{path}/result?wait=60")
    again = await console.api.post(f"{path}/decide_plan", json={"decision": "approve"})
    listed = (await console.api.get("/api/v1/sessions?limit=1000")).json()["sessions"]

    assert (not_yet.status_code, refused) == (202, [409, 409, 422])
    assert (rejecting.status_code, ended.status_code, ended.json()["kind"]) == (200, 409, "PlanRejected")
    assert decided.status_code == 200, decided.text
    assert [each["id"] for each in decided.json()["subtasks"]] == ["T1"]
    assert [each.id for each in Report.model_validate_json(reported.content).subtasks] == ["T1"]
    assert again.status_code == 409
    assert session in [each["id"] for each in listed]


async def test_a_running_session_can_be_steered_over_http(console: OpenConsole) -> None:
    """Pending subtasks are edited, agents told and interrupted, limits raised, and the report requested."""
    session = await start(console, goal=STEERED)
    path = f"/api/v1/sessions/{session}"
    await HELD.reached.wait()
    edited = await console.api.post(f"{path}/edit_plan", json={"edits": [{"edit": "drop", "subtask": "T4"}]})
    begun = await console.api.post(f"{path}/edit_plan", json={"edits": [{"edit": "drop", "subtask": "T3"}]})
    told = await console.api.post(f"{path}/tell", json={"text": "Be brief.", "subtask": "T3"})
    interrupted = await console.api.post(f"{path}/interrupt", json={})
    raised = await console.api.post(f"{path}/raise_limits", json={"max_turns": 44, "budget_usd": 3})
    finished = await console.api.post(f"{path}/finish_now")
    reported = (await console.api.get(f"{path}/result?wait=60")).json()

    assert [each["id"] for each in edited.json()["subtasks"]] == ["T3"]
    assert begun.status_code in (409, 422)
    assert [each.status_code for each in (told, interrupted, finished)] == [200] * 3, told.text
    assert (raised.json()["max_turns"], raised.json()["budget_usd"]) == (44, 3)
    assert reported["stop_reason"] == "finish_now"


async def test_documents_are_uploaded_in_a_form(console: OpenConsole) -> None:
    """Each file becomes a document of the request under its own safe name, wherever the client had it."""
    request = json.dumps({"goal": GOAL})
    names = ["notes.txt", "../../etc/passwd.txt", "C:\\Users\\a\\notes.txt"]
    files = [("documents", (name, f"Text of {name}.".encode())) for name in names]
    answered = await console.api.post("/api/v1/sessions", data={"request": request}, files=files)

    assert answered.status_code == 201, answered.text
    found = await console.environment.chargehand.session(answered.json()["session"]).request()
    assert [each.rpartition("/")[2] for each in found.documents] == ["notes.txt", "passwd.txt", "notes%20%282%29.txt"]


async def test_a_repeated_idempotency_key_starts_one_session(console: OpenConsole) -> None:
    """Even concurrent requests return the same session; a different request with that key is refused."""
    headers = {"Idempotency-Key": "order-4711"}
    same = [console.api.post("/api/v1/sessions", json={"goal": GOAL}, headers=headers) for _ in range(5)]
    sessions = {(await each).json()["session"] for each in asyncio.as_completed(same)}
    other = await console.api.post("/api/v1/sessions", json={"goal": "Another goal."}, headers=headers)

    assert len(sessions) == 1
    assert other.status_code == 422
    assert "exists and differs in goal: use another id (over HTTP, another Idempotency-Key)" in other.json()["detail"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{}", "goal: is required"),
        (b'{"goal": "ok?", "limits": {"budget_usd": -1}}', "limits.budget_usd: "),
        (b'{"goal": "ok?", "bugdet": 1}', "bugdet: is not a known field"),
        (b'{"goal": "ok?", "goal": "no"}', "goal"),
        (b"[" * 100_000, "levels deep"),
        (b"not json", "JSON"),
        (b"", "JSON"),
    ],
)
async def test_an_invalid_request_error_names_the_field(console: OpenConsole, body: bytes, words: str) -> None:
    """The answer is immediate, as problem details, and nothing is started."""
    answered = await console.api.post("/api/v1/sessions", content=body, headers={"Content-Type": "application/json"})

    assert answered.status_code == 422
    assert answered.headers["content-type"] == "application/problem+json"
    assert answered.json()["detail"].startswith("The request is invalid: ")
    assert words in answered.json()["detail"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"crew": "no-such-crew"}, "crew: there is no crew 'no-such-crew'; there are "),
        ({"tiers": {"agents": {"no-such-agent": "small"}}}, "no-such-agent"),
        ({"limits": {"max_turns": 1}}, "max_turns"),
        ({"follows": "no-such-session"}, "no-such-session"),
    ],
)
async def test_a_request_the_worker_refuses_fails_at_the_start(
    console: OpenConsole, fields: dict[str, object], words: str
) -> None:
    """The API answers 422 with the reason, and a client that waits for the session to open gets it too."""
    body = {"goal": "What is known?", **fields}
    answered = await console.api.post("/api/v1/sessions", json=body)
    session = await console.environment.chargehand.start(contract(SessionRequest, **body))
    with pytest.raises(InvalidInput, match=words.partition(";")[0]):
        await session.opened()

    assert (answered.status_code, words in answered.json()["detail"]) == (422, True)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ((None, b"Text of notes."), "documents: must be files"),
        (("bad.bin", b"\0" * 100), "bad.bin"),
        (("broken.docx", b"PK\3\4 and no more"), "documents: none of them can be read; broken.docx: "),
    ],
)
async def test_an_unusable_document_is_refused(
    console: OpenConsole, document: tuple[str | None, bytes], says: str
) -> None:
    """A part without a filename is refused, not dropped; the answer does not say where this server keeps uploads."""
    parts = {"request": (None, json.dumps({"goal": GOAL}).encode()), "documents": document}
    answered = await console.api.post("/api/v1/sessions", files=parts)

    assert (answered.status_code, says in answered.text) == (422, True)
    assert "/tmp" not in answered.text
    assert "chargehand-upload" not in answered.text


async def test_unknown_sessions_are_not_found(console: OpenConsole, client: Client) -> None:
    """Every operation on one returns 404, also for a workflow that is not a session, which stays unchanged."""
    other = await client.start_workflow("NoSession", id="payroll", task_queue="not-polled")
    for each, session in product(OPERATIONS, ("unknown", other.id)):
        if "{session}" in each.path:
            path = f"/api/v1{each.path}".format(session=session, number=1)
            answered = await console.api.request(each.method, path, json={} if each.takes else None)
            assert answered.status_code == 404, (each.name, session)

    with pytest.raises(SessionNotFound):
        await console.environment.chargehand.session(other.id).cancel()
    happened = [EventType.Name(each.event_type) async for each in other.fetch_history_events()]
    assert not [each for each in happened if "CANCEL" in each]
    await other.terminate()


@pytest.mark.parametrize("name", ["team/tides", "a/stream", "a/../b", "/", "c%2Fd"])
async def test_a_session_id_with_slashes_works_in_every_url(console: OpenConsole, name: str) -> None:
    """Temporal's clients may use any id; the list, its page, its forms and the API all reach it."""
    chargehand = console.environment.chargehand
    request, path = SessionRequest(goal=STEERED), f"/sessions/{quote(name, safe='')}"
    await chargehand.client.start_workflow(WorkflowType.SUPERVISOR, request, id=name, task_queue=chargehand.task_queue)
    await until_state(chargehand.session(name), "executing")

    async with console.browser() as browser:
        listed, page = (await browser.get("/sessions")).text, await browser.get(path)
        token = re.search(r'name="csrf" value="([^"]+)"', page.text)
        assert token
        form = {"csrf": token[1], "text": "typed text", "subtask": "T9"}
        refused = await browser.post(f"{path}/tell", data=form)
    status = await console.api.get(f"/api/v1{path}/status")
    await console.api.post(f"/api/v1{path}/cancel")

    assert (f'href="{path}"' in listed, page.status_code, f'action="{path}/tell"' in page.text) == (True, 200, True)
    assert "typed text" in refused.text
    assert (status.status_code, status.json()["session"]) == (200, name)


async def test_the_openapi_document_describes_every_operation(console: OpenConsole) -> None:
    """The document is valid and has exactly the operations that are served."""
    document = (await console.api.get("/api/v1/openapi.json")).json()

    validate(document)
    assert [document["components"]["schemas"].get(f"Plan{mode}") for mode in ("-Input", "-Output")] == [None, None]
    described = {each["operationId"] for path in document["paths"].values() for each in path.values()}
    assert described == {each.name for each in OPERATIONS}


async def test_an_unsupported_method_or_filter_is_refused(console: OpenConsole) -> None:
    """A 405 lists the allowed methods of the path, and a 422 names the unreadable filter."""
    method = await console.api.put("/api/v1/sessions")
    filtered = await console.api.get("/api/v1/sessions", params={"crew": "\0"})

    assert (method.status_code, {*method.headers["allow"].split(", ")}) == (405, {"GET", "HEAD", "POST"})
    assert (filtered.status_code, "crew: " in filtered.json()["detail"]) == (422, True)


def test_a_server_sent_event_preserves_its_data() -> None:
    """Only the protocol's own line ends split the data; other Unicode line separators may occur in JSON."""
    data = json.dumps("a\u2028b\u0085c\x1cd", ensure_ascii=False)

    assert message(data) == f"data: {data}\n\n"
    assert message("a\rb\r\nid: 1\n", "live") == "event: live\ndata: a\ndata: b\ndata: id: 1\ndata: \n\n"


async def listed_events(console: OpenConsole, path: str, **headers: str) -> list[dict[str, Any]]:
    """Read an event stream to its end; the id of each event is its cursor."""
    found = [(each["id"], json.loads(each["data"])) async for each in events_of(console.api, path, **headers)]
    assert [id_ for id_, _ in found] == [event["cursor"] for _, event in found]
    return [event for _, event in found]


def without_cursors(events: list[dict[str, Any]]) -> list[str]:
    """List events in an order that does not depend on which subtask was faster."""
    return sorted(json.dumps({**each, "cursor": ""}) for each in events)


async def test_an_event_stream_resumes_after_the_last_event_id(console: OpenConsole) -> None:
    """A client that reconnects gets the remaining events, none twice and none left out."""
    session = await start(console)
    path = f"/api/v1/sessions/{session}/events"
    whole = await listed_events(console, path)
    rests = [await listed_events(console, path, **{"Last-Event-ID": each["cursor"]}) for each in whole[:-1:4]]
    invalid = await console.api.get(path, headers={"Last-Event-ID": "nonsense"})

    assert whole[-1]["kind"] == "end"
    assert {"plan", "subtask", "turn", "spend", "state"} <= {each["kind"] for each in whole}
    for number, rest in enumerate(rests):
        assert without_cursors(rest) == without_cursors(whole[4 * number + 1 :])
    assert invalid.status_code == 422


async def test_spend_equals_the_sum_of_the_listed_sessions(console: OpenConsole) -> None:
    """Sums by day and tenant match the session list, including a session that could not begin."""
    refused = SessionRequest(goal="What is known?", crew="no-such-crew", tenant="refused")
    with pytest.raises(SessionEnded):
        await console.environment.chargehand.run(refused)
    started = [await start(console, tenant=tenant) for tenant in ("twice", "twice", "once")]
    for session in started:
        assert (await console.api.get(f"/api/v1/sessions/{session}/result?wait=60")).status_code == 200

    async def listing(state: str = "") -> list[dict[str, Any]]:
        return (await console.api.get(f"/api/v1/sessions?limit=1000{state}")).json()["sessions"]

    await eventually(
        lambda: listing("&state=finished"), lambda some: {*started} <= {each["id"] for each in some if each["cost_usd"]}
    )
    listed = await listing()
    spend = (await console.api.get("/api/v1/spend")).json()

    by_tenant = {each["tenant"]: each for each in spend["rows"]}
    assert [by_tenant[name]["sessions"] for name in ("twice", "once", "refused")] == [2, 1, 1]
    assert by_tenant["twice"]["dollars"] == pytest.approx(2 * by_tenant["once"]["dollars"])
    assert spend["total"]["sessions"] == len(listed)
    assert spend["total"]["dollars"] == pytest.approx(sum(each["cost_usd"] or 0 for each in listed))


async def test_a_conversation_can_be_held_over_http(console: OpenConsole) -> None:
    """A program opens one, gets replies, reads the transcript and closes it; the same key opens it once."""
    opening = {"crew": "research", "goal": "Help the tenant."}
    first, again = [
        await console.api.post("/api/v1/conversations", json=opening, headers={"Idempotency-Key": "talk"})
        for _ in range(2)
    ]
    path = f"/api/v1/conversations/{first.json()['session']}"
    reply = await console.api.post(f"{path}/say", json={"text": "Hello"})
    wrong = await console.api.post(f"{path}/say", json={"text": "", "loud": True})
    transcript = await console.api.get(f"{path}/transcript")
    closed = await console.api.post(f"{path}/close")
    session = await start(console, goal=STEERED)
    no_conversation, unknown = [
        await console.api.post(f"/api/v1/conversations/{each}/say", json={"text": "Hello"})
        for each in (session, "unknown")
    ]
    await console.api.post(f"/api/v1/sessions/{session}/cancel")

    assert first.status_code == 201, first.text
    assert first.json() == again.json()
    assert (reply.status_code, reply.json()["text"]) == (200, "I see.")
    assert wrong.status_code == 422
    assert "loud: is not a known field" in wrong.json()["detail"]
    assert [line["text"] for line in transcript.json()["lines"]] == ["Hello", "I see."]
    assert closed.status_code == 200
    assert (no_conversation.status_code, unknown.status_code) == (404, 404)
    assert no_conversation.json()["detail"].startswith(f"'{session}' is a session, not a conversation.")
    assert unknown.json()["detail"].startswith("There is no session or conversation 'unknown' here.")
