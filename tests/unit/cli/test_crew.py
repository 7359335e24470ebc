"""The verb `crew new`, and the page that documents what it writes."""

import sys
from pathlib import Path

import pytest

from activities.contracts.crew import Agent, Crew, RouteRule, Routing, SlowQueue
from activities.contracts.tool import READS_DOCUMENTS
from activities.crews.checks import crew_warnings
from activities.crews.files import load_crew
from chargehand.contracts import ToolRule
from chargehand_cli.main import execute

PAGE = Path(__file__).parents[3] / "docs/how-to/own-crew.md"


def test_the_crew_to_start_from_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`crew new` writes a crew of that name that a worker accepts without a warning, and overwrites nothing."""
    assert execute(["crew", "new", "own", "--folder", str(tmp_path)]) == 0
    assert execute(["crew", "new", "own", "--folder", str(tmp_path)]) == 2
    assert execute(["crew", "new", "../own"]) == 2

    crew = load_crew(tmp_path / "own.toml", dict.fromkeys(("search_documents", "read_document"), READS_DOCUMENTS))
    assert crew.name == "own"
    assert crew_warnings(crew) == []
    assert "own.toml exists already" in capsys.readouterr().err


def test_a_check_may_be_longer_than_a_pipes_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker writes a crew with all of its prompts as one line."""
    (worker := tmp_path / "worker.py").write_text(
        """print('{"file": "own.toml", "problem": "", "warnings": [], "crew": {"prompt": "' + "x" * 2**20 + '"}}')"""
    )
    (crew := tmp_path / "own.toml").touch()
    monkeypatch.setenv("CHARGEHAND_WORKER", f"{sys.executable} {worker}")

    assert execute(["crew", "check", str(crew)]) == 0
    assert "✔ own.toml" in capsys.readouterr().out


def test_the_crew_of_the_page_about_approval_is_accepted(tmp_path: Path) -> None:
    """The page shows a whole crew file, with every field of a rule in it."""
    page = (PAGE.parent / "approving-tool-calls.md").read_text(encoding="utf-8")
    (tmp_path / "refunds.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])

    crew = load_crew(tmp_path / "refunds.toml", {"fraud_check": (), "refund": ()}, acting=("refund",))
    [agent] = crew.agents
    assert set(ToolRule.model_fields) == {name for rule in agent.policy for name in rule.model_fields_set}
    assert all(f"`{name}`" in page for name in ToolRule.model_fields)


@pytest.mark.parametrize("kind", [Crew, Agent, Routing, RouteRule, SlowQueue])
def test_every_field_is_documented(kind: type[Crew | Agent | Routing | RouteRule | SlowQueue]) -> None:
    """The page names each field that a crew file may have."""
    page = PAGE.read_text(encoding="utf-8")

    forms = ("`{}`", "{} = ", "[{}]", "[{}]]", ".{}]]")
    assert [name for name in kind.model_fields if not any(form.format(name) in page for form in forms)] == []
