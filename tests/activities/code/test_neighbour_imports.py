"""What a worker imports before any neighbour is used."""

import subprocess
import sys

HEAVY = ("e2b", "httpcore2", "httpx", "httpx2", "pydantic_monty", "tavily", "trafilatura")
PROGRAM = f"""
import sys
from activities.code.e2b import E2BRunner
from activities.code.monty import MontyRunner
from activities.code.tool import RunCode
from activities.pages.tool import ReadPage
from activities.search.tavily import TavilySearch
from activities.search.tool import Search
RunCode(MontyRunner()), RunCode(E2BRunner("key")), ReadPage(), Search(TavilySearch("key"))
print(sorted(set({HEAVY!r}) & set(sys.modules)))
"""


def test_making_a_tool_imports_nothing_heavy() -> None:
    """A worker starts without the libraries of neighbours that nobody has used yet."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("[]\n", "")
