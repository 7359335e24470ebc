"""A worker imports only the adapters that its settings select, and their libraries only on first use."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = ("anthropic_messages", "openai_responses", "openai_chat", "prices", "schemas", "failures", "registry")
ROOT = Path(__file__).parents[3]
NOT_CHOSEN = (
    *(f"activities.models.{name}" for name in ("anthropic_messages", "openai_chat", "openai_responses")),
    *(f"activities.tools.{name}" for name in ("code.e2b", "search.tavily")),
    *(f"chargehand_plugins.{name}" for name in ("bubblewrap.runner", "mcp.tools.connection")),
    *(f"chargehand_plugins.search_services.{name}" for name in ("brave", "ddgs", "searxng")),
    *("boto3", "google.cloud.storage", "matplotlib", "mcp", "opentelemetry", "pydantic_monty", "trafilatura"),
)
UNUSED = {"_duckdb", "anthropic", "e2b", "genai_prices", "httpcore2", "httpx", "httpx2", "numpy", "openai"}

_MADE = f"""
{chr(10).join(f"import activities.models.{name}" for name in MODULES)}
from activities.models.anthropic_messages import AnthropicModel
from activities.models.openai_chat import OpenAIChatModel
from activities.models.openai_responses import OpenAIResponsesModel
from activities.tools.code.e2b import E2BRunner
from activities.tools.search.tavily import TavilySearch
AnthropicModel(api_key="k"), OpenAIResponsesModel(api_key="k"), OpenAIChatModel(base_url="http://127.0.0.1/v1")
E2BRunner("key"), TavilySearch("key")
"""
_STARTED = """
import asyncio, gc, os, signal, tempfile
from contextlib import nullcontext
from pathlib import Path
from worker import process, program
from worker.settings import Settings

def stop():
    assert len(gc.get_objects()) < 1_000, "collections scan what lives as long as the process"
    os.kill(os.getpid(), signal.SIGTERM)

process._connect, process.polling = lambda *_: asyncio.sleep(0, object()), lambda *_: nullcontext()
asyncio.run(process.run(Settings(state_dir=Path(tempfile.mkdtemp())), stop))
"""


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        pytest.param(_MADE, UNUSED, id="adapters"),
        pytest.param(_STARTED, {*UNUSED, *NOT_CHOSEN}, id="worker", marks=pytest.mark.slow),
    ],
)
def test_adapters_that_are_not_used_are_not_imported(code: str, unwanted: set[str]) -> None:
    """Creating adapters imports no SDK; a default worker loads neither other adapters nor tool libraries."""
    program = f"{code}\nimport json, sys\nprint(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)

    assert set(json.loads(done.stdout)) & unwanted == set()
