"""The operator's own tools, as a worker finds and refuses them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import pytest

from activities.backends import Choice, SettingsError
from activities.contracts.tool import ToolContext, look_up_of
from activities.tools.own import choose_own_tools, find_own_tools, open_own_tools
from chargehand.errors import ChargehandError
from chargehand.plugins import Extension
from chargehand.tools import Depends, tool

CONTEXT = ToolContext(session="s", agent="a", idempotency_key="k")
GOOD = '''
from chargehand.tools import tool

@tool(capabilities=["reads_private"])
def stock_level(item: str) -> int:
    """Return how many pieces of an item are in stock."""
    return 3

@tool(capabilities=["reaches_out"], acts=True, approval=True)
def order(item: str) -> str:
    """Order an item."""
    return item
'''


def test_tools_are_found_by_module_and_by_name(folder: Path) -> None:
    """A tool that is named twice counts once, and `doctor` lists what each does."""
    (folder / "shop.py").write_text(GOOD)
    (folder / "more.py").write_text("from shop import order")
    added = [Extension("shop", "shop"), Extension("shop", "shop:order"), Extension("more", "more")]

    assert [each.name for each in find_own_tools(added)] == ["stock_level", "order"]
    assert choose_own_tools(added) == Choice("own tools", "stock_level, order (acts, approval)", "added by shop, more")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD.replace('"""Order an item."""', "pass"), r"shop\.py:9: order: has no docstring; say in one"),
        (
            GOOD.replace("acts=True", "acts=True, settles_within=__import__('datetime').timedelta(0)"),
            r"shop\.py:9: order: settles_within: it has no lookup that could wait; leave it out",
        ),
        (GOOD.replace("order", "search"), r"shop\.py:9: search: Chargehand has a tool of that name; rename"),
        (
            GOOD.replace("item: str", "item: dict[str, str]"),
            r"shop\.py:4: stock_level: .* use a list of name and value",
        ),
        (
            "import missing_package",
            r"'shop': shop cannot be imported: ModuleNotFoundError: .*'missing_package'; install it, or",
        ),
        ("1 / 0", r"'shop': shop cannot be imported: ZeroDivisionError"),
        ("", r"'shop': shop has no tools; decorate a function"),
    ],
)
def test_an_invalid_own_tool_is_refused_with_the_remedy(folder: Path, text: str, problem: str) -> None:
    """The worker does not start, and `doctor` reports the same problem."""
    (folder / "shop.py").write_text(text)

    added = [Extension("shop", "shop")]
    with pytest.raises(ChargehandError, match=problem) as refused:
        find_own_tools(added, taken=["search"])

    assert choose_own_tools(added, taken=["search"]).problem == str(refused.value)


async def test_own_tools_run_within_a_turn_unless_declared_as_a_step() -> None:
    @tool(capabilities=[])
    def quick() -> str:
        """Read."""
        return "read"

    @tool(capabilities=[], own_step=True)
    def dear() -> str:
        """Read what each call is paid for."""
        return "read"

    async with AsyncExitStack() as closing:
        tools = await open_own_tools([quick, dear], 2, closing)

    assert {name: each.spec.own_step for name, each in tools.items()} == {"quick": False, "dear": True}


async def test_a_dependency_is_opened_once_and_closed_with_the_worker() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def open_shop() -> AsyncGenerator[str]:
        events.append("opened")
        yield "the shop"
        events.append("closed")

    @tool(capabilities=[])
    def read(shop: Annotated[str, Depends(open_shop)]) -> str:
        """Read."""
        return shop

    @tool(capabilities=[])
    async def write(shop: Annotated[str, Depends(open_shop)]) -> str:
        """Write."""
        return shop

    async with AsyncExitStack() as closing:
        tools = await open_own_tools([read, write], 2, closing)
        said = [(await each.use({}, CONTEXT)).sources[0].quote for each in tools.values()]

    assert said == ["the shop", "the shop"]
    assert events == ["opened", "closed"]


async def test_a_dependency_that_cannot_be_opened_is_named() -> None:
    def open_shop() -> str:
        raise OSError("no route")

    @tool(capabilities=[])
    def read(shop: Annotated[str, Depends(open_shop)]) -> str:
        """Read."""
        return shop

    async with AsyncExitStack() as closing:
        with pytest.raises(
            SettingsError, match=r"read: its dependency 'open_shop' cannot be opened: OSError: no route"
        ):
            await open_own_tools([read], 2, closing)


async def test_a_lookup_is_bounded_by_its_tools_time_limit() -> None:
    """On a timeout, the outcome of the call stays unknown."""

    @tool(capabilities=["reaches_out"], acts=True, time_limit=timedelta(milliseconds=1))
    async def order() -> str:
        """Order."""
        return "ordered"

    @order.lookup
    async def look_up() -> str | None:
        await asyncio.Event().wait()

    async with AsyncExitStack() as closing:
        opened = (await open_own_tools([order], 2, closing))["order"]
        bounded = look_up_of(opened)
        assert bounded
        with pytest.raises(TimeoutError):
            await bounded({}, CONTEXT)
