"""One session as its steps see it: the request, what the world says about it, the purse, what has come out so far."""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from activities.contracts import InputOutcome, OpenSessionRequest, SessionFacts, Task, TurnResult
from activities.sessions import SessionActivities
from chargehand.contracts import Outcome, SessionRequest, SessionState, SpendLine
from chargehand.converter import invalid_input
from chargehand.wire import ErrorType
from workflows import options
from workflows.bounds import REPORT_OUTPUT_TOKENS, SYNTHESIS_INPUT_BYTES, least_workable, worst_case
from workflows.guard import fingerprint
from workflows.plan_check import SUPERVISOR
from workflows.progress import Progress
from workflows.purse import Amount, Purse, Reservation
from workflows.reporting import input_for
from workflows.spending import Spender, TurnLost
from workflows.view import details

_LONGEST_WRITING: Final = timedelta(seconds=60)
"""The most of a session's time that is kept for writing the report; a fifth of it if that is less."""

_Result = TypeVar("_Result")


@dataclass
class Session:
    """The state of a session. Its steps change it; nothing else does."""

    request: SessionRequest
    facts: SessionFacts
    progress: Progress
    purse: Purse
    spender: Spender
    started_at: datetime
    deadline_at: datetime
    clock: "asyncio.Task[None]"
    """Ends when it is time to write the report."""
    for_report: Reservation | None
    """What is set aside for the synthesis."""
    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    lost_spend: list[SpendLine] = field(default_factory=list[SpendLine])
    """What is charged for children that could not say what they spent."""
    most_at_once: int = 0
    deadline_passed: bool = False

    @property
    def root(self) -> str:
        """Id of the session at the root of the tree."""
        return self.request.delegation.session if self.request.delegation else workflow.info().workflow_id

    @property
    def depth(self) -> int:
        """Hops from the root."""
        return self.request.delegation.depth if self.request.delegation else 0

    @property
    def ancestors(self) -> tuple[str, ...]:
        """Fingerprints of the work that this session is, and is part of."""
        above = self.request.delegation.ancestors if self.request.delegation else ()
        return (*above, fingerprint(SUPERVISOR, self.request.goal))

    @property
    def may_nest(self) -> bool:
        """Whether a subtask may be a session of its own: it and its subtasks must fit below the depth limit."""
        return self.depth + 2 <= self.request.limits.max_depth

    def enter(self, state: SessionState) -> None:
        """Pass to another state."""
        self.progress.state = state
        self.show()

    def show(self) -> None:
        """Bring what the Web UI shows up to date."""
        workflow.set_current_details(details(self.progress.status()))

    def inputs(self, ids: Iterable[str]) -> tuple[InputOutcome, ...]:
        """Collect outcomes as those who depend on them are given them."""
        subtasks = {subtask.id: subtask for subtask in self.progress.plan.subtasks} if self.progress.plan else {}
        return tuple(input_for(subtasks[id_], self.outcomes[id_]) for id_ in ids if id_ in self.outcomes)

    def release_report_reserve(self) -> None:
        """Give back what is set aside for the synthesis, when it is due or will not be needed."""
        if self.for_report is not None:
            self.purse.settle(self.for_report, Amount())
            self.for_report = None

    async def turn(self, task: Task, output_tokens: int, patience: timedelta = options.TURN_PATIENCE) -> TurnResult:
        """Take one of the supervisor's own turns.

        Raises:
            CannotPay: the purse does not cover it.
            ApplicationError: the turn came to nothing for good.
        """
        crew = self.facts.crew
        try:
            return await self.spender.take(
                task,
                agent=SUPERVISOR,
                tier=crew.tier,
                model=self.facts.models[crew.tier],
                prompt_bytes=crew.prompt_bytes,
                output_tokens=output_tokens,
                patience=patience,
            )
        except TurnLost as error:
            raise ApplicationError(error.message, type=error.error_type, non_retryable=True) from error

    async def before_the_deadline(self, work: Coroutine[object, object, _Result]) -> _Result | None:
        """Wait for a step; None if it is time to write the report before it has ended."""
        task = asyncio.create_task(work)
        try:
            await workflow.wait([task, self.clock], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
        if task.done():
            return task.result()
        self.deadline_passed = True
        return None


async def open_session(request: SessionRequest, progress: Progress) -> Session:
    """Read what the world says about a request, and refuse what cannot work.

    Raises:
        ApplicationError: `InvalidInput` or `LimitTooSmall`.
    """
    lent = request.delegation
    if lent is not None and workflow.info().parent is None:
        raise invalid_input("SessionRequest", ["delegation: is set by a supervisor only; leave it out"])
    progress.goal = request.goal
    facts = await _read_facts(request)
    limits = request.limits
    purse = Purse(Amount(limits.max_turns, limits.budget_usd))
    now = workflow.now()
    deadline_at = min(now + limits.deadline, lent.deadline_at) if lent else now + limits.deadline
    progress.purse, progress.started_at, progress.deadline_at = purse, now, deadline_at
    time = max(deadline_at - now, timedelta(0))
    session = Session(
        request=request,
        facts=facts,
        progress=progress,
        purse=purse,
        spender=Spender(purse, session=workflow.info().workflow_id, crew=facts.crew.name, documents=request.documents),
        started_at=now,
        deadline_at=deadline_at,
        clock=asyncio.create_task(workflow.sleep(time - min(time / 5, _LONGEST_WRITING), summary="until the report")),
        for_report=_set_report_aside(purse, facts),
    )
    session.show()
    return session


def _set_report_aside(purse: Purse, facts: SessionFacts) -> Reservation:
    least = least_workable(facts)
    reservation = None
    if purse.granted.covers(least):
        model = facts.models[facts.crew.tier]
        worst = worst_case(model, facts.crew.prompt_bytes + SYNTHESIS_INPUT_BYTES, REPORT_OUTPUT_TOKENS)
        reservation = purse.reserve(worst)
    if reservation is None:
        raise ApplicationError(
            "The limits cannot pay for a plan, one turn of an agent and the report. The smallest that work here are "
            f"max_turns {least.turns} and budget_usd {least.usd:.2f}.",
            type=ErrorType.LIMIT_TOO_SMALL,
            non_retryable=True,
        )
    return reservation


async def _read_facts(request: SessionRequest) -> SessionFacts:
    try:
        # Not a local activity: next to a small workflow cache, the SDK can leave the first task of a workflow that
        # starts with one unanswered until the server gives it up after ten seconds.
        return await workflow.execute_activity_method(
            SessionActivities.open_session,
            OpenSessionRequest(session=workflow.info().workflow_id, request=request),
            activity_id="open",
            start_to_close_timeout=options.OPEN_SESSION_TIMEOUT,
            retry_policy=options.OPEN_SESSION_RETRIES,
            summary="look up crew, models and ceilings",
        )
    except ActivityError as error:
        if isinstance(error.cause, ApplicationError):
            raise error.cause from error
        raise
