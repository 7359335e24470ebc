"""A worker without keys pays for no SDK."""

import json
import subprocess
import sys

MODULES = ("anthropic_messages", "openai_responses", "openai_chat", "prices", "schemas", "failures", "registry")
HEAVY = ("anthropic", "openai", "httpx2", "genai_prices")


def test_adapters_are_imported_and_made_without_their_sdks() -> None:
    """Neither importing the adapters nor making them imports an SDK, its transport or the price list."""
    imports = "\n".join(f"import activities.models.{name}" for name in MODULES)
    code = f"""
import json, sys
{imports}
from activities.models.anthropic_messages import AnthropicModel
from activities.models.openai_chat import OpenAIChatModel
from activities.models.openai_responses import OpenAIResponsesModel
AnthropicModel(api_key="k"), OpenAIResponsesModel(api_key="k"), OpenAIChatModel(base_url="http://127.0.0.1/v1")
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == []
