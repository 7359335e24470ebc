"""Effects that all steps use: show the state, take the supervisor's turns, wait for time, budget or people.

Each wait for a person is announced to plug-ins when it begins and when it is decided.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from activities.turn.contracts import TurnRequest, TurnResult
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.registry import Task
from chargehand.contracts import DecisionRecord, Report, Route, SessionState, StopReason, Tier, Wait, WaitKind
from chargehand.contracts.request import StartRequest
from chargehand.listing import WAITING_STATES
from chargehand.plugins import Hook
from chargehand.search_attributes import CREW, DOLLARS, STATE, STOP_REASON, TENANT, THREAD, TURNS, change_of
from chargehand.state_words import EndReason
from workflows import options
from workflows.budget.estimates import fixed_bytes, input_bound, purpose_of
from workflows.budget.ledger import Amount
from workflows.budget.model_calls import ModelCalls, TurnLost, request_grant, was_reset
from workflows.options import execution_timeout
from workflows.rules.plan_validation import SUPERVISOR
from workflows.rules.plugin_results import hook_functions
from workflows.run_end import on_exit, raise_if_cancelled
from workflows.state.clock import Clock
from workflows.state.session import Session

_Result = TypeVar("_Result")
_ASKS_CHARACTERS = 500
_IN_THE_MEMO: Final[frozenset[SessionState]] = frozenset(
    {*WAITING_STATES, "awaiting_message", "executing", "finished", "failed", "cancelled"}
)
"""States that are written into the memo; followers derive the others from the history."""
_Answer = TypeVar("_Answer", bound=TurnAnswer)


def start_alarm(clock: Clock) -> None:
    asyncio.create_task(_ring_when_report_is_due(clock))  # noqa: RUF006  # the SDK keeps the tasks of a workflow


async def within_time(clock: Clock, step: Coroutine[object, object, _Result]) -> _Result | None:
    """Run a step; if the report is due first, cancel the step and return None."""
    task = asyncio.create_task(step)
    try:
        await workflow.wait_condition(lambda: task.done() or clock.is_report_due)
    except asyncio.CancelledError:
        await _cancel(task)
        raise
    if task.done():
        return task.result()
    clock.interrupt()
    await _cancel(task)
    return None


async def ask_parent(session: Session, needed: Amount) -> None:
    """Ask the parent session for the missing part of an amount; it may refuse. The root has no parent."""
    if session.request.delegation is not None:
        await request_grant(session.mailbox, session.budget.ledger, needed, lambda: session.clock.work_is_over)


async def wait_for_returns(session: Session, needed: Amount, is_hopeless: Callable[[], bool]) -> None:
    """Wait until an amount is unspent, waiting has become hopeless, or the report is due."""
    await workflow.wait_condition(
        lambda: session.budget.unspent.covers(needed) or session.clock.work_is_over or is_hopeless()
    )


async def wait_for_budget(
    session: Session, needed: Amount, is_hopeless: Callable[[], bool], is_moot: Callable[[], bool] = lambda: False
) -> None:
    """Wait until an amount is unspent, waiting has become hopeless or unnecessary, or the report is due.

    The report is also due after an unanswered wait for a person.
    """

    def is_there() -> bool:
        return session.budget.unspent.covers(needed)

    await ask_parent(session, needed)
    await wait_for_returns(session, needed, is_hopeless)
    if session.request.limits.on_limit == "pause" and not is_there() and not session.clock.work_is_over:
        enter(session, "paused")
        spent, granted = session.budget.ledger.spent, session.budget.ledger.granted
        asks = f"{spent.turns} of {granted.turns} turns and ${spent.usd:.2f} of ${granted.usd:.2f} are spent"
        wait = new_wait(session, "limits", session.progress.waits.limits_id, asks)
        if not await wait_for_person(session, wait, lambda: is_there() or session.clock.work_is_over or is_moot()):
            session.clock.ring()
        resume(session)


async def _ring_when_report_is_due(clock: Clock) -> None:
    while not clock.is_finish_requested and (left := clock.report_starts_at - workflow.now()) > timedelta(0):
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: clock.is_finish_requested or clock.is_paused, timeout=left, timeout_summary="until the report"
            )
        await workflow.wait_condition(lambda: clock.is_finish_requested or not clock.is_paused)
    clock.ring()


async def _cancel(task: "asyncio.Task[_Result]") -> None:
    task.cancel()
    await workflow.wait([task])
    if not task.cancelled():
        task.exception()


def new_wait(session: Session, kind: WaitKind, id_: str, asks: str) -> Wait:
    """Describe a wait that begins now; it ends early enough for the rest of the work before the execution timeout."""
    now, info, clock = workflow.now(), workflow.info(), session.clock
    left = session.request.answer_within or options.decision_time(kind, now)
    timeout = execution_timeout()
    if timeout is not None:
        ends_at = min(info.workflow_start_time, clock.started_at) + timeout
        left = max(min(left, ends_at - max(clock.deadline_at, now)), timedelta(0))
    return Wait(id=id_, kind=kind, asks=_line(asks), since=now, until=now + left)


async def announce_reply(session: Session, number: int, text: str) -> None:
    """Announce that a conversation waits for its user, with the latest reply; the next message ends the wait."""
    clock = session.clock
    wait = Wait(id=f"message-{number}", kind="message", asks=_line(text), since=workflow.now(), until=clock.deadline_at)
    for announce in hook_functions(Hook.WAIT):
        await announce(session, wait, None)


async def wait_for_person(session: Session, wait: Wait, is_over: Callable[[], bool]) -> bool:
    """Announce a wait for a person, wait until it is over, and announce how it ended.

    Meanwhile, the session's clock stops. A wait with the same id is announced once. Return whether it is over.
    """
    if is_over() or wait.until <= workflow.now():
        return is_over()
    waits, clock, is_new = session.progress.waits, session.clock, wait.id not in session.progress.waits.open

    def end() -> None:
        clock.resume()
        if is_new:
            _announce(session, wait, waits.end(wait, workflow.now()))

    clock.pause()
    if is_new:
        waits.begin(wait)
        _announce(session, wait, None)
    with on_exit(end), suppress(TimeoutError):
        await workflow.wait_condition(
            is_over, timeout=wait.until - workflow.now(), timeout_summary=f"until {wait.id} ends without a decision"
        )
    return is_over()


def _line(text: str) -> str:
    return " ".join(text.split())[:_ASKS_CHARACTERS]


def _announce(session: Session, wait: Wait, decision: DecisionRecord | None) -> None:
    waits = session.progress.waits
    for announce in hook_functions(Hook.WAIT):
        waits.begin_announcement()
        asyncio.create_task(announce(session, wait, decision)).add_done_callback(waits.end_announcement)


def is_settled(session: Session) -> bool:
    """Return whether all messages are answered and all waits and decisions announced, so the run can end."""
    return workflow.all_handlers_finished() and session.progress.waits.unannounced == 0


async def continue_as_new(session: Session, is_over: Callable[[], bool], request: Callable[[], StartRequest]) -> None:
    """Continue as new once the session is settled; return only if `is_over` becomes true first."""
    await workflow.wait_condition(lambda: is_settled(session) or is_over())
    raise_if_cancelled()
    if not is_over():
        workflow.continue_as_new(request())


def enter(session: Session, state: SessionState) -> None:
    """Change the session's state and show it."""
    session.progress.enter(state)
    # A workflow task without commands could be merged with the awaited update.
    publish(session, always=state in WAITING_STATES)
    if state in WAITING_STATES:
        list_state(session)


def resume(session: Session) -> None:
    """Leave a state of waiting for a person, unless another question is open."""
    enter(session, session.progress.state_after_waiting)


def finish(session: Session, stop_reason: StopReason | EndReason, report: Report | None = None) -> None:
    """Finish with a report or as a conversation, and show it."""
    session.progress.finish(stop_reason, report)
    publish(session)
    list_state(session, report)


def publish(session: Session, *, always: bool = False) -> None:
    """Write the changes of the session's state into the memo, where `Session.follow()` reads them."""
    progress = session.progress
    if progress.state not in _IN_THE_MEMO:
        return
    changed = session.memo.changes(progress)
    if always:
        changed["state"] = progress.state
    if changed.get("state") == "finished":
        snapshot = progress.status()
        changed |= {"ending": snapshot.standing.words, "verification": snapshot.verification or ""}
    if changed:
        write_memo(changed)


def write_memo(fields: Mapping[str, Any]) -> None:
    """Update the memo with the time of writing, since the server can end the session without a last update."""
    workflow.upsert_memo({**fields, "last_written": f"{workflow.now():%Y-%m-%d %H:%M:%S} UTC"})


def add_route(session: Session, route: Route) -> None:
    """Record how work was routed to an agent, and show it in the memo."""
    session.progress.add_route(route)
    write_memo({"routes": [each.model_dump() for each in session.progress.routes]})


def list_state(session: Session, report: Report | None = None) -> None:
    """Update the search attributes for the session's state and cost, if the state has changed.

    Called with the commands that follow a change, so that it does not need a separate workflow task; a state without
    commands is not listed.
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
            # The next run of a cron starts with the search attributes of the last one.
            STOP_REASON: session.progress.status().stop_reason,
        }
    )


def list_attributes(attributes: Mapping[SearchAttributeKey[Any], Any]) -> None:
    """Update the session's changed search attributes; None removes one."""
    listed = workflow.info().typed_search_attributes
    changes = [
        change for key, value in attributes.items() if value is not None for change in change_of(listed, key, value)
    ]
    removed = [key.value_unset() for key, value in attributes.items() if value is None and key in listed]
    workflow.upsert_search_attributes([*changes, *removed])  # pyright: ignore[reportUnknownMemberType]  # SDK generics


async def take_turn(
    session: Session, task: Task, *, tier: Tier | None = None, until: datetime | None = None
) -> TurnResult:
    """Take one of the supervisor's turns; `tier` replaces the crew's.

    Raises:
        CannotPay: the ledger does not cover it.
        TurnLost: it failed for good.
    """
    facts, documents = session.facts, session.request.documents
    crew, tier = facts.crew, tier or facts.crew.tier
    list_state(session)
    request = TurnRequest(
        session=session.root,
        step="",
        crew=crew.reference,
        agent=SUPERVISOR,
        tier=tier,
        documents=documents,
        hides_documents=session.hides_documents(task),
        task=task,
        profile=facts.terms.profile,
        today=session.clock.started_at.date(),
        max_input_tokens=input_bound(task, fixed_bytes(crew, documents)),
        max_output_tokens=0,
        effort=purpose_of(task).effort_in(crew.effort),
        urgency=session.request.urgency,
        live_text=session.request.live_text,
        after_reset=was_reset(),
    )
    calls = ModelCalls(
        spending=session.budget.spending,
        output_caps=facts.output_caps,
        queue=facts.turns_queue,
        priority=options.priority_of(session.request, facts.weight),
    )
    # The clock's alarm fires first.
    result = await calls.take(
        request, session.budget.model(tier), lambda: until or session.clock.report_starts_at + options.LEAST_REPORT_TIME
    )
    session.stop_if_overcharged()
    return result


async def try_turn(
    session: Session, task: Task, answer: type[_Answer], *, tier: Tier | None = None, until: datetime | None = None
) -> _Answer | None:
    """Take an optional turn; None if it cannot be paid, fails, or returns no answer of the expected type."""
    try:
        result = await take_turn(session, task, tier=tier, until=until)
    except TurnLost:
        return None
    return result.answer_as(answer)
