"""The workflow of one subtask: one agent, turn by turn, with its own tools."""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.turn.contracts import TurnRequest, TurnResult
    from activities.turn_kinds.work import CompactAnswer, WorkTask
    from chargehand.contracts import FailureReason, Outcome
    from chargehand.converter import non_retryable_error
    from chargehand.wire import ErrorType, SignalName, WorkflowType
    from workflows.budget.estimates import NOTHING_ASIDE, purpose_of
    from workflows.budget.model_calls import CannotPay, ModelCalls, TurnLost, was_reset
    from workflows.contracts import SubtaskRequest, SubtaskResult
    from workflows.mailbox.contracts import Envelope, SteeringItem
    from workflows.mailbox.mailbox import Mailbox
    from workflows.run_end import is_continue_as_new_due, raise_if_cancelled
    from workflows.state.agent import AgentWork, complaint
    from workflows.steps.tool_calls import make_calls, usable_at_once


@workflow.defn(name=WorkflowType.SUBTASK)
class SubtaskWorkflow:
    """Runs one subtask and always returns an outcome."""

    @workflow.init
    def __init__(self, request: SubtaskRequest) -> None:
        self._mailbox = Mailbox(address=workflow.info().workflow_id)
        if request.state is not None:
            self._mailbox.take_over(request.state.mailbox)
        self._agent = AgentWork(request, self._mailbox, workflow.now())

    @workflow.run
    async def run(self, request: SubtaskRequest) -> SubtaskResult:
        """Think, use tools, answer; when cancelled, return the results so far."""
        _require_parent()
        try:
            outcome = await self._work(request)
        except (asyncio.CancelledError, ActivityError) as error:
            if not is_cancelled_exception(error):
                raise
            outcome = self._unfinished_outcome("cancelled", "It was asked to stop.")
        return self._agent.result(outcome, workflow.now())

    @workflow.signal(name=SignalName.MAILBOX, description="What the session sends: replies, and a person's messages.")
    def receive(self, envelope: Envelope) -> None:
        """Settle a reply, or store a person's message to the agent; ignore anything else."""
        if self._mailbox.receive(envelope) and isinstance(envelope.body, SteeringItem):
            self._agent.inbox.receive(envelope.body)

    async def _work(self, request: SubtaskRequest) -> Outcome:
        agent, first = self._agent, self._agent.rounds_begun + 1
        for number in range(first, request.max_rounds + 1):
            now = workflow.now()
            if agent.left(now) <= timedelta(0):
                break
            why_last = agent.why_last(number, now)
            if not why_last:
                await self._make_room(request, is_first=number == first)
            agent.begin_round(number)
            task = await self._task(why_last)
            agent.inbox.begin_turn()
            try:
                result = await self._take(request, task)
            except CannotPay as error:
                return self._unfinished_outcome(error.reason, "Its grant could not pay for another turn.")
            except TurnLost as error:
                return self._unfinished_outcome(error.reason, error.message)
            agent.inbox.confirm()
            agent.conversation.keep(task, result)
            if outcome := agent.outcome_of(result):
                if not agent.inbox.unread or number == request.max_rounds:
                    agent.end(result)
                    return outcome
                agent.keep_answer(outcome, result)
            elif result.stop == "tools" and not task.must_answer:
                await make_calls(agent, result, number)
                agent.keep_calls()
            elif not agent.correct(result):
                return self._unfinished_outcome(_reason(result), complaint(result))
        return self._unfinished_outcome("out_of_rounds", "It had no answer after its last round.")

    async def _make_room(self, request: SubtaskRequest, *, is_first: bool) -> None:
        """Compact a long conversation, and continue a long run as new.

        Runs between two rounds, when no call and no grant request is open.
        """
        if self._agent.is_long():
            await self._compact(request)
        if not is_first and is_continue_as_new_due():
            raise_if_cancelled()
            workflow.continue_as_new(request.replace(state=self._agent.state()))

    async def _compact(self, request: SubtaskRequest) -> None:
        conversation = self._agent.conversation
        try:
            result = await self._take(request, conversation.compact_task())
        except TurnLost:
            conversation.begin_anew(None)
        else:
            conversation.begin_anew(result.answer_as(CompactAnswer))

    async def _task(self, why_last: str) -> WorkTask:
        """Ask the agent to continue, or to answer if this is its last or last affordable turn."""
        agent, task = self._agent, self._agent.conversation.task()
        why = why_last or ("it kept repeating itself" if agent.is_stuck() else "")
        if not why and agent.request.agent.tools:
            needed, calls = agent.cost_of_going_on(task), self._model_calls
            if not (await calls.can_pay(needed.roomy, is_optional=True) or await calls.can_pay(needed.least)):
                why = agent.shortage(needed.least)
        if why:
            agent.force(why)
            return task.replace(must_answer=True)
        agent.tell_turns(agent.rounds_begun)
        return agent.conversation.task()

    async def _take(self, request: SubtaskRequest, task: WorkTask) -> TurnResult:
        agent, conversation = self._agent, self._agent.conversation
        turn = request.make(
            TurnRequest,
            step="",
            agent=request.agent.name,
            tier=request.agent.tier,
            model_name=request.agent.model.name if request.agent.model else "",
            task=conversation.new_in(task),
            profile=request.agent.profile,
            today=agent.began_at.date(),
            max_input_tokens=agent.input_tokens(task),
            counted=conversation.counted,
            max_output_tokens=0,
            effort=purpose_of(task).effort_in(request.agent.effort),
            after_reset=was_reset(),
            at_once=() if task.must_answer else usable_at_once(agent),
        )
        goes_on = request.agent.tools and not task.must_answer
        set_aside = agent.cost_of_going_on(task).set_aside if goes_on else NOTHING_ASIDE
        return await self._model_calls.take(turn, request.model, lambda: agent.until(workflow.now()), task, set_aside)

    @property
    def _model_calls(self) -> ModelCalls:
        request = self._agent.request
        return ModelCalls(
            spending=self._agent.spending,
            output_caps=request.output_caps,
            mailbox=self._mailbox,
            queue=request.turns_queue,
            priority=workflow.info().priority,
        )

    def _unfinished_outcome(self, reason: FailureReason, message: str) -> Outcome:
        return self._agent.unfinished_outcome(reason, message, workflow.now())


def _require_parent() -> None:
    if workflow.info().parent is None:
        raise non_retryable_error(
            ErrorType.NOT_STANDALONE,
            f"A {WorkflowType.SUBTASK} runs only as the child of a session, whose limits hold; "
            f"start a {WorkflowType.SUPERVISOR} instead.",
        )


def _reason(result: TurnResult) -> FailureReason:
    match result.stop:
        case "truncated" | "refused" | "empty":
            return result.stop
        case _:
            return "malformed"
