"""The Python examples of the documentation do what they say, on a real server with a scripted model."""

import ast
import asyncio
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent

import pytest
from temporalio.client import Client

from tests.environment import open_environment
from tests.scripted_model import subtask
from tests.workflows.test_main_path import well_behaved

_ROOT = Path(__file__).resolve().parents[2]
_CONTINUED = {
    "docs/how-to/follow-up.md": "from chargehand import Chargehand, Limits\nchargehand = await Chargehand.connect()",
    "docs/how-to/own-models.md": "",
    "docs/how-to/own-tools.md": """
        from typing import Annotated
        import shop_tools
        from chargehand import ConversationRequest
        from chargehand.tools import Depends, ToolContext, tool
        from chargehand_plugins.testing import Script, answer, run_conversation, use
        class Bank:
            def status(self, key: str) -> str: return key
        def open_bank() -> Bank: return Bank()
        @tool(capabilities=["reads_private"], acts=True)
        def transfer(): ...
    """,
    "docs/how-to/starting-sessions-safely.md": """
        from types import SimpleNamespace
        from chargehand import Chargehand, SessionRequest
        chargehand, goal, claim = await Chargehand.connect(), "", SimpleNamespace(id=1)
    """,
    "docs/how-to/user-credentials.md": """
        from chargehand.tools import ToolContext, tool
        user_token = ""
        class Crm:
            def __init__(self, token: str) -> None: ...
            async def tickets(self) -> list[str]: return []
    """,
    "docs/tutorial/first-project.md": """
        import asyncio
        from chargehand.tools import tool
        from chargehand_plugins.testing import run_tool
    """,
}
"""What pages have from their text or an earlier page."""
_MODULES = {
    "house_gateway.py": """
        from typing import Any
        class GatewayBusy(Exception): ...
        class Gateway:
            async def chat(self, **call: Any) -> dict[str, Any]: return call
            async def close(self) -> None: ...
    """,
    "my_crew_tools.py": """
        from typing import Literal
        from chargehand.tools import tool
        @tool(capabilities=["reads_private"])
        def delivery_days(item: str, country: Literal["DE", "FR"]) -> int: return len(item + country)
    """,
}
_UNUSED = ("Variable", "Import", "Function", "Class", "Expression", "Coroutine")
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["docs/how-to/python-client.md"])
async def test_python_examples_on_each_page_run(
    page: str, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of a page run in order, as in a notebook: a later block may use names from an earlier one."""
    address = client.service_client.config.target_host
    (tmp_path / "lease.md").write_text("Notice is three months.", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    monkeypatch.setenv("CHARGEHAND_ARTIFACTS", str(tmp_path / "environment" / "artifacts"))
    blocks = _BLOCK.findall((_ROOT / page).read_text(encoding="utf-8").replace("localhost:7233", address))
    async with open_environment(client, tmp_path / "environment", well_behaved(subtask("T1"))) as opened:
        monkeypatch.setenv("CHARGEHAND_TASK_QUEUE", opened.chargehand.task_queue)
        await asyncio.to_thread(asyncio.run, _run(blocks))  # examples without await must not block the worker

    assert blocks


async def _run(blocks: list[str]) -> None:
    names: dict[str, object] = {}
    for block in blocks:
        result: object = eval(compile(block, "example", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.isawaitable(result):
            await result


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_python_examples_have_no_type_errors(tmp_path: Path) -> None:
    """Pyright in strict mode accepts every Python block of the documentation, except for names that it does not use."""
    modules = {name: dedent(text) for name, text in _MODULES.items()}
    tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=_ROOT, capture_output=True, text=True, check=True)
    for number, page in enumerate(tracked.stdout.split()):
        for block in _BLOCK.findall((_ROOT / page).read_text(encoding="utf-8")):
            named = re.match(r"# (\w+\.py)\n", block)
            name = named[1] if named else f"page_{number}.py"
            before = modules.get(name) or dedent(_CONTINUED.get(page, ""))
            modules[name] = block if named else f"{before}\n{block}"
    for name, text in modules.items():
        wrapped = (
            f"async def main() -> None:\n{indent(text, '    ')}"
            if re.search(r"^(?! ).*await |^async (?:for|with)", text, re.M)
            else text
        )
        (tmp_path / name).write_text(wrapped, encoding="utf-8")
    unused = {f"reportUnused{each}": False for each in _UNUSED}
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "reportMissingTypeStubs": False, **unused}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))

    checked = subprocess.run(
        [
            Path(sys.executable).with_name("basedpyright"),
            "--project",
            tmp_path,
            "--pythonpath",
            sys.executable,
            "--level",
            "error",
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert len(modules) > 20
    assert checked.returncode == 0, checked.stdout
