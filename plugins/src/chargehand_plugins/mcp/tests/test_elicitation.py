"""A question that a server asks during a call becomes a session's question to a person, and the answer goes back."""

import asyncio
import json
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from pydantic import BaseModel, JsonValue, ValidationError
from temporalio.client import Client

from activities.contracts.mcp_declaration import McpDeclaration
from activities.contracts.tool import NeedsInput, ToolContext
from chargehand.contracts import Answer, SessionRequest
from chargehand.errors import UpdateRefused
from chargehand.messages import Messages
from chargehand_plugins.mcp.tests.http_server import serve_mcp
from chargehand_plugins.mcp.tests.test_sessions_with_tools import worker
from chargehand_plugins.mcp.tools.server import McpServer
from chargehand_plugins.mcp.tools.tool import McpTool
from tests.crew_files import crew_text
from tests.scripted_model import Script, ScriptedModel, answer, request_tool, subtask, work_task
from tests.waiting import until
from workflows.rules.forms import read_form
from workflows.rules.refusal import Refused


class Size(BaseModel):
    size: Literal["S", "M"]


class Parcel(BaseModel):
    street: str
    floor: int


@dataclass
class Shop:
    url: str = ""
    calls: list[str] = field(default_factory=list[str])


@contextmanager
def shop() -> Generator[Shop]:
    """Serve a tool that asks two questions in turn before it returns anything."""
    from mcp.server.mcpserver import Context, MCPServer

    served, mcp = Shop(), MCPServer("shop")

    @mcp.tool()
    async def quote(item: str, context: Context) -> str:
        """Say what an item costs."""
        served.calls.append(item)
        asked: Any = await context.elicit("Which size?", Size)
        if asked.action != "accept":
            return f"No size: {asked.action}"
        parcel: Any = await context.elicit("Where to?", Parcel)
        if parcel.action != "accept":
            return f"No address: {parcel.action}"
        return f"{item} in {asked.data.size} to {parcel.data.street}, floor {parcel.data.floor}, costs 12."

    with serve_mcp(mcp) as served.url:
        yield served


def crew_of(url: str) -> str:
    server = f'[[mcp]]\nname = "shop"\nurl = "{url}"\ntools = ["quote"]\nelicitation = true\ncapabilities = []\n'
    return crew_text("desk", server, clerk='tools = ["shop_quote"]\ncapabilities = []')


def asking_for_a_quote() -> ScriptedModel:
    script = Script().plan(subtask("T1", "clerk"))
    return ScriptedModel(script.work("", request_tool("shop_quote", item="Coat"), answer("Done.")))


@pytest.mark.parametrize("is_declined", [False, True])
async def test_a_person_answers_what_a_server_asks(client: Client, tmp_path: Path, *, is_declined: bool) -> None:
    """Questions come one by one; an unfit answer is refused, and the call is repeated with all answers so far."""
    model = asking_for_a_quote()
    with shop() as served:
        async with worker(client, tmp_path, crew_of(served.url), model) as chargehand:
            asked = SessionRequest(goal="What does a coat cost?", crew="desk", questions="allowed")
            session = await chargehand.start(asked)
            texts: list[str] = []

            async def is_asked() -> bool:
                status = await session.status()
                texts.extend(each.text for each in status.questions if each.text not in texts)
                return bool(status.questions)

            await until(is_asked)
            assert served.calls == ["Coat"]
            with pytest.raises(UpdateRefused, match="text: size must be one of S, M"):
                await session.answer(subtask="T1", text="XL")
            await session.answer(subtask="T1", text="M")

            async def is_asked_more() -> bool:
                return await is_asked() and len(texts) > 1

            await until(is_asked_more)
            with pytest.raises(UpdateRefused, match="text: must be a JSON object with the fields street, floor"):
                await session.answer(subtask="T1", text="Quay 4")
            last = {"decision": "decline"} if is_declined else {"text": '{"street": "Quay 4", "floor": 2}'}
            await session.send(Messages.answer, Answer.model_validate({"subtask": "T1", **last}))
            report = await session.result()

    assert texts == [
        "The MCP server 'shop' asks: Which size?\nAnswer with size (S, M)",
        "The MCP server 'shop' asks: Where to?\nAnswer with a JSON object of street (string); floor (integer)",
    ]
    [result] = work_task(model.of_kind("work")[-1]).rounds[0].results
    costs = "No address: decline" if is_declined else "Coat in M to Quay 4, floor 2, costs 12."
    assert [each.quote for each in result.sources] == [costs]
    assert served.calls == ["Coat", "Coat", "Coat"]
    assert [each.decision for each in report.decisions] == ["answered", "declined" if is_declined else "answered"]


@pytest.mark.parametrize("questions", ["none", "allowed"])
async def test_an_agent_is_told_that_a_servers_question_has_no_answer(
    client: Client, tmp_path: Path, questions: Literal["none", "allowed"]
) -> None:
    """This covers sessions without questions and a silent person; the call is made once."""
    model = asking_for_a_quote()
    with shop() as served:
        async with worker(client, tmp_path, crew_of(served.url), model) as chargehand:
            request = {"goal": "What does a coat cost?", "crew": "desk", "questions": questions, "answer_within": "1s"}
            await chargehand.run(SessionRequest.model_validate(request))

    [result] = work_task(model.of_kind("work")[-1]).rounds[0].results
    assert (result.ok, result.output) == (False, {"error": "Its server asks a person, who has not answered."})
    assert served.calls == ["Coat"]


async def test_concurrent_calls_get_their_own_questions() -> None:
    """Neither waits for the other, nor gets a question of a call that was cancelled."""
    from mcp import MCPError
    from mcp.server.mcpserver import Context, MCPServer

    mcp, three, is_late, called = MCPServer("shop"), asyncio.Barrier(3), asyncio.Event(), list[str]()

    @mcp.tool()
    async def quote(item: str, context: Context) -> str:
        """Say what an item costs; ask late for a boat."""
        called.append(item)
        try:
            await (is_late if item == "Boat" else three).wait()
        finally:
            if item == "Boat":
                with anyio.CancelScope(shield=True), suppress(MCPError):
                    await three.wait()
                    await context.elicit("Which harbour?", Size)
                is_late.set()
        await is_late.wait()
        return str((await context.elicit("Which size?", Size)).action)

    declared = {"name": "shop", "tools": ["quote"], "elicitation": True}
    caller = ToolContext(session="s", agent="clerk", idempotency_key="k")
    with serve_mcp(mcp) as url:
        server = McpServer(McpDeclaration.model_validate(declared | {"url": url}), {})
        tool = McpTool("shop_quote", server, "quote")
        boat = asyncio.create_task(tool.use({"item": "Boat"}, caller))
        await until(lambda: bool(called))
        boat.cancel()
        asked = await asyncio.gather(*(tool.use({"item": item}, caller) for item in ("Coat", "Hat")))
        await server.close()

    assert ["Which size?" in each.elicitation.asks for each in asked if isinstance(each, NeedsInput)] == [True] * 2


COLOURS: dict[str, JsonValue] = {"anyOf": [{"const": "red"}, {"const": "blue"}]}
FORM: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 1},
        "share": {"type": "number", "maximum": 1},
        "name": {"type": "string", "minLength": 1},
        "sure": {"type": "boolean"},
        "colours": {"type": "array", "minItems": 1, "maxItems": 2, "items": COLOURS},
    },
    "required": ["count"],
}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2", "must be a JSON object with the fields count, share, name, sure, colours"),
        ('{"sure": false}', "count is required"),
        ('{"count": true}', "count must be of type integer"),
        ('{"count": 2, "sure": 1}', "sure must be of type boolean"),
        ('{"count": 2, "colours": ["green"]}', "colours must be one of red, blue"),
        ('{"count": 2, "size": 1}', "there is no size"),
        ('{"count": 0}', "count must be at least 1"),
        ('{"count": 2, "colours": []}', "colours must be at least 1 values, at most 2 values"),
        ('{"count": 2, "colours": ["red", "red", "red"]}', "colours must be at least 1 values, at most 2 values"),
        ('{"count": 2, "share": 1e999}', "share must be at most 1"),
        ('{"count": 2, "share": NaN}', "share must be at most 1"),
        ('{"count": 2, "name": ""}', "name must be at least 1 characters"),
    ],
)
def test_an_answer_that_does_not_fit_its_form_is_refused(text: str, problem: str) -> None:
    """The refusal says what to write."""
    with pytest.raises(Refused, match=f"^text: {problem}$"):
        read_form(FORM, text)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("email", ["a@b.test"], ["a", "a@", "a b@c.test"]),
        ("uri", ["https://a.test/b", "urn:isbn:1"], ["a.test", "https://a b"]),
        ("date", ["2026-02-03"], ["3 February", "2026-13-01", "2026-2-3", "2026-02-30", "2025-02-29", "0000-01-01"]),
        (
            "date-time",
            ["2026-02-03T04:05:06Z", "2026-02-03T04:05+01:00"],
            ["2026-02-03", "2026-02-03 04:05", "2026-02-30T04:05Z", "2026-02-03T25:00Z", "2026-02-03T04:61Z"],
        ),
    ],
)
def test_a_text_answer_must_have_the_requested_format(kind: str, right: list[str], wrong: list[str]) -> None:
    """Formats that servers may ask for by name are checked; any other is the server's to check."""
    form: dict[str, JsonValue] = {"properties": {"a": {"type": "string", "format": kind}}}

    assert [read_form(form, text) for text in right] == [{"a": text} for text in right]
    for text in wrong:
        with pytest.raises(Refused, match=f"a must be of the format {kind}"):
            read_form(form, text)
    assert read_form({"properties": {"a": {"type": "string", "format": "house"}}}, "x") == {"a": "x"}


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        (r"^[A-Z]{2}-\d+$", "AB-12", "AB-x"),
        ("b", "abc", "ac"),
        ("^(a+)+$", "a" * 99, "a" * 99 + "b"),
        ("(?=a)", "b", ""),
    ],
)
def test_a_text_answer_must_match_the_requested_pattern(pattern: str, right: str, wrong: str) -> None:
    """No pattern takes long; one that needs another regex engine is the server's to check."""
    form: dict[str, JsonValue] = {"properties": {"a": {"type": "string", "pattern": pattern}}}

    assert read_form(form, right) == {"a": right}
    if wrong:
        with pytest.raises(Refused, match=re.escape(f"a must be as the pattern {pattern}")):
            read_form(form, wrong)


@pytest.mark.parametrize(
    "choices",
    [
        {"oneOf": [{"const": each, "title": title} for each, title in (("r", "Red"), ("Red", "Dark"), ("g", "Green"))]},
        {"enum": ["r", "Red", "g"], "enumNames": ["Red", "Dark", "Green"]},
    ],
)
def test_a_choice_is_selected_by_value_or_title(choices: dict[str, JsonValue]) -> None:
    """Both are shown; a text that is one choice's value and another's title means the value."""
    one: dict[str, JsonValue] = {"properties": {"a": {"type": "string"} | choices}}
    many: dict[str, JsonValue] = {"properties": {"a": {"type": "array", "items": choices}}}

    assert [read_form(one, text)["a"] for text in ("r", "Red", "Dark", "Green")] == ["r", "Red", "Red", "g"]
    assert read_form(many, '{"a": ["Green", "r"]}') == {"a": ["g", "r"]}
    with pytest.raises(Refused, match=r"a must be one of r \(Red\), Red \(Dark\), g \(Green\)"):
        read_form(one, "blue")


def test_an_answer_is_parsed_according_to_its_form() -> None:
    """A single value needs no JSON around it, and an omitted field gets its default."""
    whole = '{"count": 2, "sure": true, "colours": ["red"]}'
    single = {"string": ("12", "12"), "integer": (" 12 ", 12), "number": ("1.5", 1.5), "boolean": ("Yes", True)}
    form: dict[str, JsonValue] = {"properties": {"a": {"type": "integer", "default": 1}, "b": {"type": "string"}}}

    assert read_form(FORM, whole) == json.loads(whole)
    assert read_form(FORM, '{"count": 2}') == {"count": 2}
    for kind, (text, value) in single.items():
        assert read_form({"type": "object", "properties": {"it": {"type": kind}}}, text) == {"it": value}
    assert read_form(form, "{}") == {"a": 1}
    assert read_form(form, '{"a": 2, "b": "x"}') == {"a": 2, "b": "x"}
    with pytest.raises(Refused, match="a must be of type integer"):
        read_form({"properties": {"a": {"type": "integer", "default": "one"}, "b": {"type": "string"}}}, "{}")


def test_a_server_with_elicitation_has_no_acting_tool() -> None:
    """Its calls are repeated with each answer, so a declaration with `acts` is invalid."""
    with pytest.raises(ValidationError, match="declare the server twice"):
        McpDeclaration.model_validate(
            {"name": "shop", "url": "https://shop.test", "tools": ["buy"], "acts": ["buy"], "elicitation": True}
        )
