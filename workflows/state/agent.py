"""The state of an agent's work on one subtask: its conversation, its time and its answers so far."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from activities.contracts.rounds import Round
from activities.turn.contracts import TurnResult
from activities.turn_kinds.work import AgentAnswer, ReplyAnswer, WorkTask
from chargehand.contracts import Failure, FailureReason, Outcome, SpendLine, Usage
from workflows.budget.estimates import GoingOn, TurnCosts, fixed_bytes, input_bound
from workflows.budget.ledger import Amount, Spending
from workflows.contracts import ConversationState, SubtaskRequest, SubtaskResult, SubtaskState
from workflows.mailbox.contracts import SteeringItem
from workflows.mailbox.mailbox import Mailbox
from workflows.rules.evidence import (
    doubt_below,
    ground,
    in_part,
    in_prose,
    out_of_time,
    unfinished_outcome,
    without_data,
    without_quotes,
)
from workflows.rules.repetition import Effects, is_repetitive
from workflows.rules.report_content import merge_spend
from workflows.state.agent_conversation import Conversation

_MOST_CORRECTIONS: Final = 1
_MOST_DATA_CORRECTIONS: Final = 2
_TIME_TO_ANSWER: Final = 0.2
"""The final part of an attempt's time, in which the agent must answer instead of using tools."""
_WHY: Final[Mapping[str, str]] = {
    "out_of_turns": "its turns were used up",
    "out_of_budget": "its dollars could not pay for more",
    "out_of_rounds": "its rounds were used up",
    "truncated": "its reply was cut off",
    "cancelled": "it was asked to stop",
}
"""Why the work of an agent ended without an answer."""
_MOST_UNREAD: Final = 200
"""Messages of a person that can wait for the agent's next turn; a session sends fewer."""


class Inbox:
    """A person's messages to an agent in order of arrival, and whether its running tools are interrupted."""

    def __init__(self, unread: tuple[SteeringItem, ...], read: tuple[int, ...]) -> None:
        self.unread = unread
        self.read = read
        """Numbers of the messages that the agent has read."""
        self.is_interrupted = False
        """Whether the tools of the current turn have been interrupted."""
        self._taken: tuple[int, ...] = ()
        """Numbers of the messages in the current turn."""

    def receive(self, item: SteeringItem) -> None:
        """Store a message; an item without text is an interruption."""
        if not item.text:
            self.is_interrupted = True
        elif len(self.unread) < _MOST_UNREAD:
            self.unread += (item,)

    def take(self) -> list[str]:
        items, self.unread = self.unread, ()
        self._taken = tuple(item.number for item in items)
        return [item.text for item in items]

    def begin_turn(self) -> None:
        self.is_interrupted = False

    def confirm(self) -> None:
        """Mark the taken messages as read, once the agent has replied."""
        self.read, self._taken = (*self.read, *self._taken), ()

    def withdraw(self, read: tuple[int, ...]) -> None:
        """Reset the read messages to those of an earlier time; reading the later ones had no result."""
        self.read = read


class AgentWork:
    """One attempt of an agent at a subtask."""

    def __init__(self, request: SubtaskRequest, mailbox: Mailbox, now: datetime) -> None:
        self.request = request
        self.mailbox = mailbox
        self._state = request.state or SubtaskState(
            spending=Spending.of(request.grant),
            conversation=ConversationState(notes=request.notes, opening_notes=request.notes, outgoing=request.outgoing),
            began_at=now,
            rounds_begun=0,
            messages=request.messages,
        )
        self.conversation = Conversation(request, self._state.conversation)
        self.spending = self._state.spending
        self._hand_over = ""
        """The agent to which its reply hands over the conversation."""
        self._job = ""
        """The goal of a job that its reply delegates."""
        self._forced = ""
        """Why the current turn has to answer; empty if it may use tools."""
        self.inbox = Inbox(self._state.messages, self._state.messages_read)

    def state(self) -> SubtaskState:
        inbox = {"messages": self.inbox.unread, "messages_read": self.inbox.read}
        return self._state.replace(conversation=self.conversation.state(), mailbox=self.mailbox, **inbox)

    @property
    def began_at(self) -> datetime:
        return self._state.began_at

    @property
    def rounds_begun(self) -> int:
        return self._state.rounds_begun

    def result(self, outcome: Outcome, now: datetime) -> SubtaskResult:
        """Return an outcome with its spend, notes, artifacts and the other results of the work."""
        beside = {
            "gaps": (*outcome.gaps, *self.conversation.doubts),
            "spend": self._spend,
            "artifacts": self.conversation.all_artifacts,
        }
        return SubtaskResult(
            outcome=without_quotes(outcome.replace(**beside)),
            is_private=self.conversation.has_private_text,
            outgoing=self.conversation.outgoing,
            notes=self.conversation.notes,
            messages_read=self.inbox.read,
            wasted=self.spending.wasted,
            rounds=self.rounds_begun,
            waited=self.mailbox.waited_until(now),
            overcharges=self.spending.overcharges,
            conversation=self.conversation.state() if self.request.converses else None,
            hand_over=self._hand_over,
            job=self._job,
        )

    def until(self, now: datetime) -> datetime | None:
        """Return when the attempt's time is up; waits for a larger grant or a person do not count."""
        deadline = self.request.deadline
        return None if deadline is None else self.began_at + deadline + self.mailbox.waited_until(now)

    def left(self, now: datetime) -> timedelta:
        until = self.until(now)
        return timedelta.max if until is None else until - now

    def why_last(self, number: int, now: datetime) -> str:
        """Return why the agent must answer in this round: little time left, or the last round; empty otherwise."""
        deadline = self.request.deadline
        if deadline is not None and self.left(now) < deadline * _TIME_TO_ANSWER:
            return "its time was nearly used up"
        return _WHY["out_of_rounds"] if number == self.request.max_rounds else ""

    def shortage(self, needed: Amount) -> str:
        return _WHY["out_of_turns" if self.spending.ledger.unspent.turns < needed.turns else "out_of_budget"]

    def force(self, why: str) -> None:
        """Record why the next answer is forced; agents without tools always answer."""
        self._forced = why if self.request.agent.tools else ""

    def begin_round(self, number: int) -> None:
        """Begin a round with the messages received since the previous one."""
        self._change(rounds_begun=number)
        self._forced = ""
        self.conversation.hear(self.inbox.take())

    def input_tokens(self, task: WorkTask) -> int:
        """Bound the input of the next turn, using the provider's count of the conversation if that is lower."""
        whole = input_bound(task, fixed_bytes(self.request.agent, self.request.documents))
        return self.conversation.bound(whole, task)

    def is_long(self) -> bool:
        task = self.conversation.task()
        return self.conversation.is_long(task, self.input_tokens(task))

    def is_stuck(self) -> bool:
        return is_repetitive(self.conversation.recent, self.effects)

    @property
    def effects(self) -> Effects:
        """Which of its calls may return another result when repeated."""
        agent = self.request.agent
        return Effects(agent.acting, agent.repeatable, self.request.others_act)

    def cost_of_going_on(self, task: WorkTask) -> GoingOn:
        """Estimate the cost of this turn with tools, plus the turn after it."""
        return self._costs.going_on(self.input_tokens(task))

    @property
    def _costs(self) -> TurnCosts:
        request, spending = self.request, self.spending
        model = spending.with_overcharge(request.model)
        return TurnCosts(model, request.output_caps, self.conversation.counted, spending.mean_output)

    def tell_turns(self, number: int) -> None:
        """Add to the agent's latest tool results how many turns are its own and how many it can borrow."""
        request, own = self.request, self.spending.ledger.unspent
        borrowed = self.spending.ledger.granted.beyond(request.grant)
        spare = request.spare.beyond(borrowed)
        turns, all_turns = self._turns_of(own, number), self._turns_of(own + spare, number)
        self.conversation.tell_turns(turns, all_turns - turns)

    def _turns_of(self, amount: Amount, number: int) -> int:
        left = Amount(min(self.request.max_rounds - number + 1, amount.turns), amount.usd)
        return self._costs.turns_paid_by(left, self.input_tokens(self.conversation.task()))

    def outcome_of(self, result: TurnResult) -> Outcome | None:
        """Build the outcome of an answer; None if the reply is not an answer or its data is invalid."""
        answer = result.answer_as(AgentAnswer)
        if answer is None:
            return None
        forced = [f"{self._name} had to answer without looking further: {self._forced}."] if self._forced else []
        grounded = ground(answer, self.conversation.citable, self.request.agent.name)
        grounded = in_part(grounded, [*self._state.cut, *forced])
        if not result.data_problems:
            return doubt_below(grounded, self.request.agent.confidence_threshold)
        self._change(unusable=without_data(grounded, result.data_problems))
        return None

    def keep_answer(self, outcome: Outcome, result: TurnResult) -> None:
        """Keep an answer as a fallback, and make the agent answer again with the new messages."""
        self._change(answered=outcome, answered_after=self.inbox.read, corrections=0)
        self._add_answer(result)

    def end(self, result: TurnResult) -> None:
        """Record the final reply of a conversation turn; the conversation continues in another subtask."""
        if isinstance(result.answer, ReplyAnswer):
            self._hand_over, self._job = result.answer.hand_over.strip(), result.answer.job.strip()
            self._add_answer(result)

    def _add_answer(self, result: TurnResult) -> None:
        text = result.answer.model_dump_json(exclude={"kind"}) if result.answer else ""
        self.conversation.add(Round(answer=text, provider_items=result.provider_items))

    def keep_calls(self) -> None:
        self._change(corrections=0)

    def correct(self, result: TurnResult) -> bool:
        """Make the agent correct its reply; False if its corrections are used up or it declined.

        What it said in prose is shown to it again, and becomes the outcome if no better one follows.
        """
        text, has_data = result.text if result.stop == "malformed" else "", self.request.agent.output is not None
        prose = in_prose(text, self.conversation.citable, self._name, result.problem, has_data=has_data)
        if prose and not isinstance(self._state.unusable, Failure):
            self._change(unusable=prose)
        most = _MOST_DATA_CORRECTIONS if result.data_problems else _MOST_CORRECTIONS
        if result.stop == "refused" or self._state.corrections >= most:
            return False
        cut = (f"{self._name}: a reply was cut off, and it answered in fewer words.",)
        self._change(
            corrections=self._state.corrections + 1, cut=cut if result.stop == "truncated" else self._state.cut
        )
        self.conversation.add(Round(correction=complaint(result), answer=text if prose else ""))
        return True

    def unfinished_outcome(self, reason: FailureReason, message: str, now: datetime) -> Outcome:
        """Return the best available outcome when the work ends without an answer."""
        if self._state.answered is not None:
            self.inbox.withdraw(self._state.answered_after)
            return self._state.answered
        if self._state.unusable is not None:
            return self._state.unusable
        notes, read = self.conversation.notes, self.conversation.read
        why = _WHY.get(reason, message)
        gap = f"{self._name} stopped before it could evaluate what it had read: {why}."
        if self.left(now) <= timedelta(0) and reason != "cancelled":
            return out_of_time(notes, read, gap)
        return unfinished_outcome(notes, read, reason, gap) or Failure(reason=reason, message=message)

    @property
    def _name(self) -> str:
        return f"{self.request.subtask.id} ({self.request.agent.name})"

    @property
    def _spend(self) -> Sequence[SpendLine]:
        calls = self.conversation.tool_calls
        if not calls:
            return merge_spend(self.spending.lines)
        tools = SpendLine(agent=self.request.agent.name, model="", purpose="tools", usage=Usage(tool_calls=calls))
        return merge_spend([*self.spending.lines, tools])

    def _change(self, **changes: object) -> None:
        self._state = self._state.replace(**changes)


def complaint(result: TurnResult) -> str:
    if result.data_problems:
        return f"the data of the reply is not valid: {result.data_problems}"
    match result.stop:
        case "truncated":
            return "the reply was too long and was cut off; answer in fewer words"
        case "empty":
            return "the reply was empty"
        case "refused":
            return "the model declined to answer"
        case "malformed":
            return f"the reply was not the required JSON: {result.problem}"
        case _:
            return "no more tools can be used; only the answer is expected"
