"""The pages that document crew files."""

from pathlib import Path

import pytest

from activities.contracts.crew import Agent, Crew, RouteRule, Routing, SlowQueue
from activities.crews.files import load_crew
from chargehand.contracts import ToolRule

PAGE = Path(__file__).parents[3] / "docs/how-to/own-crew.md"


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
