"""The shell examples of the documentation run, one page after another, on one embedded server without a key."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.commands import command_environment, run_command
from tests.acceptance.test_embedded_cli import process, read_until
from tests.unit.deployment.test_code_blocks import BLOCKS

_PAGES: Final = (
    "docs/tutorial/first-answer.md",
    *("docs/how-to/documents.md", "docs/how-to/finding-sessions.md", "docs/how-to/follow-up.md"),
    *("docs/how-to/reports.md", "docs/how-to/retention.md"),
    "plugins/src/chargehand_plugins/manual/README.md",
)
_NOT_RUN: Final = {
    "python3 -m venv": "takes a minute",
    "pip install": "needs a registry",
    "export ANTHROPIC_API_KEY": "needs a key, as does the next one",
    'chargehand run --docs papers "Which': "is the same again with the key",
    "chargehand open": "opens a browser",
    "chargehand run --artifacts": "needs a bucket",
    "chargehand up": "runs until it is interrupted, as it does during this test",
    "chargehand report SESSION --to launch.pdf": "needs an extra",
    "chargehand report SESSION --format md --to -": "writes bytes, and tests in this process take text",
}
"""Beginnings of commands that cannot run here, and why."""
_SHELL: Final = ("", "sh", "bash")
_TIME: Final = re.compile(r"\d+\.\d s")
_CODES: Final = (0, 3)
"""Without a model the report is partial."""


def _commands(block: str) -> Iterator[str]:
    """Split a block into calls of `chargehand` and the text between them."""
    other: list[str] = []
    for line in block.splitlines():
        if line.startswith("chargehand "):
            yield "\n".join(other)
            yield line
            other = []
        elif not line.startswith(tuple(_NOT_RUN)):
            other.append(line)
    yield "\n".join(other)


@pytest.mark.nightly
def test_shell_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page runs in its own folder, in order, and its printed output matches."""
    environment = command_environment(CHARGEHAND_STATE_DIR=str(tmp_path / "state"))
    with process("up", "--state-dir", tmp_path / "state") as up:
        read_until(up, "Embedded Temporal server at")
        for number, page in enumerate(_PAGES):
            folder = tmp_path / str(number)
            (folder / "papers").mkdir(parents=True)
            for name in ("lease.md", "notes.md", "papers/lease.md"):
                (folder / name).write_text(
                    "# Lease\n\nNotice is three months. The rent is 900 euros.\n", encoding="utf-8"
                )
            printed: list[str] = []
            for block in (each for each in BLOCKS if each.page.startswith(f"{page}:")):
                if block.language == "text":
                    assert not set(_without_times(block.text)) - set(printed), f"{block.page}: {printed}"
                for command in _commands(block.text) if block.language in _SHELL else ():
                    monkeypatch.chdir(folder)
                    if command.startswith("chargehand "):
                        printed = _print(command, environment)
                    else:
                        folder = _run(command, environment)


def _without_times(text: str) -> list[str]:
    """Split an output into its lines, and replace the durations."""
    return [_TIME.sub("… s", line).replace("[  ", "[") for line in text.splitlines() if line]


def _print(command: str, environment: dict[str, str]) -> list[str]:
    """Run a command of ours in this process, and return the lines that it printed."""
    if command.startswith(tuple(_NOT_RUN)):
        return []
    done = run_command(shlex.split(command.replace("SESSION", "lease"), comments=True)[1:], environment)
    assert done.code in _CODES, f"{command}: {done.said}"
    return _without_times(done.said) + _without_times(done.out)


def _run(command: str, environment: dict[str, str]) -> Path:
    """Run any other commands in a shell, and return its last working directory."""
    script = f"{command}\npwd"
    shell = subprocess.run(["sh", "-euc", script], text=True, capture_output=True, check=False, env=environment)
    assert shell.returncode == 0, f"{command}: {shell.stderr}"
    return Path(shell.stdout.splitlines()[-1])


_WITH_AGENTS: Final = {
    "skills": "docs/how-to/skills.md",
    "schema": "docs/how-to/output-schema.md",
    "memory": "plugins/src/chargehand_plugins/memory/README.md",
}


@pytest.mark.slow
def test_agents_shown_in_the_documentation_are_valid(tmp_path: Path) -> None:
    """`crew show` accepts a crew made of each page's agents."""
    skill = tmp_path / "skills" / "tides" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(
        "---\nname: tides\ndescription: How tide tables are read.\n---\nRead the datum.\n", encoding="utf-8"
    )
    for name, page in _WITH_AGENTS.items():
        blocks = [each.text for each in BLOCKS if each.page.startswith(f"{page}:") and each.language == "toml"]
        head = f'name = "{name}"\ndescription = "Answers questions."\nguidance = "Plan a subtask for each question."\n'
        agents = [each for each in blocks if "[[agents]]" in each]
        assert agents
        (tmp_path / f"{name}.toml").write_text("\n".join([head, *agents]), encoding="utf-8")

    shown = run_command(["crew", "show"], command_environment(CHARGEHAND_CREWS=str(tmp_path)))

    assert (shown.code, "✘" in shown.said) == (0, False), shown.said
    assert {line.split()[0] for line in shown.out.splitlines()} >= _WITH_AGENTS.keys()
