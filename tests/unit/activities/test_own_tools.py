"""The operator's own tools, as a worker finds and refuses them."""

import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Annotated

import pytest

from activities import own_tools
from activities.backends import SettingsError
from activities.own_tools import choose_own_tools, find_own_tools, open_own_tools
from activities.tools import ToolContext
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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules can be imported, as that in which a worker is started."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_tools_are_found_by_module_and_by_entry_point(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both name them once, and `doctor` lists what they do."""
    (folder / "shop.py").write_text(GOOD)
    (folder / "more.py").write_text("from shop import order")
    points = EntryPoints([EntryPoint("shop", "shop", own_tools.ENTRY_POINTS), EntryPoint("o", "shop:order", "x")])
    monkeypatch.setattr(own_tools, "entry_points", points.select)

    chosen = choose_own_tools("shop, more")

    assert [each.name for each in find_own_tools("")] == ["stock_level", "order"]
    assert (chosen.adapter, chosen.problem) == ("stock_level, order (acts, approval)", "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD.replace('"""Order an item."""', "pass"), r"shop\.py:9: order: has no docstring; say in one"),
        (GOOD.replace("order(item: str)", "order(item)"), r"shop\.py:9: order: item: has no type; annotate it"),
        (GOOD.replace("order", "search"), r"shop\.py:9: search: Chargehand has a tool of that name; rename"),
        (GOOD.replace("reaches_out", "reads_all"), r"shop\.py:9: order: capabilities: there is no 'reads_all'"),
        (
            GOOD.replace("item: str", "item: dict[str, str]"),
            r"shop\.py:4: stock_level: .* use a list of name and value",
        ),
        ("import missing_package", r"the module 'shop' cannot be imported: No module named 'missing_package'; install"),
        ("1 / 0", r"the module 'shop' cannot be imported: ZeroDivisionError"),
        ("", r"the module 'shop' has no tools; decorate a function"),
    ],
)
def test_a_wrong_tool_is_refused_with_the_remedy(folder: Path, text: str, problem: str) -> None:
    """A worker does not start with it, and `doctor` says the same."""
    (folder / "shop.py").write_text(text)

    with pytest.raises(SettingsError, match=problem) as refused:
        find_own_tools("shop", taken=["search"])

    assert choose_own_tools("shop", taken=["search"]).problem == str(refused.value)


async def test_a_dependency_is_opened_once_and_closed_with_the_worker() -> None:
    """Two tools share what one provider opens."""
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
    """The worker does not start without it."""

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
