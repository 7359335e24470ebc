"""The workflow of one subtask: one agent, turn by turn, with its own tools."""

import asyncio
from datetime import datetime, timedelta
from typing import Final

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.contracts.rounds import MOST_CALLS, Round
    from activities.turn.contracts import TurnResult
    from activities.turn_kinds.compact import CompactAnswer
    from activities.turn_kinds.work import AgentAnswer, WorkTask
    from chargehand.contracts import Failure, FailureReason, Outcome, SpendLine, Usage
    from chargehand.wire import ErrorType, SignalName, WorkflowType
    from workflows import continue_as_new
    from workflows.budget.estimates import (
        NEXT_ROUND_BYTES,
        WORK,
        fixed_bytes,
        input_bound,
        likely_input,
        usual_cost,
        worst_case,
    )
    from workflows.budget.model_calls import CannotPay, ModelCalls, TurnLost
    from workflows.budget.spending import Spending
    from workflows.contracts import SpendingState, SubtaskRequest, SubtaskResult, SubtaskState
    from workflows.mailbox.contracts import Envelope, SteeringItem
    from workflows.mailbox.mailbox import Mailbox
    from workflows.mailbox.signals import raise_if_cancelled
    from workflows.rules.evidence import doubt_below, ground, out_of_time, unfinished, without_data, without_quotes
    from workflows.rules.repetition import is_repetitive
    from workflows.rules.report_content import merged_spend
    from workflows.state.conversation import Conversation
    from workflows.state.inbox import Inbox
    from workflows.steps.tool_calls import make_calls, usable_at_once

_MOST_CORRECTIONS: Final = 1
_MOST_DATA_CORRECTIONS: Final = 2
_TIME_TO_ANSWER: Final = 0.2
"""The last part of an attempt's time, in which it must answer instead of using tools."""


@workflow.defn(name=WorkflowType.SUBTASK)
class SubtaskWorkflow:
    """Runs one subtask and always returns an outcome."""

    @workflow.init
    def __init__(self, request: SubtaskRequest) -> None:
        self._mailbox = Mailbox(workflow.info().workflow_id)
        state = request.state
        if state is not None:
            self._mailbox.resume(state.mailbox)
        self._inbox = Inbox(state.messages, state.messages_read) if state else Inbox(request.messages, ())
        self._rounds_begun = 0
        self._corrections = 0
        """Unusable replies in a row."""
        self._began_at = workflow.now()
        self._deadline: timedelta | None = None
        self._unusable: Outcome | None = None
        """The latest answer, if its data is not valid."""
        self._answered: tuple[Outcome, tuple[int, ...]] | None = None
        """An answer after which a person has written, and the messages that had been read then."""

    @workflow.run
    async def run(self, request: SubtaskRequest) -> SubtaskResult:
        """Think, use tools, answer; return what there is when cancelled."""
        _require_parent()
        self._deadline = request.deadline
        self._conversation = Conversation(request)
        state = request.state
        if state is not None:
            self._began_at = state.began_at
            self._rounds_begun, self._corrections = state.rounds_begun, state.corrections
            self._unusable = state.unusable
            self._answered = (state.answered, state.answered_after) if state.answered else None
        before = state.spending if state else SpendingState(granted_turns=request.turns, granted_usd=request.usd)
        spending = Spending(before)
        model_calls = ModelCalls(
            spending=spending,
            session=request.session,
            crew=request.crew,
            documents=request.documents,
            output_caps=request.output_caps,
            effort=request.agent.effort,
            today=self._began_at.date(),
            mailbox=self._mailbox,
            urgency=request.urgency,
            queue=request.turns_queue,
            priority=workflow.info().priority,
        )
        try:
            outcome = await self._work(request, model_calls)
        except (asyncio.CancelledError, ActivityError) as error:
            if not is_cancelled_exception(error):
                raise
            outcome = self._unfinished("cancelled", "It was asked to stop.")
        return SubtaskResult(
            outcome=without_quotes(
                outcome.model_copy(
                    update={
                        "gaps": (*outcome.gaps, *self._conversation.doubts),
                        "spend": self._spend(request, model_calls),
                        "artifacts": self._conversation.artifacts,
                    }
                )
            ),
            notes=self._conversation.notes.kept,
            messages_read=self._inbox.read,
            wasted=model_calls.spending.wasted,
            rounds=self._rounds_begun,
            waited=self._waited,
            overcharges=model_calls.spending.overcharges,
        )

    @workflow.signal(name=SignalName.MAILBOX, description="What the session sends: replies, and a person's messages.")
    def receive(self, envelope: Envelope) -> None:
        """Settle a reply, or keep what a person tells the agent; anything else is ignored."""
        if self._mailbox.receive(envelope) and isinstance(envelope.body, SteeringItem):
            self._inbox.receive(envelope.body)

    async def _work(self, request: SubtaskRequest, model_calls: ModelCalls) -> Outcome:
        first = self._rounds_begun + 1
        for number in range(first, request.max_rounds + 1):
            if self._left <= timedelta(0):
                break
            is_last = number == request.max_rounds or self._is_late
            await self._make_room(request, model_calls, first=number == first, last=is_last)
            self._rounds_begun = number
            self._conversation.hear(self._inbox.take())
            task = await self._task(request, model_calls, last=is_last)
            self._inbox.begin_turn()
            try:
                result = await self._take(request, model_calls, task)
            except CannotPay as error:
                return self._unfinished(error.reason, "Its grant was used up.")
            except TurnLost as error:
                return self._unfinished(error.reason, error.message)
            self._inbox.confirm()
            self._conversation.keep(task, result)
            if answered := self._outcome_of(request, result):
                if not self._inbox.unread or number == request.max_rounds:
                    return answered
                self._go_on_after(answered, result)
                continue
            if result.stop == "tools" and not task.must_answer:
                await make_calls(
                    request,
                    self._conversation,
                    self._mailbox,
                    result,
                    inbox=self._inbox,
                    number=number,
                    left=lambda: self._left,
                )
                self._corrections = 0
                continue
            most = _MOST_DATA_CORRECTIONS if result.data_problems else _MOST_CORRECTIONS
            if result.stop == "refused" or self._corrections >= most:
                return self._unfinished(_reason(result), _complaint(result))
            self._corrections += 1
            self._conversation.add(Round(correction=_complaint(result)))
        return self._unfinished("out_of_rounds", "It had no answer after its last round.")

    async def _make_room(self, request: SubtaskRequest, model_calls: ModelCalls, *, first: bool, last: bool) -> None:
        """Begin a long conversation anew, and continue a long run in a new one."""
        if not last and self._is_long(request):
            await self._compact(request, model_calls)
        if not last and not first and continue_as_new.is_due():
            self._continue_as_new(request, model_calls)

    def _outcome_of(self, request: SubtaskRequest, result: TurnResult) -> Outcome | None:
        """Build the outcome of an answer; None if the reply is none, or if its data is not valid."""
        answer = result.answer_as(AgentAnswer)
        if answer is None:
            return None
        grounded = ground(answer, self._conversation.citable, ())
        if not result.data_problems:
            return doubt_below(grounded, request.agent.confidence_threshold)
        self._unusable = without_data(grounded, result.data_problems)
        return None

    def _go_on_after(self, answered: Outcome, result: TurnResult) -> None:
        """Keep an answer in case no other follows, and have the agent answer again after what a person has written."""
        self._answered = answered, self._inbox.read
        text = result.answer.model_dump_json(exclude={"kind"}) if result.answer else ""
        self._conversation.add(Round(answer=text, provider_items=result.provider_items))
        self._corrections = 0

    def _continue_as_new(self, request: SubtaskRequest, model_calls: ModelCalls) -> None:
        """Go on in a new run, between two rounds: no call is open then, and no request for a larger grant."""
        raise_if_cancelled()
        answered, answered_after = self._answered or (None, ())
        state = SubtaskState(
            spending=model_calls.spending.state(),
            conversation=self._conversation.state(),
            began_at=self._began_at,
            rounds_begun=self._rounds_begun,
            corrections=self._corrections,
            mailbox=self._mailbox.state(),
            messages=self._inbox.unread,
            messages_read=self._inbox.read,
            unusable=self._unusable,
            answered=answered,
            answered_after=answered_after,
            waited=self._waited,
        )
        workflow.continue_as_new(request.model_copy(update={"state": state}))

    async def _take(self, request: SubtaskRequest, model_calls: ModelCalls, task: WorkTask) -> TurnResult:
        return await model_calls.take(
            task,
            agent=request.agent.name,
            tier=request.agent.tier,
            model=request.model,
            model_name=request.agent.model.name if request.agent.model else "",
            input_tokens=self._input_tokens(request, task),
            until=lambda: self._until,
            sent=self._conversation.new_in(task),
            counted=self._conversation.counted,
            at_once=() if task.must_answer else usable_at_once(request),
        )

    def _is_long(self, request: SubtaskRequest) -> bool:
        task = self._conversation.task()
        return self._conversation.is_long(task, self._input_tokens(request, task))

    async def _compact(self, request: SubtaskRequest, model_calls: ModelCalls) -> None:
        """Have the agent sum up its conversation, and begin a new one with that; by rule if no model does it."""
        try:
            result = await self._take(request, model_calls, self._conversation.compact_task())
        except (CannotPay, TurnLost):
            self._conversation.begin_anew(None)
        else:
            self._conversation.begin_anew(result.answer_as(CompactAnswer))

    async def _task(self, request: SubtaskRequest, model_calls: ModelCalls, *, last: bool) -> WorkTask:
        task = self._conversation.task()
        model, input_tokens = model_calls.spending.with_overcharge(request.model), self._input_tokens(request, task)
        likely = likely_input(model, input_tokens, self._conversation.counted)
        this_turn = worst_case(model, likely, WORK.least_output)
        next_turn = usual_cost(model, input_tokens, self._conversation.counted, NEXT_ROUND_BYTES)
        must_answer = (
            last
            or is_repetitive(self._conversation.rounds, MOST_CALLS)
            or not await model_calls.can_pay(this_turn + next_turn)
        )
        return task.model_copy(update={"must_answer": must_answer})

    def _input_tokens(self, request: SubtaskRequest, task: WorkTask) -> int:
        """Bound the input of the next turn, by what the provider has counted of the conversation if it is the less."""
        whole = input_bound(task, fixed_bytes(request.agent, request.documents))
        return self._conversation.bound(whole, task)

    @property
    def _until(self) -> datetime | None:
        """When the attempt's own time is up; waiting for a larger grant, or for a person, does not count."""
        return None if self._deadline is None else self._began_at + self._deadline + self._waited

    @property
    def _waited(self) -> timedelta:
        return self._mailbox.waited(workflow.now())

    @property
    def _is_late(self) -> bool:
        return self._deadline is not None and self._left < self._deadline * _TIME_TO_ANSWER

    @property
    def _left(self) -> timedelta:
        return timedelta.max if self._until is None else self._until - workflow.now()

    def _unfinished(self, reason: FailureReason, message: str) -> Outcome:
        if self._answered is not None:
            outcome, read = self._answered
            self._inbox.withdraw(read)
            return outcome
        if self._unusable is not None:
            return self._unusable
        notes, read = self._conversation.notes.kept, self._conversation.read
        if self._left <= timedelta(0) and reason != "cancelled":
            return out_of_time(notes, read)
        return unfinished(notes, read, reason) or Failure(reason=reason, message=message)

    def _spend(self, request: SubtaskRequest, model_calls: ModelCalls) -> tuple[SpendLine, ...]:
        made = self._conversation.tool_calls
        if not made:
            return merged_spend(model_calls.spending.lines)
        tools = SpendLine(agent=request.agent.name, model="", purpose="tools", usage=Usage(tool_calls=made))
        return merged_spend([*model_calls.spending.lines, tools])


def _require_parent() -> None:
    if workflow.info().parent is None:
        raise ApplicationError(
            f"A {WorkflowType.SUBTASK} runs only as the child of a session, whose limits hold; "
            f"start a {WorkflowType.SUPERVISOR} instead.",
            type=ErrorType.NOT_STANDALONE,
            non_retryable=True,
        )


def _reason(result: TurnResult) -> FailureReason:
    match result.stop:
        case "truncated" | "refused" | "empty":
            return result.stop
        case _:
            return "malformed"


def _complaint(result: TurnResult) -> str:
    if result.data_problems:
        return f"its data is not valid: {result.data_problems}"
    match result.stop:
        case "truncated":
            return "it was too long and was cut off; answer in fewer words"
        case "empty":
            return "it was empty"
        case "refused":
            return "The model declined to answer."
        case "malformed":
            return f"it was not the required JSON: {result.problem}"
        case _:
            return "no more tools can be used; only the answer is expected"
