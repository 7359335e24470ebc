"""A worker imports the adapters that its settings choose, and no others, and libraries once they are used."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = ("anthropic_messages", "openai_responses", "openai_chat", "prices", "schemas", "failures", "registry")
ROOT = Path(__file__).parents[3]
NOT_CHOSEN = (
    "chargehand_plugins.bubblewrap.runner",
    "activities.tools.code.e2b",
    "chargehand_plugins.mcp.tools.connection",
    "activities.models.anthropic_messages",
    "activities.models.openai_chat",
    "activities.models.openai_responses",
    "chargehand_plugins.search_services.brave",
    "chargehand_plugins.search_services.ddgs",
    "chargehand_plugins.search_services.searxng",
    "activities.tools.search.tavily",
    "boto3",
    "e2b",
    "google.cloud.storage",
    "mcp",
    "opentelemetry",
)
HEAVY = ("anthropic", "openai", "httpx2", "genai_prices")
TOOLS_OWN = ("_duckdb", "httpcore2", "httpx", "matplotlib", "numpy", "pydantic_monty", "trafilatura")


_IMPORTED = "\n".join(f"import activities.models.{name}" for name in MODULES)
_MADE = f"""
{_IMPORTED}
from activities.models.anthropic_messages import AnthropicModel
from activities.models.openai_chat import OpenAIChatModel
from activities.models.openai_responses import OpenAIResponsesModel
from activities.tools.code.e2b import E2BRunner
from activities.tools.search.tavily import TavilySearch
AnthropicModel(api_key="k"), OpenAIResponsesModel(api_key="k"), OpenAIChatModel(base_url="http://127.0.0.1/v1")
E2BRunner("key"), TavilySearch("key")
"""
_COMPOSED = """
import asyncio, tempfile
import worker.program
from contextlib import AsyncExitStack
from pathlib import Path
from worker.settings import Settings
from worker.composition import compose

async def main():
    async with AsyncExitStack() as closing:
        await compose(Settings(state_dir=Path(tempfile.mkdtemp())), {}, closing)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        pytest.param(_MADE, {*HEAVY, *TOOLS_OWN, "e2b"}, id="adapters"),
        pytest.param(_COMPOSED, {*HEAVY, *TOOLS_OWN, *NOT_CHOSEN}, id="worker", marks=pytest.mark.slow),
    ],
)
def test_adapters_that_are_not_used_are_not_imported(code: str, unwanted: set[str]) -> None:
    """Making adapters imports no SDK; a default worker with its tools loads neither others' packages nor theirs."""
    program = f"{code}\nimport json, sys\nprint(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)

    assert set(json.loads(done.stdout)) & unwanted == set()
