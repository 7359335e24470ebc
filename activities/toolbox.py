"""The tools of a worker, one row each: a new tool is a new file and a row."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from activities.backends import Choice
from activities.code.protocol import CodeRunner
from activities.documents.artifacts import Artifacts
from activities.documents.library import DocumentLibrary
from activities.search.protocol import SearchBackend
from activities.tools import Tool


@dataclass(frozen=True)
class ToolParts:
    """What tools are built from."""

    search: SearchBackend
    code: CodeRunner
    library: DocumentLibrary
    artifacts: Artifacts
    page_hosts: frozenset[str]
    closing: AsyncExitStack


def _search(parts: ToolParts) -> Tool:
    from activities.search.tool import Search

    return Search(parts.search)


def _read_page(parts: ToolParts) -> Tool:
    from activities.pages.tool import ReadPage

    tool = ReadPage(parts.page_hosts)
    parts.closing.push_async_callback(tool.close)
    return tool


def _search_documents(parts: ToolParts) -> Tool:
    from activities.documents.tool import SearchDocuments

    return SearchDocuments(parts.library)


def _read_document(parts: ToolParts) -> Tool:
    from activities.documents.tool import ReadDocument

    return ReadDocument(parts.library)


def _query_data(parts: ToolParts) -> Tool:
    from activities.data.query import QueryData

    return QueryData(parts.library)


def _draw_chart(parts: ToolParts) -> Tool:
    from activities.data.chart import DrawChart

    return DrawChart(parts.library, parts.artifacts)


def _run_code(parts: ToolParts) -> Tool:
    from activities.code.tool import RunCode

    return RunCode(parts.code, parts.artifacts, parts.library.sources)


TOOLS: Final[tuple[Callable[[ToolParts], Tool], ...]] = (
    _search,
    _read_page,
    _search_documents,
    _read_document,
    _query_data,
    _draw_chart,
    _run_code,
)


def build_tools(parts: ToolParts) -> dict[str, Tool]:
    """Build every tool, by the name under which models call it."""
    tools = [build(parts) for build in TOOLS]
    return {tool.spec.name: tool for tool in tools}


def choose_pages(search: Choice) -> Choice:
    """Decide whether agents read web pages."""
    if search.adapter == "local":
        return Choice("pages", "off", "the search reads the user's documents, and no agent may carry them to the web")
    return Choice("pages", "httpx2", "a web search is available")


def absent_tools(pages: Choice) -> frozenset[str]:
    """Name the tools that crews may mention and agents do not get."""
    return frozenset({"read_page"} if pages.adapter == "off" else ())
