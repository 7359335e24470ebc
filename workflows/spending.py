"""Taking model turns out of a purse: reserved before, settled after, whatever happens in between."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from activities.attempts import PROVIDER_ATTEMPTS
from activities.contracts import ModelCard, Task, TurnRequest, TurnResult
from activities.turns import TurnActivities
from chargehand.contracts import FailureReason, SpendLine, Tier, Usage
from chargehand.wire import ErrorType
from workflows import options
from workflows.borrowing import Borrower, refuse_if_cancelled
from workflows.bounds import input_bound, worst_case
from workflows.purse import Amount, Purse, Reservation
from workflows.resets import was_reset

_MOST_REPETITIONS: Final = 10
"""How often a turn is started anew after its worker was lost."""
_LEAST_PATIENCE: Final = timedelta(seconds=1)
"""What a turn gets even when its time is up."""
_REASONS: Final[dict[str, FailureReason]] = {
    ErrorType.PROVIDER_UNAVAILABLE: "provider_unavailable",
    ErrorType.RATE_LIMITED: "provider_unavailable",
    ErrorType.PROVIDER_REFUSED: "provider_refused",
}


class CannotPay(Exception):  # noqa: N818  # it is raised as a statement of fact
    """The purse does not cover the worst case of the next turn."""

    def __init__(self, reason: FailureReason) -> None:
        super().__init__(reason)
        self.reason: FailureReason = reason


class TurnLost(Exception):  # noqa: N818  # as above
    """A turn came to nothing for good."""

    def __init__(self, reason: FailureReason, message: str, error_type: str) -> None:
        super().__init__(message)
        self.reason: FailureReason = reason
        self.message = message
        self.error_type = error_type


class Spender:
    """One agent's, or the supervisor's, way to the models: every turn goes through its purse."""

    def __init__(
        self,
        purse: Purse,
        *,
        session: str,
        crew: str,
        documents: Sequence[str],
        borrower: Borrower | None = None,
        urgency: Literal["now", "batch"] = "now",
        queue: str | None = None,
    ) -> None:
        """Spend from a purse.

        Args:
            queue: task queue of the turns, if it is not the workflow's own.
        """
        self._purse = purse
        self._session = session
        self._crew = crew
        self._documents = tuple(documents)
        self._turns = 0
        self._borrower = borrower
        self._urgency: Literal["now", "batch"] = urgency
        self._queue = queue
        self.spend: list[SpendLine] = []
        self.wasted = Usage()
        """Part of `spend` for turns that came to nothing."""

    def cost_of(self, model: ModelCard, task: Task, prompt_bytes: int, output_tokens: int) -> Amount:
        """Reckon the worst case of a turn."""
        return worst_case(model, input_bound(task, prompt_bytes), output_tokens)

    async def can_pay(self, amount: Amount, *, patient: bool = False) -> bool:
        """Whether the purse covers an amount, after asking above for what is missing."""
        missing = amount.beyond(self._purse.unspent)
        if missing != Amount() and self._borrower is not None:
            self._purse.grant(await self._borrower.ask(missing, patient=patient))
        return self._purse.unspent.covers(amount)

    async def take(
        self,
        task: Task,
        *,
        agent: str,
        tier: Tier,
        model: ModelCard,
        prompt_bytes: int,
        output_tokens: int,
        until: datetime | None = None,
        sent: Task | None = None,
    ) -> TurnResult:
        """Take one turn, with all its attempts by `until`; `sent` instead of the whole task if a worker has the rest.

        Raises:
            CannotPay: the purse does not cover it; nothing was called.
            TurnLost: it was called and came to nothing.
        """
        self._turns += 1
        bound = input_bound(task, prompt_bytes)
        request = TurnRequest(
            session=self._session,
            step=f"turn-{self._turns}",
            crew=self._crew,
            agent=agent,
            tier=tier,
            documents=self._documents,
            task=sent or task,
            max_input_tokens=bound,
            max_output_tokens=output_tokens,
            urgency=self._urgency,
            after_reset=was_reset(),
        )
        for repetition in range(_MOST_REPETITIONS):
            refuse_if_cancelled()
            reservation = await self._reserve(worst_case(model, request.max_input_tokens, output_tokens))
            try:
                result = await self._call(request, repetition, until)
            except ActivityError as error:
                request = await self._after_error(error, reservation, request, model)
                if _is(error, ErrorType.CONVERSATION_MISSING):
                    request = request.model_copy(update={"task": task})
                continue
            self._book(reservation, request, result)
            return result
        raise TurnLost(
            "provider_unavailable",
            f"The worker was lost {_MOST_REPETITIONS} times in the middle of this call.",
            ErrorType.ATTEMPT_LOST,
        )

    def waste_last(self) -> None:
        """Note that the latest turn came to nothing after all."""
        self.wasted += self.spend[-1].usage

    async def _reserve(self, worst: Amount) -> Reservation:
        await self.can_pay(worst, patient=True)
        reservation = self._purse.reserve(worst)
        if reservation is None:
            raise CannotPay("out_of_turns" if self._purse.unspent.turns < worst.turns else "out_of_budget")
        return reservation

    async def _call(self, request: TurnRequest, repetition: int, until: datetime | None) -> TurnResult:
        patience = options.TURN_PATIENCE
        if until is not None:
            patience = min(patience, max(until - workflow.now(), _LEAST_PATIENCE))
        return await workflow.execute_activity_method(
            TurnActivities.take_turn,
            request,
            task_queue=self._queue,
            activity_id=request.step if not repetition else f"{request.step}.again-{repetition}",
            start_to_close_timeout=options.TURN_TIMEOUT,
            schedule_to_close_timeout=patience,
            heartbeat_timeout=options.HEARTBEAT_TIMEOUT,
            retry_policy=options.TURN_RETRIES,
            summary=f"{request.agent}: {request.task.kind}",
        )

    async def _after_error(
        self, error: ActivityError, reservation: Reservation, request: TurnRequest, model: ModelCard
    ) -> TurnRequest:
        """Settle a turn that failed; the request to try next, if there is one."""
        cause = error.cause
        kind = cause.type if isinstance(cause, ApplicationError) else None
        if kind == ErrorType.CONVERSATION_MISSING:
            self._purse.settle(reservation, Amount())
            return request
        if kind == ErrorType.RESERVE_TOO_SMALL and isinstance(cause, ApplicationError):
            self._purse.settle(reservation, Amount())
            return request.model_copy(update={"max_input_tokens": int(cause.details[0])})
        if kind == ErrorType.ATTEMPT_LOST:
            self._charge_in_full(reservation, request, model, turns=0)
            failures = int(cause.details[0]) if isinstance(cause, ApplicationError) and cause.details else 0
            return request.model_copy(update={"provider_failures": max(failures, request.provider_failures)})
        if kind == ErrorType.FATE_UNKNOWN and isinstance(cause, ApplicationError):
            return await self._after_unknown_fate(cause, reservation, request, model)
        if kind is None:  # timed out or cancelled while a call was under way: nobody knows whether it was charged
            self._charge_in_full(reservation, request, model, turns=1)
            if is_cancelled_exception(error):
                raise error
            raise TurnLost("provider_unavailable", "The model call did not end in time.", "Timeout") from error
        self._settle(reservation, request, Usage(turns=1), model.name, wasted=True)
        raise TurnLost(_REASONS.get(kind, "internal"), _message(cause), kind) from error

    async def _after_unknown_fate(
        self, cause: ApplicationError, reservation: Reservation, request: TurnRequest, model: ModelCard
    ) -> TurnRequest:
        """Charge a call that the provider may have worked on without answering, and wait before it is made again."""
        failures, seconds = int(cause.details[0]), float(cause.details[1])
        is_last = failures >= PROVIDER_ATTEMPTS
        self._charge_in_full(reservation, request, model, turns=int(is_last))
        if is_last:
            raise TurnLost("provider_unavailable", cause.message, ErrorType.PROVIDER_UNAVAILABLE) from cause
        await workflow.sleep(timedelta(seconds=max(seconds, 0.0)), summary="before the model is called again")
        return request.model_copy(update={"provider_failures": failures})

    def _charge_in_full(self, reservation: Reservation, request: TurnRequest, model: ModelCard, turns: int) -> None:
        worst = reservation.amount.usd
        usage = Usage(turns=turns, cost_usd=worst, possibly_billed_twice_usd=worst)
        self._settle(reservation, request, usage, model.name, wasted=True)

    def _book(self, reservation: Reservation, request: TurnRequest, result: TurnResult) -> None:
        usage, worst = result.usage, reservation.amount.usd
        if not result.usage_known:
            usage = usage.model_copy(update={"cost_usd": worst, "possibly_billed_twice_usd": worst})
        usage = usage.model_copy(update={"cost_usd": min(usage.cost_usd, worst)})
        self._settle(reservation, request, usage, result.model, wasted=result.stop not in {"answer", "tools"})
        if result.discarded is not None:
            self._book_discarded(request, result.discarded, result.model)

    def _book_discarded(self, request: TurnRequest, discarded: Usage, model: str) -> None:
        """Book what a run before a reset has paid at this step, as far as the purse reaches."""
        paid = Amount(discarded.turns, discarded.cost_usd).capped(self._purse.unspent)
        reservation = self._purse.reserve(paid)
        if reservation is not None:
            usage = discarded.model_copy(update={"turns": paid.turns, "cost_usd": paid.usd})
            self._settle(reservation, request, usage, model, wasted=True)

    def _settle(
        self, reservation: Reservation, request: TurnRequest, usage: Usage, model: str, *, wasted: bool
    ) -> None:
        self._purse.settle(reservation, Amount(usage.turns, usage.cost_usd))
        if wasted:
            self.wasted += usage
        self.spend.append(SpendLine(agent=request.agent, model=model, purpose=request.task.kind, usage=usage))


def _is(error: ActivityError, kind: ErrorType) -> bool:
    return isinstance(error.cause, ApplicationError) and error.cause.type == kind


def _message(cause: BaseException | None) -> str:
    return cause.message if isinstance(cause, ApplicationError) else str(cause)
