"""What an agent knows of its work on one subtask: its conversation, its time, and the answers that it has so far."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from activities.contracts.rounds import MOST_CALLS, Round
from activities.turn.contracts import TurnResult
from activities.turn_kinds.work import AgentAnswer, WorkTask
from chargehand.contracts import Failure, FailureReason, Outcome, SpendLine, Usage
from workflows.budget.estimates import (
    NEXT_ROUND_BYTES,
    WORK,
    fixed_bytes,
    input_bound,
    likely_input,
    usual_cost,
    worst_case,
)
from workflows.budget.ledger import Amount
from workflows.budget.spending import Spending
from workflows.contracts import SpendingState, SubtaskRequest, SubtaskResult, SubtaskState
from workflows.mailbox.mailbox import Mailbox
from workflows.rules.evidence import doubt_below, ground, out_of_time, unfinished_outcome, without_data, without_quotes
from workflows.rules.repetition import is_repetitive
from workflows.rules.report_content import merge_spend
from workflows.state.conversation import Conversation
from workflows.state.inbox import Inbox

_MOST_CORRECTIONS: Final = 1
_MOST_DATA_CORRECTIONS: Final = 2
_TIME_TO_ANSWER: Final = 0.2
"""The last part of an attempt's time, in which it must answer instead of using tools."""


class AgentWork:
    """One attempt of an agent at a subtask."""

    def __init__(self, request: SubtaskRequest, mailbox: Mailbox, now: datetime) -> None:
        before = request.state
        granted = SpendingState(granted_turns=request.turns, granted_usd=request.usd)
        self.request = request
        self.mailbox = mailbox
        self.conversation = Conversation(request)
        self.spending = Spending(before.spending if before else granted)
        self.inbox = Inbox(before.messages, before.messages_read) if before else Inbox(request.messages, ())
        self.began_at = before.began_at if before else now
        self.rounds_begun = before.rounds_begun if before else 0
        self._corrections = before.corrections if before else 0
        """Unusable replies in a row."""
        self._unusable = before.unusable if before else None
        """The latest answer, if its data is not valid."""
        self._answered = before.answered if before else None
        """An answer after which a person has written."""
        self._answered_after = before.answered_after if before else ()
        """Numbers of the messages that had been read then."""

    def state(self, now: datetime) -> SubtaskState:
        """Return what a new run continues with."""
        return SubtaskState(
            spending=self.spending.state(),
            conversation=self.conversation.state(),
            began_at=self.began_at,
            rounds_begun=self.rounds_begun,
            corrections=self._corrections,
            mailbox=self.mailbox.state(),
            messages=self.inbox.unread,
            messages_read=self.inbox.read,
            unusable=self._unusable,
            answered=self._answered,
            answered_after=self._answered_after,
            waited=self.mailbox.waited(now),
        )

    def result(self, outcome: Outcome, now: datetime) -> SubtaskResult:
        """Return an outcome with what it cost and what came of the work beside it."""
        beside = {
            "gaps": (*outcome.gaps, *self.conversation.doubts),
            "spend": self._spend,
            "artifacts": self.conversation.artifacts,
        }
        return SubtaskResult(
            outcome=without_quotes(outcome.model_copy(update=beside)),
            notes=self.conversation.notes.kept,
            messages_read=self.inbox.read,
            wasted=self.spending.wasted,
            rounds=self.rounds_begun,
            waited=self.mailbox.waited(now),
            overcharges=self.spending.overcharges,
        )

    def until(self, now: datetime) -> datetime | None:
        """Return when the attempt's own time is up; waiting for a larger grant, or for a person, does not count."""
        deadline = self.request.deadline
        return None if deadline is None else self.began_at + deadline + self.mailbox.waited(now)

    def left(self, now: datetime) -> timedelta:
        """Return how much of that time is left."""
        until = self.until(now)
        return timedelta.max if until is None else until - now

    def is_last(self, number: int, now: datetime) -> bool:
        """Whether the agent must answer in a round: no other follows, or its time is nearly up."""
        deadline = self.request.deadline
        is_late = deadline is not None and self.left(now) < deadline * _TIME_TO_ANSWER
        return is_late or number == self.request.max_rounds

    def begin_round(self, number: int) -> None:
        """Begin a round with what a person has written since the one before."""
        self.rounds_begun = number
        self.conversation.hear(self.inbox.take())

    def input_tokens(self, task: WorkTask) -> int:
        """Bound the input of the next turn, by what the provider has counted of the conversation if it is the less."""
        whole = input_bound(task, fixed_bytes(self.request.agent, self.request.documents))
        return self.conversation.bound(whole, task)

    def is_long(self) -> bool:
        """Whether the conversation has to begin anew before its next turn."""
        task = self.conversation.task()
        return self.conversation.is_long(task, self.input_tokens(task))

    def is_stuck(self) -> bool:
        """Whether the agent repeats its tool calls."""
        return is_repetitive(self.conversation.rounds, MOST_CALLS)

    def cost_of_going_on(self, task: WorkTask) -> Amount:
        """Estimate what this turn costs if it uses tools, with the turn that follows it."""
        model, counted = self.spending.with_overcharge(self.request.model), self.conversation.counted
        input_tokens = self.input_tokens(task)
        this_turn = worst_case(model, likely_input(model, input_tokens, counted), WORK.least_output)
        return this_turn + usual_cost(model, input_tokens, counted, NEXT_ROUND_BYTES)

    def outcome_of(self, result: TurnResult) -> Outcome | None:
        """Build the outcome of an answer; None if the reply is none, or if its data is not valid."""
        answer = result.answer_as(AgentAnswer)
        if answer is None:
            return None
        grounded = ground(answer, self.conversation.citable, ())
        if not result.data_problems:
            return doubt_below(grounded, self.request.agent.confidence_threshold)
        self._unusable = without_data(grounded, result.data_problems)
        return None

    def keep_answer(self, outcome: Outcome, result: TurnResult) -> None:
        """Keep an answer in case no other follows, and have the agent answer again after what a person has written."""
        self._answered, self._answered_after = outcome, self.inbox.read
        text = result.answer.model_dump_json(exclude={"kind"}) if result.answer else ""
        self.conversation.add(Round(answer=text, provider_items=result.provider_items))
        self._corrections = 0

    def keep_calls(self) -> None:
        """Note that the agent has used tools as it should."""
        self._corrections = 0

    def correct(self, result: TurnResult) -> bool:
        """Have the agent reply again to a complaint; False if it has had its corrections, or declined."""
        most = _MOST_DATA_CORRECTIONS if result.data_problems else _MOST_CORRECTIONS
        if result.stop == "refused" or self._corrections >= most:
            return False
        self._corrections += 1
        self.conversation.add(Round(correction=complaint(result)))
        return True

    def unfinished_outcome(self, reason: FailureReason, message: str, now: datetime) -> Outcome:
        """Return what there is of an outcome when the work ends without an answer."""
        if self._answered is not None:
            self.inbox.withdraw(self._answered_after)
            return self._answered
        if self._unusable is not None:
            return self._unusable
        notes, read = self.conversation.notes.kept, self.conversation.read
        if self.left(now) <= timedelta(0) and reason != "cancelled":
            return out_of_time(notes, read)
        return unfinished_outcome(notes, read, reason) or Failure(reason=reason, message=message)

    @property
    def _spend(self) -> Sequence[SpendLine]:
        calls = self.conversation.tool_calls
        if not calls:
            return merge_spend(self.spending.lines)
        tools = SpendLine(agent=self.request.agent.name, model="", purpose="tools", usage=Usage(tool_calls=calls))
        return merge_spend([*self.spending.lines, tools])


def complaint(result: TurnResult) -> str:
    """Tell an agent what was wrong with its reply."""
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
