"""The Python examples of the documentation do what they say, on a real server with a scripted model."""

import ast
import asyncio
import inspect
import re
from pathlib import Path

import pytest
from temporalio.client import Client

from tests.environment import open_environment
from tests.scripted_model import subtask
from tests.workflows.test_main_path import well_behaved

_ROOT = Path(__file__).resolve().parents[2]
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
