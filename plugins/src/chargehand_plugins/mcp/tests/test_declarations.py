"""MCP servers in crew files: what is accepted, how mistakes are reported, and errors of workers without the plug-in."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from activities.backends import SettingsError
from activities.contracts.mcp_declaration import McpDeclaration
from activities.contracts.tool import READS_THE_WEB, Tool
from activities.crews.files import CrewError, load_crews, mcp_declarations
from chargehand_plugins.mcp.tools import registry
from chargehand_plugins.mcp.tools.registry import mcp_tools
from tests.crew_files import crew_text
from worker.composition import compose
from worker.settings import Settings

SERVER = """
[[mcp]]
name = "time"
command = "mcp-server-time"
tools = ["convert_time"]
"""


def crew(name: str = "clock", servers: str = SERVER, tools: str = '"time_convert_time"', has: str = "") -> str:
    keeper = f'tools = [{tools}]\ncapabilities = ["reads_untrusted", "reaches_out"{has}]'
    return crew_text(name, servers, keeper=keeper)


def refusal(folder: Path, *crews: str) -> str:
    for number, text in enumerate(crews):
        (folder / f"{number}.toml").write_text(text)
    with pytest.raises(CrewError) as caught:
        load_crews([folder], {"search": READS_THE_WEB})
    return str(caught.value)


def server(**fields: str) -> str:
    lines = {"name": '"time"', "command": '"server"', "tools": '["a"]'} | fields
    return "[[mcp]]\n" + "\n".join(f"{name} = {value}" for name, value in lines.items() if value)


@pytest.mark.parametrize(
    ("servers", "says"),
    [
        (server(command=""), "must have either a `command`, for stdio, or a `url`, for streamable HTTP"),
        (server(url='"https://a.example/mcp"'), "must have either a `command`"),
        (server(url='"ftp://a.example"', command=""), "must be an address that begins with http:// or https://"),
        (server(url='"https://key@a.example/mcp"', command=""), "`url` must not contain credentials"),
        (server(url='"https://a.example"', command="", environment='["TOKEN"]'), "`environment` belong to a `command`"),
        (server(bearer_token='"TOKEN"'), "`oauth` belong to a `url`"),
        (server(environment='["TOKEN=abc"]'), "environment"),
        (server(tools="[]"), "name at least one of `tools` or `resources`"),
        (server(tools="[]", resources='["a://{city}"]'), "'a://{city}' is a template"),
        (server(tools='["a.b", "a_b"]'), "two of `tools` have the same name for agents"),
        (server(acts='["b"]'), "`acts` names 'b', which is not one of `tools`"),
        (server(approval='["b"]'), "`approval` names 'b', which is not one of `tools`"),
        (server(name='"my_server"'), "name"),
        (server(digest='"abc"'), "digest"),
        (server(token='"abc"'), "is not a known field"),
        (server() + "\n" + server(), "mcp: the name 'time' occurs 2 times"),
    ],
)
def test_an_invalid_mcp_declaration_is_refused(tmp_path: Path, servers: str, says: str) -> None:
    """The error names the field and what to do instead."""
    assert says in refusal(tmp_path, crew(servers=servers, tools='"time_a"'))


PRIVATE = SERVER + 'capabilities = ["reads_private", "reads_untrusted", "reaches_out"]'
ACTING = crew(servers=SERVER + 'acts = ["convert_time"]')


@pytest.mark.parametrize(
    ("crews", "says"),
    [
        (
            [crew(), crew("other", servers="")],
            "agents.keeper.tools: there is no tool 'time_convert_time'; there are search",
        ),
        (
            [crew(tools='"time_get_current_time"')],
            "there is no tool 'time_get_current_time'; there are search, time_convert_time",
        ),
        ([crew(servers=PRIVATE)], "declare that, or take the tool away"),
        ([crew(servers=PRIVATE, has=', "reads_private"')], "split them between two agents"),
        (
            [ACTING + ACTING[ACTING.index("[[agents]]") :].replace('"keeper"', '"second"')],
            "'time_convert_time' changes something and belongs to 2 agents",
        ),
    ],
    ids=["another crew's", "not allowed", "undeclared", "private and untrusted", "acts for two"],
)
def test_an_agent_gets_only_the_tools_its_crew_allows(tmp_path: Path, crews: list[str], says: str) -> None:
    """They are listed tools of its own crew's servers, with the capabilities that the operator declares."""
    assert says in refusal(tmp_path, *crews)


async def build(
    declared: Mapping[str, tuple[McpDeclaration, ...]], environment: Mapping[str, str] = {}, **options: Any
) -> dict[str, Tool]:
    async with AsyncExitStack() as closing:
        return await mcp_tools(declared, environment, closing, **options)


async def test_a_worker_without_the_credential_does_not_start(tmp_path: Path) -> None:
    """The error names the variable and the server."""
    (tmp_path / "c.toml").write_text(crew(servers=SERVER + 'environment = ["TIME_TOKEN"]'))

    with pytest.raises(SettingsError, match="TIME_TOKEN is not set, but the MCP server 'time' of a crew needs it"):
        await build(mcp_declarations([tmp_path]), {"TIME_TOKEN": " "})


async def test_two_crews_cannot_use_one_name_for_different_servers() -> None:
    """Otherwise an agent of one crew would reach the other crew's server."""
    one = McpDeclaration(name="time", command="one", tools=("a",))
    other = McpDeclaration(name="time", command="other", tools=("a",))

    with pytest.raises(SettingsError, match="Crew 'b': another crew declares the MCP server 'time' differently"):
        await build({"a": (one,), "b": (other,)})


async def test_a_worker_without_the_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is an optional extra."""
    monkeypatch.setattr(registry, "find_spec", lambda _: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]  # the name does not matter

    with pytest.raises(SettingsError, match=r"pip install 'chargehand\[mcp\]'"):
        await build({"a": (McpDeclaration(name="time", command="one", tools=("a",)),)})


async def test_a_tool_name_collision_stops_the_worker() -> None:
    """A server's tool must not have the name of one of the worker's own tools."""
    declaration = McpDeclaration(name="own", command="one", tools=("tool",))

    with pytest.raises(SettingsError, match="There is another tool 'own_tool'"):
        await build({"a": (declaration,)}, taken={"own_tool"}, start=False)


async def test_a_worker_without_the_mcp_plugin_names_the_plugin(tmp_path: Path, install: Callable[..., None]) -> None:
    """It does not start with a crew whose tools it cannot provide."""
    (tmp_path / "clock.toml").write_text(crew())
    install()

    async with AsyncExitStack() as closing:
        with pytest.raises(SettingsError, match=r"Crew 'clock' declares MCP servers.*chargehand\[mcp\]"):
            await compose(Settings(state_dir=tmp_path / "state", crews=tmp_path), {}, closing)
