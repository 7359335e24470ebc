"""A folder with a table of sales, and the tools with which agents query it."""

from pathlib import Path

from pydantic import JsonValue

from activities.contracts.tool import ToolAnswer, ToolContext
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.tools.data.query import QueryData

_SALES = "day,region,units,revenue\n2026-01-01,North,3,1200.10\n2026-01-02,South,4,2000.20\n2026-01-03,North,5,3000\n"
BY_REGION = "SELECT region, sum(revenue) AS revenue, sum(units) AS units FROM sales GROUP BY region ORDER BY region"


class Harness:
    """The folder, a store for charts, and a library that has read the table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "sales.csv").write_text(_SALES)
        self.store = ArtifactStore(folder / "artifacts")
        self.library = DocumentLibrary(self.store, folder / "index", (folder,))

    async def ask(self, sql: JsonValue, *, documents: bool = True, timeout_seconds: float = 20.0) -> ToolAnswer:
        return await QueryData(self.library, timeout_seconds).use({"sql": sql}, self.context(documents=documents))

    def context(self, *, documents: bool) -> ToolContext:
        uris = (f"file:{self.folder}/sales.csv",) if documents else ()
        return ToolContext(session="s", agent="analyst", idempotency_key="k", documents=uris)
