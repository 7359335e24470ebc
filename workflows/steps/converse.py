"""The loop of a conversation: wait for a message, and let the agent with the floor answer it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import ROUND_UP, Decimal
from typing import Final

from temporalio import workflow

from chargehand.contracts import Escalation, Failure, Outcome, Plan, Reply, SpendLine, Subtask
from chargehand.contracts.plan import LONGEST_INSTRUCTION
from chargehand.state_words import EndReason, reason_words
from workflows import options
from workflows.contracts import ConversationStartRequest, QueuedMessage, SubtaskResult
from workflows.rules.citations import inert_links
from workflows.rules.information_flow import capabilities_of, is_leak
from workflows.rules.inputs import fit_inputs
from workflows.rules.plan_validation import SUPERVISOR
from workflows.rules.report_content import input_for, reason_of, usage_of
from workflows.run_end import is_continue_as_new_due, raise_if_cancelled
from workflows.state.dialogue import Dialogue
from workflows.state.session import ConversationRunState, Session
from workflows.steps.attempts import Try, attempt_once, reserve_in_time
from workflows.steps.decisions import steer
from workflows.steps.effects import announce_reply, continue_as_new, enter, list_state
from workflows.steps.open import Place

_KEPT_SUBTASKS: Final = 20
"""Maximum messages and jobs in the status."""
_NOTHING_SAID: Final = {"content": "", "findings": (), "sources": (), "data": None, "issues": (), "artifacts": ()}
_TOO_LITTLE: Final = "The limits of the conversation leave "


@dataclass
class Talk:
    """An open conversation."""

    request: ConversationStartRequest
    session: Session
    dialogue: Dialogue
    place: Place
    jobs: dict[str, "asyncio.Task[None]"] = field(default_factory=dict[str, "asyncio.Task[None]"])
    """Running jobs by subtask id."""

    def touch(self) -> None:
        """Restart the idle timer."""
        self.session.clock.reach(workflow.now() + self.request.idle)

    def show_title(self) -> None:
        """Tell a conversation without a goal from others, in lists and its status, by its first message."""
        if not self.request.goal and self.dialogue.title:
            self.session.progress.set_goal(self.dialogue.title)

    def next_request(self) -> ConversationStartRequest:
        """Return the request of the conversation's next run."""
        state = ConversationRunState(session=self.session.state(), dialogue=self.dialogue)
        return self.request.replace(state=state.model_dump_json())

    def begin_job(self, job: Subtask) -> None:
        self.jobs[job.id] = asyncio.create_task(_run_job(self, job))

    def end_job(self, job: Subtask, outcome: Outcome) -> None:
        """Make the agent with the floor report on a finished job."""
        del self.jobs[job.id]
        self.dialogue.end_job(job.id, outcome, self.session.provenance.of_attempts(job.id), workflow.now())


async def converse(talk: Talk) -> EndReason:
    """Answer messages in order until a person closes the conversation, or time or limits end it."""
    talk.show_title()
    while (end := await _wait_for_message(talk)) is None:
        end = await _answer(talk, talk.dialogue.take())
        if end is not None:
            break
    talk.session.clock.stop()
    await _stop_jobs(talk)
    return end


async def interrupt(talk: Talk, number: int) -> None:
    """Interrupt the tool calls of the working agent, and pass it a message after those already waiting."""
    progress, dialogue = talk.session.progress, talk.dialogue
    subtask = dialogue.working_on
    while subtask in progress.steering.running:
        text = dialogue.tell_next(number, progress.steering.next_number)
        await steer(talk.session.mailbox, progress, text, subtask)
        if not text:
            break
    for child in [record.workflow_id for record in progress.records if record.id == subtask and record.workflow_id]:
        talk.session.approvals.abandon(child, "the user has interrupted it")


async def _wait_for_message(talk: Talk) -> EndReason | None:
    """Wait for the next message; return why the conversation ends if it ends instead."""
    session, dialogue = talk.session, talk.dialogue
    while dialogue.is_closing or not dialogue.has_message:
        if dialogue.is_closing:
            return "closed"
        if session.clock.is_overcharged:
            return "overcharged"
        left = session.clock.deadline_at - workflow.now()
        if not talk.jobs and left <= timedelta(0):
            return "idle"
        if not talk.jobs and is_continue_as_new_due():
            await continue_as_new(session, lambda: dialogue.has_message or dialogue.is_closing, talk.next_request)
            continue
        if session.progress.state != "awaiting_message":
            enter(session, "awaiting_message")
            list_state(session)
        running = len(talk.jobs)
        await talk.place.idle(is_idle=not running)
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda before=running: dialogue.has_message or dialogue.is_closing or len(talk.jobs) != before,
                timeout=None if talk.jobs else left,
                timeout_summary="until the conversation ends, idle",
            )
    return None


async def _answer(talk: Talk, message: QueuedMessage) -> EndReason | None:
    """Let the agent answer a message, or those it hands over to; return why the conversation ends, if it does."""
    session, dialogue, left = talk.session, talk.dialogue, talk.request.limits.message_usd
    held, texts, gaps, heard, spend = list[str](), list[str](), list[str](), [message], list[SpendLine]()
    talk.touch()
    talk.show_title()
    await talk.place.idle(is_idle=False)
    enter(session, "executing")
    list_state(session)
    while True:
        held.append(dialogue.floor)
        ended = await _attempt(talk, message, left)
        raise_if_cancelled()  # the wait for a child absorbs the cancellation and returns the child's results
        outcome = ended.outcome
        spend += outcome.spend
        left = left and max(left - usage_of(outcome.spend).cost_usd, Decimal(0))
        heard += dialogue.heard(ended.messages_read)
        if not ended.hand_over:
            break
        problem = _problem_of(talk, ended.hand_over, held, left)
        if problem:
            gaps.append(f"Not handed over to another agent: {problem}.")
            break
        texts += [outcome.content] if outcome.content else []
        note = outcome.content or str(getattr(outcome, "message", ""))
        dialogue.give_floor(ended.hand_over, note, workflow.now())
    if ended.job:
        gaps += _begin_job(talk, ended.job)
    reply = _reply(talk, outcome.replace(spend=tuple(spend)), heard, texts, gaps)
    session.stop_if_overcharged()
    talk.touch()
    if isinstance(outcome, Failure) and outcome.message.startswith(_TOO_LITTLE):
        return "out_of_turns" if outcome.reason == "out_of_turns" else "out_of_budget"
    if not (dialogue.has_message or dialogue.is_closing or session.clock.is_overcharged):
        await announce_reply(session, reply.number, reply.text)
    return None


async def _attempt(talk: Talk, message: QueuedMessage, most_usd: Decimal | None) -> SubtaskResult:
    """Let the agent with the floor work on a message in a child workflow, if the budget allows."""
    session, dialogue = talk.session, talk.dialogue
    title = message.text[:LONGEST_INSTRUCTION]
    subtask = Subtask(
        id=dialogue.begin_attempt(), agent=dialogue.floor, instruction=title, depends_on=dialogue.known_jobs
    )
    _plan(talk, subtask)
    problem = _unpaid(talk, dialogue.floor, most_usd)
    reservation = None if problem else await reserve_in_time(session, subtask, most_usd=most_usd)
    if reservation is None:
        problem = problem or _too_little(session, subtask)
        session.progress.end(subtask.id, problem, workflow.now())
        return SubtaskResult(outcome=problem)
    state = dialogue.opening(message, reservation.amount, workflow.now())
    ended = await attempt_once(session, Try(subtask), reservation, state=state)
    reads = session.provenance.of_attempts(subtask.id)
    if ended.conversation is not None and not ended.conversation.is_private:
        reads -= {"reads_private"}  # it may have read some
    dialogue.end_attempt(ended, reads)
    # The transcript contains the rest.
    _settle(session, subtask, ended.outcome, ended.outcome.replace(**_NOTHING_SAID))
    session.progress.add_gaps(ended.conversation.doubts if ended.conversation else ())
    return ended


def _plan(talk: Talk, subtask: Subtask) -> None:
    """Add a subtask to the plan, keeping its latest and its running subtasks."""
    session, dialogue = talk.session, talk.dialogue
    before, job_ids = session.progress.subtasks, {*talk.jobs, *dialogue.known_jobs}
    latest = before[-_KEPT_SUBTASKS:]
    subtasks = (*(each for each in before if each.id in job_ids and each not in latest), *latest, subtask)
    session.progress.adopt(Plan(subtasks=subtasks))
    session.progress.forget_others()
    session.provenance.record_instructions([subtask.id], dialogue.reads)


def _settle(session: Session, subtask: Subtask, outcome: Outcome, kept: Outcome) -> None:
    """Book a subtask and keep only the needed part of its outcome, since later runs carry all outcomes."""
    session.budget.spending.include(outcome.spend)
    session.progress.end(subtask.id, kept, workflow.now())
    session.progress.steering.forget(subtask.id)


def _too_little(session: Session, subtask: Subtask) -> Failure:
    """State which limit leaves too little to start a subtask."""
    left, least, agent = session.budget.unspent, session.budget.least_start(subtask), subtask.agent
    turns = "1 turn" if left.turns == 1 else f"{left.turns} turns"
    words = f"{turns} and ${left.usd:f}; {agent} needs up to {least.turns} and ${_cents(least.usd)}."
    return Failure(reason="out_of_budget" if left.turns >= least.turns else "out_of_turns", message=_TOO_LITTLE + words)


def _cents(usd: Decimal) -> Decimal:
    return usd.quantize(Decimal("0.01"), rounding=ROUND_UP)


def _unpaid(talk: Talk, agent: str, most_usd: Decimal | None) -> Failure | None:
    """Explain that the limit per message does not cover an agent's minimum needs, if so."""
    least = talk.session.budget.least_grant(agent).usd
    if most_usd is None or most_usd >= least:
        return None
    need = f"{agent} needs up to ${_cents(least)} to reply"
    return Failure(
        reason="out_of_budget", message=f"{need}, and limits.message_usd leaves ${most_usd} for this message."
    )


def _problem_of(talk: Talk, agent: str, held: Sequence[str], left: Decimal | None) -> str:
    """Explain why an agent cannot get the floor; empty if it can."""
    session = talk.session
    if session.facts.crew.agent(agent) is None:
        return "there is no such agent"
    if agent in held:
        return "it had the floor for this message already"
    if is_leak(capabilities_of(agent, session.facts.crew), talk.dialogue.reads):
        return "it reaches out, and the conversation rests on private text"
    if unpaid := _unpaid(talk, agent, left):
        return unpaid.message.rstrip(".")
    return ""


def _begin_job(talk: Talk, goal: str) -> list[str]:
    """Start a nested session alongside the conversation; return why not, if it cannot start."""
    session = talk.session
    if not session.may_nest or session.request.approval == "plan":
        return ["The job was not begun: this conversation may not delegate."]
    places, at_work = session.places, 1 + len(talk.jobs)
    if places.free(at_work) < 1:
        return [f"The job was not begun: {len(talk.jobs)} are running, and no more agents may be at work."]
    places.offer((places.free(at_work) - 1) // 2)
    job = Subtask(id=talk.dialogue.begin_job(), agent=SUPERVISOR, instruction=goal[:LONGEST_INSTRUCTION])
    _plan(talk, job)
    talk.begin_job(job)
    return []


async def _run_job(talk: Talk, job: Subtask) -> None:
    session = talk.session
    reservation = await reserve_in_time(session, job, sharers=2)  # half is left for messages in the meantime
    outcome: Outcome = _too_little(session, job)
    if reservation is not None:
        outcome = (await attempt_once(session, Try(job), reservation)).outcome
    [fitting] = fit_inputs([input_for(job, outcome)])
    short_outcome = fitting.outcome.replace(spend=outcome.spend)
    _settle(session, job, outcome, short_outcome)
    talk.end_job(job, outcome)


async def _stop_jobs(talk: Talk) -> None:
    for task in talk.jobs.values():
        task.cancel()
    if talk.jobs:
        await workflow.wait(talk.jobs.values(), timeout=options.STOP_TIMEOUT.total_seconds())


def _reply(
    talk: Talk, outcome: Outcome, heard: Sequence[QueuedMessage], said: Sequence[str], gaps: Sequence[str]
) -> Reply:
    text = outcome.content
    if not text.strip() and isinstance(outcome, Failure | Escalation):
        text = f"This could not be answered: {outcome.message or reason_words(outcome.reason)}"
    elif not (text.strip() or said):
        text = " ".join(["The agent replied without a word.", *gaps])
    reply = outcome.make(
        Reply,
        number=0,
        agent=talk.dialogue.floor,
        text=inert_links("\n\n".join([*said, text]), outcome.sources),
        at=workflow.now(),
        reason=reason_of(outcome),
        gaps=(*outcome.gaps, *gaps),
        usage=usage_of(outcome.spend),
    )
    return talk.dialogue.reply(reply, heard)
