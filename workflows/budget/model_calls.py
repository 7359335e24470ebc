"""Metered model calls: every turn is reserved in the ledger before the call, and settled afterwards.

If the ledger runs short, the parent workflow is asked for more.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from temporalio import workflow
from temporalio.common import Priority
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from activities.contracts.cards import ModelCard, OutputCaps
from activities.quarantine import MOST_LOST_WORKERS, quarantined
from activities.turn.activity import TurnActivities
from activities.turn.contracts import TurnRequest, TurnResult
from activities.turn.retry_policy import BILLED_FAILURES
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import SynthesisTask
from chargehand.contracts import FailureReason, SpendLine, Usage
from chargehand.wire import ErrorType
from workflows import options
from workflows.budget.estimates import (
    NOTHING_ASIDE,
    OUTPUT_SHARE,
    OutputRange,
    SetAside,
    double_range,
    likely_input,
    lower,
    output_range,
    purpose_of,
    worst_case,
)
from workflows.budget.ledger import Amount, Ledger, Reservation, Spending
from workflows.mailbox.contracts import Grant, GrantRequest
from workflows.mailbox.mailbox import Mailbox
from workflows.mailbox.signals import ask
from workflows.metrics import count_spend
from workflows.run_end import on_exit, raise_if_cancelled

_REASONS: Final[dict[str, FailureReason]] = {
    ErrorType.PROVIDER_UNAVAILABLE: "provider_unavailable",
    ErrorType.RATE_LIMITED: "provider_unavailable",
    ErrorType.PROVIDER_REFUSED: "provider_refused",
}


def was_reset() -> bool:
    """Return whether this run resulted from an operator's `workflow reset`."""
    info = workflow.info()
    return info.run_id != info.original_execution_run_id


class TurnLost(Exception):  # noqa: N818  # it is raised as a statement of fact
    """A turn failed for good."""

    def __init__(self, reason: FailureReason, message: str, error_type: str, *details: Any) -> None:
        """Describe the failure; `details` are those of the activity's error."""
        super().__init__(message)
        self.reason: FailureReason = reason
        self.message = message
        self.error_type = error_type
        self.details = details


class CannotPay(TurnLost):
    """The ledger does not cover the worst case of the next turn; no call was made."""

    def __init__(self, reason: FailureReason) -> None:
        super().__init__(reason, reason, ErrorType.LIMIT_TOO_SMALL)


@dataclass(frozen=True, kw_only=True)
class ModelCalls:
    """The model calls of one workflow, paid from its ledger."""

    spending: Spending
    output_caps: OutputCaps
    mailbox: Mailbox | None = None
    """Used to ask the parent for a larger grant when the ledger runs short."""
    queue: str | None = None
    """Task queue of the turns, if it is not the workflow's own."""
    priority: Priority = Priority.default
    """Priority of the turns; workers read the tenant from it."""

    @property
    def ledger(self) -> Ledger:
        return self.spending.ledger

    async def can_pay(self, amount: Amount, *, is_optional: bool = False) -> bool:
        """Return whether the ledger covers an amount, after asking the parent for what is missing."""
        if self.mailbox is not None:
            await request_grant(self.mailbox, self.ledger, amount, is_optional=is_optional)
        return self.ledger.unspent.covers(amount)

    async def take(
        self,
        request: TurnRequest,
        model: ModelCard,
        until: Callable[[], datetime | None],
        whole: Task | None = None,
        set_aside: SetAside | None = None,
    ) -> TurnResult:
        """Take one turn. A truncated reply is requested once more, with twice the cap and less effort.

        The output cap depends on the unspent budget: a turn reserves up to half of it for output, or all of it except
        what is set aside. A truncated reply and its repetition count as one turn, and both are paid for.

        Args:
            request: the turn; its step and output cap are set here.
            model: the model of its tier, with prices.
            until: returns the time by which all attempts must have ended.
            whole: the full task, if a worker keeps a part of it and only the rest is sent.
            set_aside: what this turn must leave in the ledger; half of the unspent budget if None.

        Raises:
            CannotPay: the ledger does not cover the turn; no call was made.
            TurnLost: the call failed.
        """
        task = whole or request.task
        outputs = output_range(purpose_of(task), self.output_caps, model)
        turn = _Turn(request, self.spending.with_overcharge(model), task, outputs, set_aside)
        result = await self._take(turn, until)
        if result.stop != "truncated" or not turn.prepare_repetition():
            return result
        if set_aside is not None and not await self._keeps_aside(turn, set_aside):
            return result
        try:
            repeated = await self._take(turn, until)
        except CannotPay:
            return result
        self.spending.keep_turn()
        return repeated

    async def _keeps_aside(self, turn: "_Turn", aside: SetAside) -> bool:
        """Return whether a repetition at its full cap leaves enough for the turn that answers, if one follows."""
        return aside.least == 0 or await self.can_pay(turn.repeated + Amount(1, aside.least))

    async def _take(self, turn: "_Turn", until: Callable[[], datetime | None]) -> TurnResult:
        turn.change(step=f"turn-{self.spending.begin_turn()}")
        with on_exit(lambda: self._settle_doubts(turn)):
            return await self._call_until_answered(turn, until)

    async def _call_until_answered(self, turn: "_Turn", until: Callable[[], datetime | None]) -> TurnResult:
        for repetition in range(options.MOST_CALLS_OF_A_TURN):
            raise_if_cancelled()
            reservation = await self._reserve(turn)
            try:
                result = await self._call(turn.request, repetition, until())
            except asyncio.CancelledError:
                # Cancelled in the same workflow task that delivered the result, which is no longer available.
                turn.doubt(reservation)
                raise
            except ActivityError as error:
                await self._after_error(error, reservation, turn)
                continue
            self._book(reservation, turn, result)
            return result
        raise TurnLost(
            "provider_unavailable",
            f"The call was not answered in {options.MOST_CALLS_OF_A_TURN} attempts.",
            ErrorType.ATTEMPT_LOST,
        )

    async def _reserve(self, turn: "_Turn") -> Reservation:
        if not self.ledger.unspent.covers(turn.roomy):
            turn.count_input()
        turn.change(max_output_tokens=turn.outputs.least)
        await self.can_pay(turn.worst)
        turn.fit(self.ledger.unspent.usd)
        reservation = self.ledger.reserve(turn.worst)
        if reservation is None:
            raise CannotPay("out_of_turns" if self.ledger.unspent.turns < turn.worst.turns else "out_of_budget")
        return reservation

    async def _call(self, request: TurnRequest, repetition: int, until: datetime | None) -> TurnResult:
        left = None if until is None else until - workflow.now()
        label = request.task.label if isinstance(request.task, SynthesisTask) else request.task.kind
        return await workflow.execute_activity_method(
            TurnActivities.take_turn,
            request,
            task_queue=self.queue,
            priority=self.priority,
            activity_id=request.step if not repetition else f"{request.step}.again-{repetition}",
            summary=f"{request.agent}: {label}",
            **options.turn(left),
        )

    async def _after_error(self, error: ActivityError, reservation: Reservation, turn: "_Turn") -> None:
        """Settle a failed call, and prepare its repetition if there is one."""
        cause = error.cause
        if not isinstance(cause, ApplicationError):
            # Timed out or cancelled in flight: whether it was charged is unknown.
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
                if turn.lose_worker(was_waiting=bool(cause.details)):
                    what = f"{turn.request.step} of {turn.request.agent}"
                    workflow.logger.error("a turn is quarantined", extra={"turn": what})
                    message = quarantined(what, turn.lost_workers)
                    raise TurnLost("quarantined", message, ErrorType.QUARANTINED) from error
            case ErrorType.OUTCOME_UNKNOWN:
                turn.doubt(reservation)
                await _wait_before_repeating(cause, turn)
            case kind:
                self._settle(reservation, turn, Usage(), turn.model.name, wasted=True)
                raise TurnLost(
                    _REASONS.get(kind or "", "internal"), cause.message, kind or "", *cause.details
                ) from error

    def _settle_doubts(self, turn: "_Turn") -> None:
        """Charge a turn's calls of unknown outcome at their worst case: no lower figure is sure to cover the bill."""
        for reservation, turns in turn.take_doubts():
            worst = reservation.amount.usd
            usage = Usage(turns=turns, cost_usd=worst, possibly_billed_twice_usd=worst)
            self._record(reservation, turn, usage, turn.model.name, wasted=True)

    def _book(self, reservation: Reservation, turn: "_Turn", result: TurnResult) -> None:
        usage, worst = result.usage, reservation.amount.usd
        if result.usage_known:
            above = max(usage.cost_usd - worst, Decimal(0))
            usage = usage.replace(charged_above_reservation_usd=above)
            self.spending.prove(turn.model, usage.cost_usd, worst)
        else:
            usage = usage.replace(cost_usd=worst, possibly_billed_twice_usd=worst)
        self._settle_doubts(turn)
        self._settle(reservation, turn, usage, result.model, wasted=result.stop not in {"answer", "tools"})
        if result.discarded is not None:
            self._book_discarded(turn, result.discarded, result.model)

    def _book_discarded(self, turn: "_Turn", discarded: Usage, model: str) -> None:
        """Book the cost of this step before a reset or restore, even beyond the ledger."""
        paid = Amount(discarded.turns, discarded.cost_usd).at_most(self.ledger.unspent)
        reservation = self.ledger.reserve(paid)
        if reservation is not None:
            booked = {"turns": paid.turns, "charged_above_reservation_usd": discarded.cost_usd - paid.usd}
            self._record(reservation, turn, discarded.replace(**booked), model, wasted=True)

    def _settle(self, reservation: Reservation, turn: "_Turn", usage: Usage, model: str, *, wasted: bool) -> None:
        self._record(reservation, turn, usage.replace(turns=turn.take_count()), model, wasted=wasted)

    def _record(self, reservation: Reservation, turn: "_Turn", usage: Usage, model: str, *, wasted: bool) -> None:
        agent, purpose = turn.request.agent, turn.request.task.kind
        line = SpendLine(agent=agent, model=model, purpose=purpose, usage=usage)
        self.spending.settle(reservation, line, wasted=wasted)
        count_spend(usage, model, self.priority.fairness_key)


@dataclass
class _Turn:
    """A turn in progress: the next call, and what is still to be settled."""

    request: TurnRequest
    model: ModelCard
    whole: Task
    """The full task, even if only a part of it is sent."""
    outputs: OutputRange
    set_aside: SetAside | None
    """What the call leaves unspent; None for half of the unspent budget."""
    has_counted: bool = False
    """Whether less than the byte bound was reserved for the prompt."""
    lost_workers: int = 0
    suspicions: int = 0
    """Lost workers that the turn may have caused."""
    uncounted: int = 1
    """Turns that the next settlement counts; a turn counts once, no matter how often it is called."""
    doubts: list[tuple[Reservation, int]] = field(default_factory=list[tuple[Reservation, int]])
    """Calls of unknown outcome, reserved until the turn ends, and the number of turns that each counts as."""

    @property
    def worst(self) -> Amount:
        return Amount(self.uncounted, self._worst_usd(self.request.max_output_tokens))

    @property
    def roomy(self) -> Amount:
        """The worst case of the call with the room it should have, plus the least that is set aside."""
        least = self.set_aside.least if self.set_aside else Decimal(0)
        return Amount(self.uncounted, self._worst_usd(self._room) + least)

    @property
    def repeated(self) -> Amount:
        """The worst case of a repetition at its full cap."""
        return Amount(self.uncounted, self._worst_usd(self.outputs.most))

    @property
    def _room(self) -> int:
        if self.set_aside is None:
            return self.outputs.least
        most = self.outputs.most
        return most if self.set_aside.room is None else min(max(self.set_aside.room, self.outputs.least), most)

    def lose_worker(self, *, was_waiting: bool) -> bool:
        """Count a lost worker, which a waiting turn did not cause; return whether there have been too many."""
        self.lost_workers += 1
        self.suspicions += not was_waiting
        return self.suspicions >= MOST_LOST_WORKERS or self.lost_workers >= BILLED_FAILURES

    def fit(self, unspent: Decimal) -> None:
        """Set the output cap to what can be paid. A repetition keeps the cap if the unspent budget covers it."""
        outputs, aside = self.outputs, self.set_aside
        cap = outputs.affordable(self._worst_usd, unspent * OUTPUT_SHARE if aside is None else unspent - aside.most)
        if aside is not None and cap < self._room:
            cap = OutputRange(cap, self._room).affordable(self._worst_usd, unspent - aside.least)
        self.outputs, self.set_aside = OutputRange(outputs.least, cap), NOTHING_ASIDE
        self.change(max_output_tokens=cap)

    def prepare_repetition(self) -> bool:
        """Prepare a repetition of a truncated call; False if it would only be truncated again."""
        cap, effort = self.request.max_output_tokens, self.request.effort
        self.outputs = double_range(cap, self.model)
        self.change(effort=lower(effort), provider_failures=0)
        return self.outputs.most > cap or self.request.effort != effort

    def _worst_usd(self, output_tokens: int) -> Decimal:
        return worst_case(self.model, self.request.max_input_tokens, output_tokens).usd

    def count_input(self) -> None:
        """Reserve the likely input, not the bound, once per turn; the worker has the prompt counted."""
        if not self.has_counted:
            self.has_counted = True
            request = self.request
            self.change(max_input_tokens=likely_input(self.model, request.max_input_tokens, request.counted))

    def change(self, **changes: object) -> None:
        self.request = self.request.replace(**changes)

    def doubt(self, reservation: Reservation) -> None:
        self.doubts.append((reservation, self.take_count()))

    def take_doubts(self) -> list[tuple[Reservation, int]]:
        doubts, self.doubts = self.doubts, []
        return doubts

    def take_count(self) -> int:
        """Return how many turns this settlement counts; later ones count none."""
        turns, self.uncounted = self.uncounted, 0
        return turns


async def _wait_before_repeating(cause: ApplicationError, turn: _Turn) -> None:
    failures, seconds = int(cause.details[0]), float(cause.details[1])
    if failures >= BILLED_FAILURES:
        kind = ErrorType.PROVIDER_UNAVAILABLE
        raise TurnLost("provider_unavailable", cause.message, kind, *cause.details) from cause
    await workflow.sleep(timedelta(seconds=max(seconds, 0.0)), summary="before the model is called again")
    turn.change(provider_failures=failures)


async def request_grant(
    mailbox: Mailbox,
    ledger: Ledger,
    needed: Amount,
    is_over: Callable[[], bool] = lambda: False,
    *,
    is_optional: bool = False,
) -> None:
    """Ask the parent workflow for the missing part of an amount, and wait for its reply."""
    parent, missing = workflow.info().parent, ledger.missing(needed)
    if parent is None or missing == Amount():
        return

    def take(grant: Grant) -> bool:
        """Accept nothing, or at least what is missing and at most that plus the previous grant."""
        amount = Amount(grant.turns, grant.usd)
        if amount != Amount() and not (amount.covers(missing) and (missing + ledger.granted).covers(amount)):
            return False
        ledger.grant(amount)
        return True

    request = GrantRequest(turns=missing.turns, usd=missing.usd, is_optional=is_optional)
    await ask(mailbox, parent.workflow_id, request, Grant, take=take, is_over=is_over)
