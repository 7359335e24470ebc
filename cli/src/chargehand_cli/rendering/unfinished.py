"""The page of a session without a report: one that runs, waits, failed or was cancelled."""

from typing import Final

from markupsafe import Markup

from chargehand import Status, Trace
from chargehand.state_words import NO_REPORT, state_words
from chargehand_cli.rendering.figures import cost, moment
from chargehand_cli.rendering.page import Facts, page, plan_parts, render
from chargehand_cli.rendering.svg import timeline

_ENDED: Final = ("finished", "failed", "cancelled")


def unfinished_page(status: Status, trace: Trace | None = None, *, problem: str = "", action: str = "") -> str:
    """Render how far a session has come, why it has no report, and what to do.

    `problem` says how it failed, `action` what it waits for its user to do.
    """
    colour = "failure" if status.state in ("failed", "cancelled") else "running"
    body = render(
        "unfinished.html",
        status=status,
        words=state_words(status.state),
        ended=status.state in _ENDED,
        state_class=f"state-{colour}",
        facts=_facts(status),
        problem=problem or NO_REPORT[status.state],
        remedy=action or _remedy(status),
        timeline=Markup(timeline(trace)) if trace else "",  # noqa: S704  # it escapes what it draws
        **plan_parts(status.subtasks),
        routes=status.routes,
    )
    return page(status.goal, body, session=status.session)


def _remedy(status: Status) -> str:
    if status.state in _ENDED:
        return f"To see every step that it took: `chargehand trace {status.session}`"
    return f"To wait for the report: `chargehand watch {status.session}`"


def _facts(status: Status) -> Facts:
    facts = [("Session", status.session)]
    if status.started_at:
        facts.append(("Started", moment(status.started_at)))
    if status.deadline_at and status.state not in _ENDED:
        facts.append(("Deadline", moment(status.deadline_at)))
    if status.max_turns:
        facts.append(("Turns", f"{status.turns:,} of {status.max_turns:,}"))
        facts.append(("Cost", f"{cost(status.spent_usd)} of {cost(status.budget_usd)}"))
    elif status.turns:  # read without a worker, which knows the limits
        facts += [("Turns", f"{status.turns:,}"), ("Cost", cost(status.spent_usd))]
    return facts
