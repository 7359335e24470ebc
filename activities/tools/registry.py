"""The tools of a worker: a new tool is a new file and a row in `build_tools`."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Final

from activities.backends import Choice
from activities.contracts.tool import Tool
from activities.documents.artifacts import Artifacts
from activities.documents.library import DocumentLibrary
from activities.documents.tool import ReadDocument, SearchDocuments
from activities.tools.code.protocol import CodeRunner
from activities.tools.code.tool import RunCode
from activities.tools.data.query import QueryData
from activities.tools.pages.tool import ReadPage
from activities.tools.recall import Recall
from activities.tools.search.protocol import SearchBackend
from activities.tools.search.tool import Search

TOOL_NAMES: Final = frozenset(
    (*("search", "read_page", "search_documents", "read_document", "query_data", "draw_chart", "run_code"), "recall")
)
_TOOLS_OF_PLUGINS: Final = frozenset({"draw_chart"})
"""Tools that shipped crews mention and that come with plug-ins."""
_OFF: Final = "off"


def build_tools(
    *,
    search: SearchBackend,
    code: CodeRunner,
    library: DocumentLibrary,
    artifacts: Artifacts,
    page_hosts: frozenset[str],
    closing: AsyncExitStack,
) -> dict[str, Tool]:
    """Build every tool, keyed by the name under which models call it."""
    read_page = ReadPage(page_hosts)
    closing.push_async_callback(read_page.close)
    tools: tuple[Tool, ...] = (
        Search(search),
        read_page,
        SearchDocuments(library),
        ReadDocument(library),
        QueryData(library),
        RunCode(code, artifacts, library),
        Recall(artifacts),
    )
    return {tool.spec.name: tool for tool in tools}


def choose_pages(search: Choice) -> Choice:
    """Decide whether agents read web pages."""
    if search.adapter == "local":
        return Choice("pages", _OFF, "the search reads the user's documents, and no agent may carry them to the web")
    return Choice("pages", "httpx2", "a web search is available")


def absent_tools(chosen: Mapping[str, Choice], tools: Mapping[str, Tool]) -> frozenset[str]:
    """List the tools that crews may mention but agents do not get."""
    off = {"read_page"} if chosen["pages"].adapter == _OFF else set[str]()
    return (_TOOLS_OF_PLUGINS - tools.keys()) | off
