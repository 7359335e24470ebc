"""When `advise` says that a single agent would do."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from chargehand import Report, SpendLine, SubtaskRecord, Timing, Usage
from chargehand_plugins.advice.advise import advice_on
from tests.unit.cli.reports import report

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def session(*agents: str, side_by_side: float = 1, turns: int = 2) -> Report:
    """Build the report of a session whose subtasks each took a minute."""
    records = tuple(
        SubtaskRecord(id=f"T{number}", agent=agent, instruction="Do it.", attempts=1, usage=Usage(turns=turns))
        for number, agent in enumerate(agents)
    )
    minutes = timedelta(minutes=len(agents))
    planned = Usage(turns=3, cost_usd=Decimal("0.5"))
    times: dict[str, Any] = {
        "wall": minutes,
        "subtasks_one_after_another": minutes,
        "critical_path": minutes / side_by_side,
    }
    return report(
        usage=Usage(turns=3 + turns * len(agents), cost_usd=Decimal(1)),
        spend=(SpendLine(agent="supervisor", model="m", purpose="plan", usage=planned),),
        timing=Timing(started_at=NOW, ended_at=NOW, speed_up=1, **times),
        subtasks=records,
    )


def test_one_agent_is_advised_when_several_bring_no_benefit() -> None:
    """Several agents need different tools, parallel work, or more work than one can handle."""
    cases = [
        (session("reader"), True),
        (session("reader", "reader"), True),
        (session("reader", "reader", side_by_side=2), False),
        (session("reader", "reader", turns=6), False),
        (session("reader", "analyst"), False),
    ]
    for case, single_agent in cases:
        advice = advice_on(case)
        assert advice.single_agent is single_agent
        assert advice.reasons[-1].startswith("Plan, report and decisions took 3 of ")
