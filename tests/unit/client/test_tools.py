"""Tool functions: what a model is told about them, and how they are called."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, cast

import pytest
from pydantic import BaseModel, Field, JsonValue

from chargehand.tool_signature import Given
from chargehand.tools import NOT_YET_KNOWN, Depends, Tool, ToolAnswer, ToolContext, ToolDefinitionError, ToolError, tool

CONTEXT = ToolContext(session="s", agent="a", idempotency_key="k")


class Address(BaseModel):
    street: str


def open_stock() -> dict[str, int]:
    return {"A-17": 3}


@tool(capabilities=["reads_private"])
def stock_level(
    item: str,
    stock: Annotated[dict[str, int], Depends(open_stock)],
    site: Address | None = None,
    wing: Literal["north", "south"] = "north",
    least: Annotated[int, Field(ge=1, description="How many are needed.")] = 1,
    *,
    context: ToolContext,
) -> str:
    """Return how many pieces of an item are in stock.

    Use it before anything is promised.

    Args:
        item: The item's number,
            such as A-17.
        wing (str): Wing of the warehouse.

    Returns:
        The number of pieces.
    """
    if item == "fault":
        raise ZeroDivisionError
    if item not in stock:
        raise ToolError(f"There is no item {item}; search for its number.")
    return f"{stock[item]} in {wing} of {site} for {context.agent}, at least {least}"


def use(one: Tool[..., Any], **arguments: JsonValue) -> ToolAnswer:
    return asyncio.run(one.use(arguments, Given(CONTEXT, {open_stock: open_stock()})))


def test_the_tool_schema_comes_from_the_signature_and_docstring() -> None:
    """Context and dependencies are left out; arguments with a default are required but nullable, as providers want."""
    schema = stock_level.signature.schema

    assert stock_level.name == "stock_level"
    assert stock_level.signature.description == (
        "Return how many pieces of an item are in stock.\n\nUse it before anything is promised."
    )
    assert schema["required"] == ["item", "site", "wing", "least"]
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert {name: each.get("description") for name, each in properties.items() if isinstance(each, dict)} == {
        "item": "The item's number, such as A-17.",
        "site": "(null: nothing)",
        "wing": "Wing of the warehouse. (null: 'north')",
        "least": "How many are needed. (null: 1)",
    }


def test_null_arguments_get_their_defaults() -> None:
    by_default = use(stock_level, item="A-17", site=None, wing=None, least=None)
    given = use(stock_level, item="A-17", site={"street": "Quay 1"}, wing="south", least=2)

    assert by_default.sources[0].quote == "3 in north of None for a, at least 1"
    assert given.sources[0].quote == "3 in south of street='Quay 1' for a, at least 2"
    assert by_default.sources[0].ref != given.sources[0].ref


def test_errors_that_the_model_can_correct_are_returned_to_it() -> None:
    """Wrong arguments never reach the function and say what to do; any exception but `ToolError` is raised."""
    cases: list[tuple[dict[str, JsonValue], str]] = [
        ({"item": "B"}, "There is no item B; search for its number."),
        ({"item": 3, "shelf": 1}, "The arguments do not fit: item: must be a string; shelf: is not a kno"),
        ({}, "The arguments do not fit: item: is required. Nothing was done."),
    ]
    for arguments, told in cases:
        answer = use(stock_level, **arguments)
        assert not answer.ok
        assert str(answer.output["error"]).startswith(told)
    with pytest.raises(ZeroDivisionError):
        use(stock_level, item="fault")


async def test_a_synchronous_function_runs_in_a_thread() -> None:
    """It does not block the worker; an asynchronous one runs in the event loop."""

    @tool(capabilities=[])
    def blocking() -> str:
        """Block."""
        return threading.current_thread().name

    @tool(capabilities=[])
    async def waiting() -> str:
        """Wait."""
        return threading.current_thread().name

    threads = [(await one.use({}, Given(CONTEXT))).sources[0].quote for one in (blocking, waiting)]

    assert threads[0] != threads[1] == threading.current_thread().name


def test_a_long_tool_result_is_cut_with_a_note() -> None:
    @tool(capabilities=[])
    def read() -> str:
        """Read."""
        return "x" * 10_000

    answer = use(read)

    assert len(answer.sources[0].quote) == 8_000
    assert answer.output == {"note": "These are the first 8,000 of 10,000 characters. Ask for less."}


def plain() -> str:
    """Read."""
    return ""


def no_docstring(item: str) -> str:
    return item


def untyped(item) -> str:  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]  # on purpose
    """Return it."""
    return str(item)  # pyright: ignore[reportUnknownArgumentType]  # as above


def variadic(*items: str) -> str:
    """Return them."""
    return str(items)


def Upper(item: str) -> str:  # noqa: N802
    """Return it."""
    return item


def stray(item: str) -> str:
    """Return it.

    Args:
        thing: What to return.
    """
    return item


def unserialisable(item: threading.Lock) -> str:
    """Return it."""
    return str(item)


def test_an_invalid_tool_function_is_refused_at_its_definition() -> None:
    cases: list[tuple[Callable[..., object], str]] = [
        (no_docstring, "has no docstring; say in one what it does and when to use it"),
        (cast("Callable[..., str]", untyped), "item: has no type; annotate it"),
        (variadic, "items: models pass arguments by name; make it a plain parameter"),
        (Upper, "its name must be lower case"),
        (stray, "thing: its docstring describes it, and it has no such parameter"),
        (unserialisable, "its parameters have no JSON Schema"),
    ]
    for function, problem in cases:
        with pytest.raises(ToolDefinitionError) as refused:
            tool(capabilities=[])(function)
        assert str(refused.value).startswith(f"{__file__}:{function.__code__.co_firstlineno}: {function.__name__}: ")
        assert problem in str(refused.value)


def test_wrong_options_are_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"capabilities": ["reads_all"]}, "there is no 'reads_all'; there are reads_untrusted"),
        ({"capabilities": [], "time_limit": timedelta(hours=1)}, "at most 10 minutes"),
        ({"capabilities": [], "idempotent": True}, "pass acts=True"),
        ({"capabilities": [], "acts": True, "settles_within": timedelta(minutes=6)}, "from 0 to 5 minutes"),
        ({"capabilities": [], "acts": True, "settles_within": timedelta(-1)}, "from 0 to 5 minutes"),
        ({"capabilities": [], "settles_within": timedelta(0)}, "for a tool that acts"),
        ({"capabilities": [], "acts": True, "idempotent": True, "settles_within": timedelta(0)}, "is not idempotent"),
    ]
    for options, problem in cases:
        with pytest.raises(ToolDefinitionError, match=problem):
            tool(**options)(plain)


_WRONG_OPTIONS: Final = [
    *((name, "must be True or False") for name in ("acts", "idempotent", "repeatable", "approval", "own_step")),
    *((name, "must be a timedelta") for name in ("time_limit", "settles_within")),
    *((name, "must be a list of names") for name in ("capabilities", "credentials")),
]


@pytest.mark.parametrize("value", [1, "yes", [3, "x"], object()], ids=["1", "text", "list", "object"])
@pytest.mark.parametrize(("option", "told"), _WRONG_OPTIONS)
def test_tool_options_of_the_wrong_type_are_refused_by_name(option: str, told: str, value: object) -> None:
    options: dict[str, Any] = {"capabilities": [], option: value}
    with pytest.raises(ToolDefinitionError, match=f":{plain.__code__.co_firstlineno}: plain: {option}: {told}"):
        tool(**options)(plain)


def test_a_lookup_distinguishes_not_applied_from_not_yet_known() -> None:
    """A result is the call's answer, None means not applied, and any other empty value means not yet known."""
    found: dict[int, object] = dict(enumerate(["Booked.", None, NOT_YET_KNOWN, False, "", 0, (), True]))

    @tool(capabilities=[], acts=True)
    def book(room: int) -> int:
        """Book a room."""
        return room

    @book.lookup
    def _(room: int) -> object:
        return found[room]

    looked_up = [asyncio.run(book.look_up({"room": room}, Given(CONTEXT))) for room in found]

    quotes = [each.sources[0].quote if isinstance(each, ToolAnswer) else each for each in looked_up]
    assert quotes == ["Booked.", None, *[NOT_YET_KNOWN] * 5, "true"]


def test_a_lookup_takes_only_arguments_of_its_tool() -> None:
    @tool(capabilities=[], acts=True)
    def book(room: str) -> str:
        """Book a room."""
        return room

    with pytest.raises(ToolDefinitionError, match="day: 'book' has no such argument"):

        @book.lookup
        def find(day: str) -> str | None:
            return day

    with pytest.raises(ToolDefinitionError, match="pass acts=True"):
        stock_level.lookup(open_stock)
