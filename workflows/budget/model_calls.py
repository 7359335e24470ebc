"""Metered model calls: every turn is reserved in the ledger before it is called, and settled afterwards."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final, Literal

from temporalio import workflow
from temporalio.common import Priority
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from activities.contracts.model import ModelCard, OutputCaps
from activities.turn.activity import TurnActivities
from activities.turn.contracts import Counted, TurnRequest, TurnResult
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import SynthesisTask
from chargehand.contracts import Effort, FailureReason, SpendLine, Tier, Usage
from chargehand.wire import ErrorType
from workflows import options
from workflows.budget.estimates import (
    OUTPUT_SHARE,
    OutputRange,
    double_range,
    doubtful_cost,
    likely_input,
    lower,
    output_range,
    purpose_of,
    worst_case,
)
from workflows.budget.grant_request import request_grant
from workflows.budget.ledger import Amount, Ledger, Reservation
from workflows.budget.spending import Spending
from workflows.mailbox.mailbox import Mailbox
from workflows.mailbox.signals import raise_if_cancelled
from workflows.metrics import count_spend
from workflows.on_exit import on_exit

_REASONS: Final[dict[str, FailureReason]] = {
    ErrorType.PROVIDER_UNAVAILABLE: "provider_unavailable",
    ErrorType.RATE_LIMITED: "provider_unavailable",
    ErrorType.PROVIDER_REFUSED: "provider_refused",
}


def was_reset() -> bool:
    """Whether this run continues from the middle of another one, after an operator's `workflow reset`."""
    info = workflow.info()
    return info.run_id != info.original_execution_run_id


class CannotPay(Exception):  # noqa: N818  # it is raised as a statement of fact
    """The ledger does not cover the worst case of the next turn."""

    def __init__(self, reason: FailureReason) -> None:
        super().__init__(reason)
        self.reason: FailureReason = reason


class TurnLost(Exception):  # noqa: N818  # as above
    """A turn failed for good."""

    def __init__(self, reason: FailureReason, message: str, error_type: str) -> None:
        super().__init__(message)
        self.reason: FailureReason = reason
        self.message = message
        self.error_type = error_type


@dataclass(frozen=True, kw_only=True)
class NewTurn:
    """A turn that is to be taken."""

    task: Task
    agent: str
    """Whose prompt and tools are used."""
    tier: Tier
    model: ModelCard
    """The model of the tier, and its prices."""
    input_tokens: int
    """The most that the prompt may have."""
    model_name: str = ""
    """Of an agent whose model is not its tier's."""
    sent: Task | None = None
    """What is sent instead of the task, if a worker keeps the rest."""
    counted: Counted | None = None
    """What of the prompt the provider has counted before."""
    at_once: tuple[str, ...] = ()
    """Tools that may be used before the turn ends."""


@dataclass(frozen=True, kw_only=True)
class ModelCalls:
    """The model calls of one workflow, paid from its ledger."""

    spending: Spending
    session: str
    """Id of the workflow that `crew` and `documents` were opened for."""
    crew: str
    documents: tuple[str, ...]
    """What the agents may read."""
    output_caps: OutputCaps
    effort: Effort | None = None
    """How hard the crew or the agent thinks; None for what is usual."""
    today: date
    """What the model is told that it is."""
    mailbox: Mailbox | None = None
    """By which a parent is asked for a larger grant when the ledger runs short."""
    urgency: Literal["now", "batch"] = "now"
    """Whether the provider may answer within hours."""
    queue: str | None = None
    """Task queue of the turns, if it is not the workflow's own."""
    priority: Priority = Priority.default
    """Priority of the turns; workers learn the tenant from it."""

    @property
    def ledger(self) -> Ledger:
        """Of the workflow."""
        return self.spending.ledger

    async def can_pay(self, amount: Amount) -> bool:
        """Whether the ledger covers an amount, after asking the parent for what is missing, and waiting for it."""
        if self.mailbox is not None:
            await request_grant(self.mailbox, self.ledger, amount)
        return self.ledger.unspent.covers(amount)

    async def take(self, new: NewTurn, until: Callable[[], datetime | None]) -> TurnResult:
        """Take one turn. A reply that is cut off is asked for once more, at twice the cap and with less effort.

        How much the model may write depends on what the ledger holds: a turn reserves up to half of it for that.

        Args:
            new: the turn.
            until: returns when its time is up with all its attempts.

        Raises:
            CannotPay: the ledger does not cover it; nothing was called.
            TurnLost: it was called and failed.
        """
        purpose = purpose_of(new.task)
        outputs = output_range(purpose, self.output_caps, new.model)
        request = TurnRequest(
            session=self.session,
            step="",
            crew=self.crew,
            agent=new.agent,
            tier=new.tier,
            model_name=new.model_name,
            documents=self.documents,
            task=new.sent or new.task,
            today=self.today,
            max_input_tokens=new.input_tokens,
            counted=new.counted,
            at_once=new.at_once,
            max_output_tokens=outputs.least,
            effort=purpose.effort_in(self.effort),
            urgency=self.urgency,
            after_reset=was_reset(),
        )
        turn = _Turn(request, self.spending.with_overcharge(new.model), new.task, outputs)
        result = await self._take(turn, until)
        if result.stop != "truncated" or not turn.prepare_repetition():
            return result
        try:
            return await self._take(turn, until)
        except CannotPay:
            return result

    async def _take(self, turn: "_Turn", until: Callable[[], datetime | None]) -> TurnResult:
        turn.change(step=f"turn-{self.spending.begin_turn()}")
        # What a repeated call has not settled was never answered: nothing better than its worst case is known.
        with on_exit(lambda: self._settle_doubts(turn, Decimal(0), Decimal(0))):
            return await self._call_until_answered(turn, until)

    async def _call_until_answered(self, turn: "_Turn", until: Callable[[], datetime | None]) -> TurnResult:
        for repetition in range(options.MAX_LOST_WORKERS):
            raise_if_cancelled()
            reservation = await self._reserve(turn)
            try:
                result = await self._call(turn.request, repetition, until())
            except asyncio.CancelledError:
                # Cancelled in the same workflow task in which its result came: the result cannot be read any more.
                turn.doubt(reservation)
                raise
            except ActivityError as error:
                await self._after_error(error, reservation, turn)
                continue
            self._book(reservation, turn, result)
            return result
        raise TurnLost(
            "provider_unavailable",
            f"The worker was lost {options.MAX_LOST_WORKERS} times in the middle of this call.",
            ErrorType.ATTEMPT_LOST,
        )

    async def _reserve(self, turn: "_Turn") -> Reservation:
        turn.change(max_output_tokens=turn.outputs.least)
        if not self.ledger.unspent.covers(turn.worst):
            turn.count_input()
        await self.can_pay(turn.worst)
        turn.fit(self.ledger.unspent.usd)
        reservation = self.ledger.reserve(turn.worst)
        if reservation is None:
            raise CannotPay("out_of_turns" if self.ledger.unspent.turns < turn.worst.turns else "out_of_budget")
        return reservation

    async def _call(self, request: TurnRequest, repetition: int, until: datetime | None) -> TurnResult:
        left = None if until is None else until - workflow.now()
        return await workflow.execute_activity_method(
            TurnActivities.take_turn,
            request,
            task_queue=self.queue,
            priority=self.priority,
            activity_id=request.step if not repetition else f"{request.step}.again-{repetition}",
            summary=f"{request.agent}: {_label(request.task)}",
            **options.turn(left),
        )

    async def _after_error(self, error: ActivityError, reservation: Reservation, turn: "_Turn") -> None:
        """Settle a call that failed, and prepare its repetition, if there is one."""
        cause = error.cause
        if not isinstance(cause, ApplicationError):
            # Timed out or cancelled while a call was in flight: whether it was charged is unknown.
            turn.doubt(reservation)
            if is_cancelled_exception(error):
                raise error
            raise TurnLost("provider_unavailable", "The model call did not end in time.", "Timeout") from error
        match cause.type:
            case ErrorType.CONVERSATION_MISSING:
                self.ledger.settle(reservation, Amount())
                turn.change(task=turn.whole)
            case ErrorType.RESERVE_TOO_SMALL:
                self.ledger.settle(reservation, Amount())
                turn.change(max_input_tokens=int(cause.details[0]))
            case ErrorType.ATTEMPT_LOST:
                turn.doubt(reservation)
            case ErrorType.OUTCOME_UNKNOWN:
                turn.doubt(reservation)
                await _wait_before_repeating(cause, turn)
            case kind:
                self._settle(reservation, turn, Usage(), turn.model.name, wasted=True)
                raise TurnLost(_REASONS.get(kind or "", "internal"), cause.message, kind or "") from error

    def _settle_doubts(self, turn: "_Turn", cost: Decimal, worst_of_answered: Decimal) -> None:
        """Charge a turn's calls whose outcome is unknown by the cost of the call that repeated them, 0 if none did."""
        for reservation, turns in turn.take_doubts():
            worst = reservation.amount.usd
            estimate = doubtful_cost(worst, cost, worst_of_answered)
            usage = Usage(
                turns=turns,
                cost_usd=estimate,
                possibly_billed_twice_usd=estimate,
                possibly_billed_twice_at_most_usd=worst,
            )
            self._record(reservation, turn, usage, turn.model.name, wasted=True)

    def _book(self, reservation: Reservation, turn: "_Turn", result: TurnResult) -> None:
        usage, worst = result.usage, reservation.amount.usd
        if result.usage_known:
            above = max(usage.cost_usd - worst, Decimal(0))
            usage = usage.model_copy(update={"charged_above_reservation_usd": above})
            self.spending.prove(turn.model, usage.cost_usd, worst)
        else:
            unknown = ("cost_usd", "possibly_billed_twice_usd", "possibly_billed_twice_at_most_usd")
            usage = usage.model_copy(update=dict.fromkeys(unknown, worst))
        self._settle_doubts(turn, usage.cost_usd, worst)
        self._settle(reservation, turn, usage, result.model, wasted=result.stop not in {"answer", "tools"})
        if result.discarded is not None:
            self._book_discarded(turn, result.discarded, result.model)

    def _book_discarded(self, turn: "_Turn", discarded: Usage, model: str) -> None:
        """Book what a run before the reset paid at this step, as far as the ledger covers it."""
        paid = Amount(discarded.turns, discarded.cost_usd).at_most(self.ledger.unspent)
        reservation = self.ledger.reserve(paid)
        if reservation is not None:
            turn.count(paid.turns)
            self._settle(reservation, turn, discarded.model_copy(update={"cost_usd": paid.usd}), model, wasted=True)

    def _settle(self, reservation: Reservation, turn: "_Turn", usage: Usage, model: str, *, wasted: bool) -> None:
        self._record(reservation, turn, usage.model_copy(update={"turns": turn.take_count()}), model, wasted=wasted)

    def _record(self, reservation: Reservation, turn: "_Turn", usage: Usage, model: str, *, wasted: bool) -> None:
        agent, purpose = turn.request.agent, turn.request.task.kind
        line = SpendLine(agent=agent, model=model, purpose=purpose, usage=usage)
        self.spending.settle(reservation, line, wasted=wasted)
        count_spend(usage, model, self.priority.fairness_key)


@dataclass
class _Turn:
    """A turn that is being taken: the call that is made next, and what is still to be counted."""

    request: TurnRequest
    model: ModelCard
    whole: Task
    """What is asked, even if only a part of it is sent."""
    outputs: OutputRange
    """How much the model may write."""
    share: Decimal = OUTPUT_SHARE
    """How much of what is unspent the call may reserve."""
    has_counted: bool = False
    """Whether less than the bound by its bytes was reserved for the prompt."""
    uncounted: int = 1
    """Turns that the next settlement counts: a turn counts once, however often its call is repeated."""
    doubts: list[tuple[Reservation, int]] = field(default_factory=list[tuple[Reservation, int]])
    """Calls whose outcome is unknown, which stay reserved until it is known what the repeated call costs, and the turns
    that each counts."""

    @property
    def worst(self) -> Amount:
        """The most that the next call can cost."""
        return Amount(self.uncounted, self._worst_usd(self.request.max_output_tokens))

    def fit(self, unspent: Decimal) -> None:
        """Let the model write as much as can be paid; a repetition is the same call if all that is left pays for it."""
        cap = self.outputs.affordable(self._worst_usd, unspent * self.share)
        self.outputs, self.share = OutputRange(self.outputs.least, cap), Decimal(1)
        self.change(max_output_tokens=cap)

    def prepare_repetition(self) -> bool:
        """Make the next call repeat one that was cut off; False if it would only be cut off again."""
        cap, effort = self.request.max_output_tokens, self.request.effort
        self.outputs, self.uncounted = double_range(cap, self.model), 1
        self.change(effort=lower(effort), provider_failures=0)
        return self.outputs.most > cap or self.request.effort != effort

    def _worst_usd(self, output_tokens: int) -> Decimal:
        return worst_case(self.model, self.request.max_input_tokens, output_tokens).usd

    def count_input(self) -> None:
        """Reserve what the prompt probably has, and leave it to the worker to have it counted; once a turn."""
        if not self.has_counted:
            self.has_counted = True
            request = self.request
            self.change(max_input_tokens=likely_input(self.model, request.max_input_tokens, request.counted))

    def change(self, **changes: object) -> None:
        """Change the next call."""
        self.request = self.request.model_copy(update=changes)

    def doubt(self, reservation: Reservation) -> None:
        """Keep the reservation of a call whose outcome is unknown."""
        self.doubts.append((reservation, self.take_count()))

    def take_doubts(self) -> list[tuple[Reservation, int]]:
        """Return the doubtful calls, to be settled now."""
        doubts, self.doubts = self.doubts, []
        return doubts

    def count(self, turns: int) -> None:
        """Have the next settlement count some turns."""
        self.uncounted = turns

    def take_count(self) -> int:
        """Return how many turns a settlement counts; the next one counts none."""
        turns, self.uncounted = self.uncounted, 0
        return turns


def _label(task: Task) -> str:
    """Say in a word what a turn is for."""
    return task.label if isinstance(task, SynthesisTask) else task.kind


async def _wait_before_repeating(cause: ApplicationError, turn: _Turn) -> None:
    """Wait before repeating a call that the provider may have worked on without answering.

    Raises:
        TurnLost: the provider failed too often.
    """
    failures, seconds = int(cause.details[0]), float(cause.details[1])
    if failures >= options.MAX_BILLED_FAILURES:
        raise TurnLost("provider_unavailable", cause.message, ErrorType.PROVIDER_UNAVAILABLE) from cause
    await workflow.sleep(timedelta(seconds=max(seconds, 0.0)), summary="before the model is called again")
    turn.change(provider_failures=failures)
