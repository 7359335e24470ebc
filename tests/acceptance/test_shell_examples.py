"""The shell examples of the documentation run, one page after another, on one embedded server without a key."""

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
    "docs/how-to/documents.md",
    "docs/how-to/finding-sessions.md",
    "docs/how-to/follow-up.md",
    "docs/how-to/reports.md",
    "docs/how-to/retention.md",
    "plugins/src/chargehand_plugins/manual/README.md",
)
_OTHERS: Final = {
    "test_doctor.py": ("docs/how-to/troubleshooting.md",),
    "test_project.py": ("docs/tutorial/first-project.md",),
    "test_shipped_crews.py": ("docs/crews.md",),
    "test_temporal_cli.py": ("docs/how-to/temporal-cli.md",),
    "test_typescript.py": ("docs/how-to/typescript.md",),
    "test_recipes.py": ("docs/how-to/slack-and-webhooks.md",),
    "what they show is the checkout itself: make": ("README.md", "CONTRIBUTING.md", "docs/how-to/evaluating.md"),
    "they need a container runtime, a cluster or Temporal Cloud": (
        "plugins/src/chargehand_plugins/bubblewrap/README.md",
        "deploy/README.md",
        "docs/how-to/kubernetes.md",
        "docs/how-to/temporal-cloud.md",
    ),
    "they need a package registry": (
        "docs/how-to/installing.md",
        "docs/how-to/a2a.md",
        "docs/how-to/mcp-server.md",
        "docs/how-to/skills.md",
        "docs/how-to/user-credentials.md",
    ),
    "they need a key, a model or a server of your own": (
        "docs/how-to/deciding-by-link.md",
        "docs/local-models.md",
        "docs/how-to/mcp.md",
        "plugins/src/chargehand_plugins/nexus/README.md",
        "docs/how-to/output-schema.md",
        "docs/how-to/own-crew.md",
        "docs/how-to/own-models.md",
        "docs/how-to/own-tools.md",
        "docs/how-to/changing-a-workflow.md",
        "plugins/src/chargehand_plugins/opentelemetry/README.md",
        "docs/how-to/starting-sessions-safely.md",
        "plugins/src/chargehand_plugins/tenants/README.md",
        "docs/how-to/watching-workers.md",
        "plugins/src/chargehand_plugins/pydantic_ai/README.md",
        "plugins/src/chargehand_plugins/webhooks/README.md",
    ),
    "they run until they are interrupted, or call one that does": ("docs/how-to/console.md", "docs/how-to/http-api.md"),
    "they need a session in a certain state; the tests of each feature make one": (
        "docs/limits.md",
        "docs/questions-and-review.md",
        "docs/how-to/approving-tool-calls.md",
        "docs/how-to/following-a-session.md",
        "docs/how-to/restoring.md",
        "plugins/src/chargehand_plugins/memory/README.md",
        "docs/how-to/steering.md",
        "docs/how-to/traces.md",
    ),
    "they are about a terminal, or a worker of their own: test_embedded_cli.py, test_chat.py, test_replays.py": (
        "docs/how-to/conversations.md",
        "docs/how-to/terminal.md",
        "plugins/src/chargehand_plugins/tape/README.md",
    ),
}
"""Why the examples of other pages do not run here, or the tests that run them."""
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
"""How commands begin that cannot run here, and why."""
_SHELL: Final = ("", "sh", "bash")
_CODES: Final = (0, 3)
"""Without a model the report is partial."""


def _commands(block: str) -> Iterator[str]:
    """Split a block into the calls of `chargehand` and what is between them."""
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
def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page in a folder of its own, in its order; `SESSION` is one that an earlier page began."""
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
            for block in (each for each in BLOCKS if each.page.startswith(f"{page}:") and each.language in _SHELL):
                for command in _commands(block.text):
                    monkeypatch.chdir(folder)
                    folder = _run(command, folder, environment)


def _run(command: str, folder: Path, environment: dict[str, str]) -> Path:
    """Run a command of ours in this process, and anything else in a shell; give the folder where that ends."""
    if command.startswith(tuple(_NOT_RUN)):
        return folder
    if command.startswith("chargehand "):
        done = run_command(shlex.split(command.replace("SESSION", "lease"), comments=True)[1:], environment)
        assert done.code in _CODES, f"{command}: {done.said}"
        return folder
    script = f"{command}\npwd"
    shell = subprocess.run(["sh", "-euc", script], text=True, capture_output=True, check=False, env=environment)
    assert shell.returncode == 0, f"{command}: {shell.stderr}"
    return Path(shell.stdout.splitlines()[-1])


def test_every_page_is_run_or_has_a_reason() -> None:
    """A new page with commands is either run here, or listed with the reason."""
    with_commands = {each.page.partition(":")[0] for each in BLOCKS if each.language in _SHELL}

    assert with_commands == {*_PAGES, *(page for pages in _OTHERS.values() for page in pages)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    ["docs/how-to/skills.md", "docs/how-to/output-schema.md", "plugins/src/chargehand_plugins/memory/README.md"],
)
def test_the_agents_that_a_page_shows_are_accepted(page: str, tmp_path: Path) -> None:
    """A crew of them is one with which a worker starts."""
    skill = tmp_path / "skills" / "tides" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(
        "---\nname: tides\ndescription: How tide tables are read.\n---\nRead the datum.\n", encoding="utf-8"
    )
    blocks = [each.text for each in BLOCKS if each.page.startswith(f"{page}:") and each.language == "toml"]
    crew = tmp_path / "shown.toml"
    head = 'name = "shown"\ndescription = "Answers questions."\nguidance = "Plan a subtask for each question."\n'
    crew.write_text("\n".join([head, *(each for each in blocks if "[[agents]]" in each)]), encoding="utf-8")

    done = run_command(["crew", "check", crew], command_environment(CHARGEHAND_CREWS=str(tmp_path)))

    assert done.code == 0, done.said
