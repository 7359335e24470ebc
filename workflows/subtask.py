"""The workflow of one subtask: one agent, turn by turn, with its own tools."""

import asyncio
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.contracts import AgentCard, Round, ToolCall, ToolRequest, ToolResult
    from activities.model_turn.contracts import Counted, TurnResult
    from activities.tool_use import ToolActivities
    from activities.turn_kinds.work import AgentAnswer, WorkTask
    from chargehand.contracts import Artifact, Failure, FailureReason, Outcome, SpendLine, Usage
    from chargehand.wire import ErrorType, SignalName, WorkflowType
    from workflows import options
    from workflows.budget.client import BudgetClient
    from workflows.budget.estimates import (
        conversation_bound,
        fixed_bytes,
        input_bound,
        usual_cost,
        worst_case,
    )
    from workflows.budget.ledger import Amount, Ledger
    from workflows.budget.model_calls import CannotPay, MeteredModelCalls, TurnLost
    from workflows.budget.purposes import WORK
    from workflows.contracts import Grant, SubtaskRequest, SubtaskResult
    from workflows.rules.evidence import ground, out_of_time, read_so_far, sources_read
    from workflows.rules.repetition import is_repetitive, refuse_repetition
    from workflows.rules.report_content import merged_spend

MOST_CALLS: Final = 8
"""Tool calls of one round; the model is told to ask for the others again."""
_MOST_CORRECTIONS: Final = 1
_TIME_TO_ANSWER: Final = 0.2
"""The last part of an attempt's time, in which it must answer instead of using tools."""
_NEXT_ROUND_BYTES: Final = 10_000
"""By how much a conversation is expected to grow in a round, to decide whether another one can be paid."""
_MOST_ADDRESSES: Final = 500
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"')\]]{1,2000}")
_LONGEST_CONVERSATION: Final = 600_000
"""Bytes of a conversation after which the agent must answer: with one more round it still fits into one payload."""


@workflow.defn(name=WorkflowType.SUBTASK)
class SubtaskWorkflow:
    """Runs one subtask and always returns an outcome."""

    def __init__(self) -> None:
        self._budget_client = BudgetClient()
        self._rounds: list[Round] = []
        self._rounds_begun = 0
        self._kept = ""
        """Digest of the part of the conversation that a worker keeps."""
        self._kept_rounds = 0
        """Rounds in that part."""
        self._counted: Counted | None = None
        """The part of the conversation that the provider has counted."""
        self._counted_rounds = 0
        """Rounds in the prompt of that part."""
        self._tool_calls = 0
        self._began_at = workflow.now()
        self._deadline: timedelta | None = None

    @workflow.run
    async def run(self, request: SubtaskRequest) -> SubtaskResult:
        """Think, use tools, answer; return what there is when cancelled."""
        _require_parent()
        self._deadline = request.deadline
        model_calls = MeteredModelCalls(
            ledger=Ledger(Amount(request.turns, request.usd)),
            session=request.session,
            crew=request.crew,
            documents=request.documents,
            output_caps=request.output_caps,
            effort=request.agent.effort,
            budget_client=self._budget_client,
            urgency=request.urgency,
            queue=request.turns_queue,
        )
        try:
            outcome = await self._work(request, model_calls)
        except (asyncio.CancelledError, ActivityError) as error:
            if not is_cancelled_exception(error):
                raise
            outcome = self._unfinished("cancelled", "It was asked to stop.")
        return SubtaskResult(
            outcome=outcome.model_copy(
                update={"spend": self._spend(request, model_calls), "artifacts": self._artifacts()}
            ),
            wasted=model_calls.wasted,
            rounds=self._rounds_begun,
            waited=self._budget_client.waited,
            overcharges=model_calls.overcharges,
        )

    @workflow.signal(name=SignalName.GRANT, description="The supervisor's answer to a grant request.")
    def receive_grant(self, grant: Grant) -> None:
        """Keep the answer."""
        self._budget_client.receive(grant)

    async def _work(self, request: SubtaskRequest, model_calls: MeteredModelCalls) -> Outcome:
        corrections = 0
        for number in range(1, request.max_rounds + 1):
            if self._left <= timedelta(0):
                break
            self._rounds_begun = number
            task = await self._task(request, model_calls, last=number == request.max_rounds)
            try:
                result = await model_calls.take(
                    task,
                    agent=request.agent.name,
                    tier=request.agent.tier,
                    model=request.model,
                    input_tokens=self._input_tokens(request, task),
                    until=lambda: self._until,
                    sent=self._new_in(task),
                    counted=self._counted,
                )
            except CannotPay as error:
                return self._unfinished(error.reason, "Its grant was used up.")
            except TurnLost as error:
                return self._unfinished(error.reason, error.message)
            self._kept, self._kept_rounds = result.conversation, len(task.rounds)
            if result.counted is not None:
                self._counted, self._counted_rounds = result.counted, len(task.rounds)
            if answer := result.answer_as(AgentAnswer):
                return ground(answer, sources_read(self._rounds, request.inputs), ())
            if result.stop == "tools" and not task.must_answer:
                await self._use_tools(request, result, number)
                continue
            if result.stop == "refused" or corrections == _MOST_CORRECTIONS:
                return self._unfinished(_reason(result), _complaint(result))
            corrections += 1
            self._rounds.append(Round(correction=_complaint(result)))
        return self._unfinished("out_of_rounds", "It had no answer after its last round.")

    async def _task(self, request: SubtaskRequest, model_calls: MeteredModelCalls, *, last: bool) -> WorkTask:
        task = WorkTask(
            goal=request.goal,
            instruction=request.subtask.instruction,
            inputs=request.inputs,
            rounds=tuple(self._rounds),
        )
        model, input_tokens = model_calls.proven(request.model), self._input_tokens(request, task)
        this_turn = worst_case(model, input_tokens, WORK.least_output)
        next_turn = usual_cost(model, input_tokens, self._counted, _NEXT_ROUND_BYTES)
        is_long = len(task.model_dump_json()) > _LONGEST_CONVERSATION
        is_late = self._deadline is not None and self._left < self._deadline * _TIME_TO_ANSWER
        must_answer = (
            last
            or is_long
            or is_late
            or is_repetitive(self._rounds, MOST_CALLS)
            or not await model_calls.can_pay(this_turn + next_turn)
        )
        return task.model_copy(update={"must_answer": must_answer})

    def _input_tokens(self, request: SubtaskRequest, task: WorkTask) -> int:
        """Bound the input of the next turn, by what the provider has counted of the conversation if it is the less."""
        whole = input_bound(task, fixed_bytes(request.agent, request.documents))
        if self._counted is None:
            return whole
        return min(whole, conversation_bound(self._counted, task.rounds[self._counted_rounds :]))

    def _new_in(self, task: WorkTask) -> WorkTask:
        """Leave out the part of the conversation that a worker keeps."""
        if not self._kept:
            return task
        new = task.rounds[self._kept_rounds :]
        return WorkTask(goal="", instruction="", rounds=new, must_answer=task.must_answer, earlier=self._kept)

    async def _use_tools(self, request: SubtaskRequest, result: TurnResult, number: int) -> None:
        results = await asyncio.gather(
            *(
                self._use_tool(request, call, f"turn-{number}.{position}")
                for position, call in enumerate(result.tool_calls[:MOST_CALLS], start=1)
            )
        )
        left_out = [
            _refused(call, f"At most {MOST_CALLS} tools can be used at once; ask for this one again.")
            for call in result.tool_calls[MOST_CALLS:]
        ]
        self._rounds.append(
            Round(
                calls=result.tool_calls,
                results=(*results, *left_out),
                provider_items=result.provider_items,
            )
        )

    async def _use_tool(self, request: SubtaskRequest, call: ToolCall, step: str) -> ToolResult:
        if call.tool not in request.agent.tools:
            return _refused(call, f"You have no such tool. Your tools: {', '.join(request.agent.tools) or 'none'}.")
        repetition = refuse_repetition(call, self._rounds, MOST_CALLS)
        if repetition is not None:
            return repetition
        if call.malformed:
            return _refused(call, f"The arguments could not be read: {call.malformed}")
        self._tool_calls += 1
        try:
            return await workflow.execute_activity_method(
                ToolActivities.use_tool,
                ToolRequest(
                    session=request.session,
                    step=f"{step}.{call.tool}",
                    crew=request.crew,
                    agent=request.agent.name,
                    call=call,
                    private=_private_texts(request),
                    public=_public_texts(request, self._rounds),
                    documents=request.documents,
                ),
                activity_id=f"{step}.{call.tool}",
                summary=_summary(call),
                **options.tool(self._left),
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            message = error.cause.message if isinstance(error.cause, ApplicationError) else "it timed out"
            return _refused(call, f"The tool failed and is not retried: {message}")

    @property
    def _until(self) -> datetime | None:
        """When the attempt's own time is up; waiting for a larger grant does not count."""
        return None if self._deadline is None else self._began_at + self._deadline + self._budget_client.waited

    @property
    def _left(self) -> timedelta:
        return timedelta.max if self._until is None else self._until - workflow.now()

    def _artifacts(self) -> tuple[Artifact, ...]:
        created = (artifact for past in self._rounds for result in past.results for artifact in result.artifacts)
        return tuple({artifact.uri: artifact for artifact in created}.values())

    def _unfinished(self, reason: FailureReason, message: str) -> Outcome:
        read = sources_read(self._rounds, ())
        if self._left <= timedelta(0) and reason != "cancelled":
            return out_of_time(read)
        if read:
            return read_so_far(read, reason, ())
        return Failure(reason=reason, message=message)

    def _spend(self, request: SubtaskRequest, model_calls: MeteredModelCalls) -> tuple[SpendLine, ...]:
        if not self._tool_calls:
            return merged_spend(model_calls.spend)
        tools = SpendLine(agent=request.agent.name, model="", purpose="tools", usage=Usage(tool_calls=self._tool_calls))
        return merged_spend([*model_calls.spend, tools])


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


def _private_texts(request: SubtaskRequest) -> tuple[str, ...]:
    """Collect the text that no address may contain, for an agent that reaches out and has private inputs."""
    if not request.has_private_inputs or "reaches_out" not in request.agent.capabilities:
        return ()
    outcomes = [source.outcome for source in request.inputs]
    quotes = (source.quote for outcome in outcomes for source in outcome.sources)
    claims = (finding.claim for outcome in outcomes for finding in outcome.findings)
    return tuple(text for text in (*(outcome.content for outcome in outcomes), *claims, *quotes) if text)


def _public_texts(request: SubtaskRequest, rounds: Sequence[Round]) -> tuple[str, ...]:
    """Collect what may be sent out although private text contains it too, for an agent that reaches out."""
    if "reaches_out" not in request.agent.capabilities:
        return ()
    goal = (request.goal,) if request.goal_is_public else ()
    approved = (request.subtask.instruction,) if request.is_approved else ()
    return (*goal, *approved, *_found_outside(request.agent, rounds))


def _found_outside(agent: AgentCard, rounds: Sequence[Round]) -> tuple[str, ...]:
    """List the addresses that an agent without access to anything private has found, unchanged."""
    if "reads_private" in agent.capabilities:
        return ()
    sources = [source for past in rounds for result in past.results for source in result.sources]
    linked = (found for source in sources for found in _ADDRESS.findall(source.quote))
    named = (source.url for source in sources if source.url)
    return tuple(islice(dict.fromkeys((*named, *linked)), _MOST_ADDRESSES))


def _refused(call: ToolCall, error: str) -> ToolResult:
    return ToolResult(call_id=call.id, tool=call.tool, ok=False, output={"error": error})


def _summary(call: ToolCall) -> str:
    first: Sequence[object] = list(call.arguments.values())[:1]
    return f"{call.tool}: {' '.join(str(*first).split())[:120]}"
