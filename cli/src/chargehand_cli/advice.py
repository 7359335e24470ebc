"""Whether a session needed its crew, or a single agent would have done. Pure."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from chargehand import Report

_WORK: Final = frozenset({"work", "compact", "tools", "lost"})
"""Purposes of what agents themselves spend."""
_SIDE_BY_SIDE: Final = 1.2
"""Work that is so many times faster side by side than one after another gains from several agents."""
_NOTICEABLE: Final = 1.05
_FEW_TURNS: Final = 10
"""As many rounds as one agent has by default."""


_INSTANT: Final = timedelta(microseconds=1)


@dataclass(frozen=True)
class Advice:
    """What a session shows about its crew."""

    single_agent: bool
    """Whether one agent would do for requests like this."""
    reasons: tuple[str, ...]


def advice_on(report: Report) -> Advice:
    """Judge a session by who worked, what ran side by side, and what coordination cost."""
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
        else ()  # nothing ran side by side
    )
    if len(agents) > 1:
        several = f"{len(agents)} agents worked on it: {', '.join(agents)}."
        return Advice(single_agent=False, reasons=(several, *parallel, spent))
    same = f"All {len(worked)} subtasks went to the same agent, {agents[0]}, and took {turns} turns."
    if side_by_side >= _SIDE_BY_SIDE or turns > _FEW_TURNS:
        return Advice(single_agent=False, reasons=(same, *parallel, spent))
    return Advice(single_agent=True, reasons=(same, *parallel, spent))
