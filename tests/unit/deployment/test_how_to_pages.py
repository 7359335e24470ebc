"""The code of how-to pages is run: each block that begins with a file's name is that file."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from chargehand import SessionRequest
from chargehand.errors import SessionFailed, UnusableSettings
from chargehand.tools import ToolAnswer
from chargehand_plugins.testing import Reply, Script, run_session
from tests.unit.deployment.test_documents import ROOT

_FILE = re.compile(r"^```\w+\n# (\S+\.\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def files_of(page: str) -> dict[str, str]:
    return dict(_FILE.findall((ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")))


def test_the_tests_shown_on_the_own_tools_page_pass(folder: Path) -> None:
    """They pass for a reader who copies the files, without a pytest plug-in."""
    files = files_of("own-tools")
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    modules = [import_module(name.removesuffix(".py")) for name in files if name.startswith("test_")]
    tests = [each for module in modules for name, each in vars(module).items() if name.startswith("test_")]

    assert [test() for test in tests] == [None, None]


async def test_run_session_reports_what_is_wrong(folder: Path) -> None:
    with pytest.raises(SessionFailed, match="crew: there is no crew 'shop'; there are"):
        await run_session(SessionRequest(goal="Refund order A-17.", crew="shop"), Script())
    with pytest.raises(UnusableSettings, match="there is no such folder"):
        await run_session(SessionRequest(goal="Refund order A-17."), Script(), crews=folder / "crews")
    with pytest.raises(ValueError, match="to a turn 'plan' of 'supervisor' has 'tasks', and its fields are"):
        await run_session(SessionRequest(goal="Refund order A-17."), Script().on("plan", Reply({"tasks": []})))
    with pytest.raises(ValueError, match=r"answers: there is no tool 'serch'; there are .*search"):
        await run_session(SessionRequest(goal="Refund order A-17."), Script(), answers={"serch": ToolAnswer()})
