"""What people see of a session while it runs: its memo, for followers, and its search attributes, for lists."""

from collections.abc import Mapping
from typing import Any, Final

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from chargehand.contracts import Report, Route, SessionState
from chargehand.listing import WAITING_STATES
from chargehand.search_attributes import CREW, DOLLARS, STATE, STOP_REASON, TENANT, THREAD, TURNS, change_of
from workflows.state.session import Session

_IN_THE_MEMO: Final[frozenset[SessionState]] = frozenset(
    {*WAITING_STATES, "awaiting_message", "executing", "finished", "failed", "cancelled"}
)
"""States that are written into the memo; the others can be told from what the session does."""


def enter(session: Session, state: SessionState, report: Report | None = None) -> None:
    """Change to another state, and show it; of one that ends with a report also how, in words."""
    session.progress.enter(state)
    # A task without commands could be merged with the update waited for.
    publish(session, always=state in WAITING_STATES, report=report)
    if state in WAITING_STATES:
        list_state(session)


def resume(session: Session) -> None:
    """Leave a state in which the session waits for a person, unless another question is open."""
    enter(session, session.progress.state_after_waiting)


def publish(session: Session, *, always: bool = False, report: Report | None = None) -> None:
    """Write what has changed of the session's state into the memo, from which `Session.follow()` reads it."""
    progress = session.progress
    if progress.state not in _IN_THE_MEMO:
        return
    changed = session.memo.changes(progress)
    if always:
        changed["state"] = progress.state
    if report is not None:
        changed |= {"ending": report.ending.words, "verification": report.verification or ""}
    if changed:
        workflow.upsert_memo(changed)


def add_route(session: Session, route: Route) -> None:
    """Record how an agent got its work, and show it in the memo to readers of the history."""
    session.progress.add_route(route)
    workflow.upsert_memo({"routes": [each.model_dump() for each in session.progress.routes]})


def list_state(session: Session, report: Report | None = None) -> None:
    """Have the server list the session's state and cost, if the state has changed since.

    Called with the commands that follow a change, so that it takes no workflow task of its own, and a state that
    leads to no command is not listed at all.
    """
    if not session.facts.is_listed:
        return
    state = session.progress.state
    if workflow.info().typed_search_attributes.get(STATE) == state:
        return
    usd, turns = session.budget.ledger.spent.usd, session.budget.ledger.spent.turns
    if report is not None:
        usd, turns = report.usage.cost_usd, report.usage.turns
    list_attributes(
        {
            STATE: state,
            CREW: session.facts.crew.name,
            TENANT: session.request.tenant,
            THREAD: session.thread,
            DOLLARS: float(usd),
            TURNS: turns,
            # The server starts the next run of a cron with the attributes of the last one.
            STOP_REASON: report.stop_reason if report else None,
        }
    )


def list_attributes(attributes: Mapping[SearchAttributeKey[Any], Any]) -> None:
    """Have the server list the session by those of its attributes that have changed; None removes one."""
    listed = workflow.info().typed_search_attributes
    changes = [
        change for key, value in attributes.items() if value is not None for change in change_of(listed, key, value)
    ]
    removed = [key.value_unset() for key, value in attributes.items() if value is None and key in listed]
    workflow.upsert_search_attributes([*changes, *removed])  # pyright: ignore[reportUnknownMemberType]  # SDK generics
