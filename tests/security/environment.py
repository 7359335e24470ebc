"""A worker with the real tools, whose model is as obedient as can be."""

import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import JsonValue
from temporalio.exceptions import ApplicationError

from activities.contracts.crew import Crew
from activities.contracts.mcp_declaration import McpDeclaration
from activities.contracts.tool import Tool, ToolAnswer, ToolContext, ToolSpec
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.documents.tool import ReadDocument, SearchDocuments
from activities.tools.data.query import QueryData
from activities.tools.pages.tool import ReadPage
from activities.tools.search.protocol import SearchHit, SearchResults
from activities.tools.search.tool import Search
from chargehand.client import Chargehand
from chargehand.contracts import Capability, Limits
from chargehand.wire import ErrorType
from chargehand_plugins.mcp.tests import scripted_server
from chargehand_plugins.mcp.tools.server import McpServer
from chargehand_plugins.mcp.tools.tool import tools_of
from tests.activities.pages.page_server import PageServer
from tests.environment import Backends
from tests.in_memory_temporal import in_memory_client
from tests.scripted_model import Respond, ScriptedModel, ScriptedTool, found

_STRANGER: Final = Path(scripted_server.__file__)


@dataclass
class Engine:
    """A search engine whose results, chosen by a word of the query, are written by strangers."""

    results: dict[str, tuple[SearchHit, ...]] = field(default_factory=dict[str, tuple[SearchHit, ...]])
    failures: dict[str, str] = field(default_factory=dict[str, str])
    name: str = "engine"
    reaches_out: bool = True

    async def search(self, query: str, limit: int, documents: tuple[str, ...]) -> SearchResults:  # noqa: ARG002  # the protocol's
        if query in self.failures:
            raise ApplicationError(self.failures[query], type=ErrorType.TOOL_UNAVAILABLE, non_retryable=True)
        return SearchResults(query=query, results=self.results.get(query, ()), confidence=50)


@dataclass
class Used:
    """A use of a tool that really happened."""

    session: str
    agent: str
    tool: str
    arguments: Mapping[str, JsonValue]


class Watched:
    """A tool that notes every use of it."""

    def __init__(self, tool: Tool, uses: list[Used]) -> None:
        self._tool = tool
        self._uses = uses
        self.capabilities: frozenset[Capability] = tool.capabilities

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

    async def use(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> ToolAnswer:
        self._uses.append(Used(context.session, context.agent, self.spec.name, dict(arguments)))
        return await self._tool.use(arguments, context)


@dataclass
class Stand:
    """A running worker with its client and its fakes."""

    chargehand: Chargehand
    model: ScriptedModel
    crew: Crew
    uses: list[Used]


@asynccontextmanager
async def open_stranger(folder: Path, *tools: str) -> AsyncGenerator[McpServer]:
    """Run a stranger's MCP server, which returns the files of a folder on request."""
    arguments = ("-IS", str(_STRANGER), "0", str(folder / "starts"))
    declared = McpDeclaration(name="stranger", command=sys.executable, args=arguments, tools=tools)
    server = McpServer(declared, {})
    await server.start()
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def open_stand(
    folder: Path,
    respond: Respond,
    web: PageServer,
    engine: Engine,
    *,
    roots: Sequence[Path] = (),
    stranger: McpServer | None = None,
) -> AsyncGenerator[Stand]:
    """Serve sessions with the real tools, each of them watched; those that run programs are scripted.

    The tools of a `stranger` belong to the researcher.
    """
    uses: list[Used] = []
    library = DocumentLibrary(ArtifactStore(folder / "artifacts"), folder / "indexes", tuple(roots))
    read_page = ReadPage(frozenset({web.host}))
    made: list[Tool] = [
        Search(engine),
        read_page,
        SearchDocuments(library),
        ReadDocument(library),
        QueryData(library),
        *(ScriptedTool(name, found(f"{name}.md#L1", f"what {name} read")) for name in ("draw_chart", "run_code")),
    ]
    asked = tools_of([stranger] if stranger else [])
    made += asked.values()
    watched = {tool.spec.name: Watched(tool, uses) for tool in made}
    model = ScriptedModel(respond)
    backends = Backends(model, {**watched}, document_roots=tuple(roots))
    crew = backends.crews["research"]
    agents = [
        agent.model_copy(update={"tools": (*agent.tools, *asked)}) if agent.name == "researcher" else agent
        for agent in crew.agents
    ]
    crew = backends.crews["research"] = crew.model_copy(update={"agents": tuple(agents)})
    ceilings = Limits.model_validate({"max_turns": 1000, "budget_usd": 1000, "max_rounds": 50})
    try:
        async with in_memory_client(backends.activities(folder, ceilings)) as client:
            yield Stand(Chargehand(client), model, crew, uses)
    finally:
        await read_page.close()
