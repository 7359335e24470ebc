"""What people see of a session while it runs: its memo, for followers, and its search attributes, for lists."""

from typing import Any, Final

from temporalio import workflow
from temporalio.common import SearchAttributeUpdate, TypedSearchAttributes

from chargehand.contracts import Report, Route, SessionState
from chargehand.listing import WAITING_STATES
from chargehand.search_attributes import CREW, DOLLARS, STATE, STOP_REASON, TENANT, THREAD, TURNS, change_of
from workflows.state.session import Session

_IN_THE_MEMO: Final[frozenset[SessionState]] = frozenset({*WAITING_STATES, "executing"})
"""States that are written into the memo; the others can be told from what the session does."""


def enter(session: Session, state: SessionState) -> None:
    """Change to another state, and show it."""
    session.progress.enter(state)
    # A task without commands could be merged with the update waited for.
    publish(session, always=state in WAITING_STATES)
    if state in WAITING_STATES:
        list_state(session)


def resume(session: Session) -> None:
    """Leave a state in which the session waits for a person, unless another question is open."""
    enter(session, session.progress.state_after_waiting)


def publish(session: Session, *, always: bool = False) -> None:
    """Write what has changed of the session's state into the memo, from which `Session.follow()` reads it."""
    progress = session.progress
    if progress.state not in _IN_THE_MEMO:
        return
    changed = session.memo.changes(progress)
    if always:
        changed["state"] = progress.state
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
    listed, state = workflow.info().typed_search_attributes, session.progress.state
    if listed.get(STATE) == state:
        return
    usd, turns = session.ledger.spent.usd, session.ledger.spent.turns
    if report is not None:
        usd, turns = report.usage.cost_usd, report.usage.turns
    workflow.upsert_search_attributes(  # pyright: ignore[reportUnknownMemberType]  # SDK generics
        [
            *change_of(listed, STATE, state),
            *change_of(listed, CREW, session.facts.crew.name),
            *change_of(listed, TENANT, session.request.tenant),
            *change_of(listed, THREAD, session.thread),
            *change_of(listed, DOLLARS, float(usd)),
            *change_of(listed, TURNS, turns),
            *(change_of(listed, STOP_REASON, report.stop_reason) if report else _without_stop_reason(listed)),
        ]
    )


def _without_stop_reason(listed: TypedSearchAttributes) -> list[SearchAttributeUpdate[Any]]:
    """Remove what the last run of a cron came to, with whose attributes the server starts the next one."""
    return [STOP_REASON.value_unset()] if STOP_REASON in listed else []
