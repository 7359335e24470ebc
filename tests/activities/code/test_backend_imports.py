"""What a worker imports before any backend is used."""

import subprocess
import sys

HEAVY = ("e2b", "httpcore2", "httpx", "httpx2", "matplotlib", "numpy", "pydantic_monty", "trafilatura")
PROGRAM = f"""
import sys
from pathlib import Path
from activities.tools.code.e2b import E2BRunner
from activities.tools.code.monty import MontyRunner
from activities.tools.code.tool import RunCode
from activities.tools.data.chart import DrawChart
from activities.documents.artifacts import ArtifactStore
from activities.documents.library import DocumentLibrary
from activities.tools.pages.tool import ReadPage
from activities.tools.search.tavily import TavilySearch
from activities.tools.search.tool import Search
store = ArtifactStore(Path("artifacts"))
for runner in (MontyRunner(), E2BRunner("key")):
    RunCode(runner, store)
DrawChart(DocumentLibrary(store, Path("indexes")), store), ReadPage(), Search(TavilySearch("key"))
print(sorted(set({HEAVY!r}) & set(sys.modules)))
"""


def test_making_a_tool_imports_nothing_heavy() -> None:
    """A worker starts without the libraries of backends that nobody has used yet."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("[]\n", "")
