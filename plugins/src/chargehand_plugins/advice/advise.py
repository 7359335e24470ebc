"""The verb `advise`: whether a session needed its crew, or a single agent would have sufficed."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import typer

from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.terminal import put, put_json
from chargehand_cli.verb import AsJson, SessionId, verb

if TYPE_CHECKING:
    from chargehand import Report

app = typer.Typer()

_WORK: Final = frozenset({"work", "compact", "tools", "lost"})
"""Spending purposes of agents' own work."""
_SIDE_BY_SIDE: Final = 1.2
"""Minimum speed-up of parallel work that justifies several agents."""
_NOTICEABLE: Final = 1.05
_FEW_TURNS: Final = 10
"""The default number of rounds of one agent."""
_INSTANT: Final = timedelta(microseconds=1)


@verb(app)
async def advise(connection: Connection, session: SessionId, *, as_json: AsJson = False) -> None:
    """Tell whether a single agent would suffice for requests like that of a finished session."""
    from chargehand_cli.session_files import open_report

    advice = advice_on(await open_report(connection, session))
    if as_json:
        put_json(json.dumps({"single_agent": advice.single_agent, "reasons": advice.reasons}, indent=1))
        return
    put("A single agent would do." if advice.single_agent else "It gains from its crew.")
    for reason in advice.reasons:
        put(f"- {one_safe_line(reason, 400)}")


@dataclass(frozen=True)
class Advice:
    single_agent: bool
    """Whether one agent would suffice for requests like this."""
    reasons: tuple[str, ...]


def advice_on(report: "Report") -> Advice:
    """Evaluate a session by its agents, its parallelism, and its coordination cost."""
    worked = [record for record in report.subtasks if record.attempts]
    agents = sorted({record.agent for record in worked})
    turns = sum(record.usage.turns for record in worked)
    own = sum(line.usage.turns for line in report.spend if line.purpose not in _WORK)
    cost = sum(line.usage.cost_usd for line in report.spend if line.purpose not in _WORK)
    all_spent = f"{report.usage.turns} turns and ${cost:.2f} of ${report.usage.cost_usd:.2f}"
    spent = f"Plan, report and decisions took {own} of {all_spent}."
    if len(worked) <= 1:
        return Advice(single_agent=True, reasons=("One agent did all of it.", spent))
    side_by_side = report.timing.subtasks_one_after_another / max(report.timing.critical_path, _INSTANT)
    parallel = (
        (f"Subtasks one after another would have taken {side_by_side:.1f} times as long.",)
        if report.timing.speed_up >= _NOTICEABLE
        else ()  # nothing ran in parallel
    )
    if len(agents) > 1:
        several = f"{len(agents)} agents worked on it: {', '.join(agents)}."
        return Advice(single_agent=False, reasons=(several, *parallel, spent))
    same = f"All {len(worked)} subtasks went to the same agent, {agents[0]}, and took {turns} turns."
    if side_by_side >= _SIDE_BY_SIDE or turns > _FEW_TURNS:
        return Advice(single_agent=False, reasons=(same, *parallel, spent))
    return Advice(single_agent=True, reasons=(same, *parallel, spent))
