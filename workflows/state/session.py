"""The state of one session, in parts that are changed only by their own methods."""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from activities.contracts.cards import CrewCard
from activities.contracts.rounds import InputOutcome
from activities.contracts.session import SessionFacts
from activities.contracts.tool import READS_DOCUMENTS, knows_documents
from activities.turn_kinds.plan import DesignTask, PlanTask
from activities.turn_kinds.registry import Task
from chargehand.contracts import (
    Authority,
    Contract,
    LostCharges,
    Plan,
    PlannedSubtask,
    Question,
    RaisedLimits,
    SessionRequest,
    SessionState,
    SpendLine,
    Subtask,
    Usage,
    left_out,
)
from chargehand.contracts.problems import join_problems
from chargehand.listing import listing_memo
from workflows import options
from workflows.budget.ledger import Amount, Spending
from workflows.mailbox.mailbox import Mailbox
from workflows.rules.authority import authority_of
from workflows.rules.evidence import earlier_outcome
from workflows.rules.information_flow import Provenance, Reads
from workflows.rules.plan_validation import SUPERVISOR
from workflows.rules.refusal import Refused
from workflows.rules.report_content import sections_for
from workflows.rules.task_deduplication import fingerprint
from workflows.state.budget import Budget
from workflows.state.call_approvals import Approvals, Pending
from workflows.state.clock import Clock
from workflows.state.dialogue import Dialogue
from workflows.state.max_parallel import Places
from workflows.state.progress import Progress

_TITLE_CHARACTERS: Final = 80


class SupervisorState(Contract):
    """The state of a session that continues as new. It has a plan, and no child is running."""

    facts: SessionFacts
    run: str
    was_reset: bool = left_out(False)
    started_at: datetime
    deadline_at: datetime
    spending: Spending
    holds_report: bool
    """Whether the report's worst case is reserved."""
    mailbox: Mailbox = left_out(Mailbox())
    provenance: Provenance
    places: Places
    progress: Progress


class ConversationRunState(Contract):
    """A conversation that continues in a new run."""

    session: SupervisorState
    dialogue: Dialogue


class Memo:
    """The memo fields that a session last wrote, for followers of its history and for lists of sessions.

    Because lists show the memo, it contains only the beginning of each instruction, and of a tool call only the
    number of its request.
    """

    def __init__(self, goal: str) -> None:
        self._goal = goal
        self._state: SessionState | None = None
        self._plan: Plan | None = None
        self._questions: tuple[Question, ...] = ()
        self._calls: tuple[Pending, ...] = ()
        self._decisions = 0

    def changes(self, progress: Progress) -> dict[str, Any]:
        """Return the fields of the memo that have changed since the last call."""
        fields: dict[str, Any] = {}
        if progress.goal != self._goal:
            self._goal = progress.goal
            fields |= listing_memo(progress.goal)
        if progress.state != self._state:
            fields["state"] = self._state = progress.state
        if progress.plan is not None and progress.plan is not self._plan:
            self._plan = progress.plan
            fields["plan"] = [_plan_entry(subtask) for subtask in progress.plan.subtasks]
        questions = tuple(progress.questions.values())
        if questions != self._questions:
            self._questions = questions
            fields["questions"] = [question.model_dump(mode="json") for question in questions]
        calls = progress.approvals.open_calls
        if calls != self._calls:
            self._calls = calls
            fields["calls"] = _calls(calls)
        if fields and (new := progress.waits.decisions[self._decisions :]):
            self._decisions += len(new)
            fields["decisions"] = [each.model_dump(mode="json") for each in new]
        return fields


@dataclass
class Session:
    """The state that the steps of a session share."""

    run: str
    """Identifies the root session's run in the ids of its children."""
    original: SessionRequest
    facts: SessionFacts
    progress: Progress
    clock: Clock
    spending: InitVar[Spending]
    mailbox: Mailbox
    was_reset: bool
    """Whether an operator has reset this session, so that unknown children may exist."""
    dialogue: Dialogue | None = None
    """In a conversation, its transcript and waiting messages."""
    request: SessionRequest = field(init=False)
    """The request with the crew's terms applied, and the documents of the session that it follows."""
    budget: Budget = field(init=False)
    places: Places = field(init=False)
    provenance: Provenance = field(init=False)
    memo: Memo = field(init=False)

    def __post_init__(self, spending: Spending) -> None:
        """Apply the crew's terms to the request, and build the parts."""
        original, facts, earlier = self.original, self.facts, self.facts.earlier
        documents = (*original.documents, *(earlier.documents if earlier else ()))
        self.request = original.replace(**dict(facts.terms), documents=documents)
        self.memo = Memo(original.goal)
        self.budget = Budget(facts, self.request, self.progress, spending)
        self.places = Places(total=1 if original.delegation else self.request.limits.max_parallel)
        above = original.delegation.goal_reads if original.delegation else ()
        self.provenance = Provenance(inherited=frozenset((*above, *(earlier.reads if earlier else ()))))

    @property
    def id(self) -> str:
        return self.progress.session

    @property
    def approvals(self) -> Approvals:
        return self.progress.approvals

    @property
    def authority(self) -> Authority:
        above = self.request.delegation
        return authority_of(self.facts.crew, above.authority if above else None)

    def hides_documents(self, task: Task) -> bool:
        """Whether a supervisor turn must not see document contents, because its output can be sent out.

        A plan that a person approves is read before it takes effect. A designed agent may reach out.
        """
        is_read = isinstance(task, PlanTask) and task.is_approved_by_person
        stays = not isinstance(task, DesignTask) and knows_documents(self.authority.capabilities)
        return not (is_read or stays or self.request.vouches_for_documents)

    @property
    def reads(self) -> Reads:
        """Kinds of text that the session is based on: what its agents read, and the document catalog if shown."""
        is_told = bool(self.request.documents) and knows_documents(self.authority.capabilities)
        return self.provenance.everything.union(READS_DOCUMENTS if is_told else ())

    @property
    def said(self) -> tuple[str, ...]:
        """The user's own words; in a nested session, those of the root session."""
        above, earlier = self.request.delegation, self.facts.earlier
        if above is not None:
            return above.said
        goals = (earlier.goal, *(each.goal for each in earlier.thread)) if earlier else ()
        return (self.request.goal, *self.request.criteria, *goals, *self.progress.steering.answers)

    @property
    def said_since(self) -> tuple[str, ...] | None:
        """What the user has said since the request; None if the beginning of that is no longer stored."""
        if self.dialogue is not None:
            return self.dialogue.said
        steering = self.progress.steering
        return (*self.request.criteria, *steering.answers, *(entry.item.text for entry in steering.told))

    @property
    def may_act(self) -> bool:
        """Whether any agent of this session or one above it has side effects."""
        above = self.request.delegation
        return (above is not None and above.others_act) or any(agent.acting for agent in self.facts.crew.agents)

    @property
    def thread(self) -> str:
        """Id of the first session in the chain of follow-ups up to this one."""
        return self.facts.earlier.thread[0].session if self.facts.earlier else self.id

    @property
    def earlier(self) -> tuple[InputOutcome, ...]:
        """The report of the session that this one follows, as an input; empty if it follows none."""
        return (earlier_outcome(self.facts.earlier),) if self.facts.earlier else ()

    @property
    def root(self) -> str:
        return self.request.delegation.session if self.request.delegation else self.id

    @property
    def depth(self) -> int:
        return self.request.delegation.depth if self.request.delegation else 0

    @property
    def ancestors(self) -> tuple[str, ...]:
        """Fingerprints of this session's work and of all work above it."""
        above = self.request.delegation.ancestors if self.request.delegation else ()
        return (*above, fingerprint(SUPERVISOR, self.request.goal))

    @property
    def plan_left(self) -> Plan | None:
        """The plan, if a person has added subtasks that have not begun."""
        return self.progress.plan if self.progress.waiting and not self.clock.work_is_over else None

    @property
    def may_ask(self) -> bool:
        """Whether people can be asked, which only the root session is allowed to do."""
        return self.request.questions == "allowed" and self.request.delegation is None

    @property
    def may_nest(self) -> bool:
        """Whether a subtask can be a nested session: it and its subtasks must fit within the depth limit."""
        return self.depth + 2 <= self.request.limits.max_depth

    @property
    def may_grow(self) -> bool:
        """Whether the limits can be raised: by a nested session's parent, or by a person for a session that pauses."""
        return self.request.delegation is not None or self.request.limits.on_limit == "pause"

    @property
    def report_words(self) -> int:
        plan = self.progress.plan
        return self.request.length_words or (plan.length_words if plan else None) or 0

    @property
    def is_long_report(self) -> bool:
        return sections_for(self.report_words) > 0

    def use_crew(self, crew: CrewCard) -> None:
        self.facts = self.facts.replace(crew=crew)
        self.budget.price(self.facts)

    def stop_if_overcharged(self) -> None:
        """Stop starting work once providers have charged more than the budget, unless a person can raise it.

        A nested session asks its parent instead, before its next turn.
        """
        excess = self.budget.ledger.spent.usd - self.budget.ledger.granted.usd
        if excess > 0 and self.request.delegation is None and self.request.limits.on_limit == "finish":
            self.clock.stop_overcharged()
            charged = f"${excess:.4f} more than the budget of ${self.budget.ledger.granted.usd:.2f}"
            self.progress.state_overrun(f"{charged}; nothing more was started.")

    def check_raised(self, raised: RaisedLimits, execution_timeout: timedelta | None) -> None:
        """Refuse limits that are not higher, above the ceiling, or beyond the workflow's execution timeout."""
        if self.request.delegation is not None:
            raise Refused("A nested session gets its limits from its parent; raise them at the root session.")
        ceilings = self.facts.ceilings
        present = {
            "max_turns": self.budget.ledger.granted.turns,
            "budget_usd": self.budget.ledger.granted.usd,
            "deadline": self.clock.time,
        }
        problems: list[str] = []
        for name, now in present.items():
            wanted, ceiling = getattr(raised, name), getattr(ceilings, name)
            if wanted is not None and wanted <= now:
                problems.append(f"{name}: {wanted} is not more than the present {now}")
            elif wanted is not None and wanted > ceiling:
                problems.append(f"{name}: {wanted} is above this installation's ceiling of {ceiling}")
        most = None if execution_timeout is None else execution_timeout - options.REPORT_TIME
        if raised.deadline is not None and most is not None and raised.deadline > most:
            end = f"the {execution_timeout} after which the server ends this session"
            problems.append(f"deadline: {raised.deadline} is beyond {end}")
        if problems:
            raise Refused(join_problems(problems))

    def raise_limits(self, raised: RaisedLimits) -> None:
        ledger = self.budget.ledger
        ledger.grant(Amount(raised.max_turns or 0, raised.budget_usd or Decimal(0)).beyond(ledger.granted))
        if raised.deadline is not None:
            self.clock.extend(raised.deadline)

    def book_charges(self, lost: LostCharges) -> None:
        """Book charges from a lost history, each once, even above the budget.

        Raises:
            Refused: the report is being written, or this is a nested session.
        """
        if self.progress.is_reporting:
            raise Refused("The report may be added up already, so the charge is in no books.")
        if self.request.delegation is not None:
            raise Refused("A nested session has its books from its parent; book charges at the root session.")
        new = {charge: usd for charge, usd in lost.charges.items() if charge not in self.progress.booked}
        self.progress.note_booked(new)
        cost = sum(new.values(), Decimal(0))
        above = max(cost - self.budget.unspent.usd, Decimal(0))
        usage = Usage(turns=len(new), cost_usd=cost, charged_above_reservation_usd=above)
        self.budget.spending.book(SpendLine(agent=SUPERVISOR, model="", purpose="lost", usage=usage))
        self.stop_if_overcharged()

    def resume(self, before: SupervisorState) -> None:
        self.progress.resume(before.progress)
        self.provenance, self.places = before.provenance, before.places

    def state(self) -> SupervisorState:
        return SupervisorState(
            facts=self.facts,
            run=self.run,
            was_reset=self.was_reset,
            started_at=self.clock.started_at,
            deadline_at=self.clock.deadline_at,
            spending=self.budget.spending,
            holds_report=self.budget.report_reserve.is_held,
            mailbox=self.mailbox,
            provenance=self.provenance,
            places=self.places,
            progress=self.progress,
        )


def _plan_entry(subtask: Subtask) -> dict[str, Any]:
    title = " ".join(subtask.instruction.split())[:_TITLE_CHARACTERS]
    return subtask.make(PlannedSubtask, title=title).model_dump(mode="json")


def _calls(calls: Sequence[Pending]) -> list[dict[str, Any]]:
    """Describe calls by the numbers of their requests, which a follower finds in the history with their arguments."""
    return [
        call.shown.model_dump(mode="json", include={"id", "hash", "workflow_id", "open_until"})
        | {"number": call.number}
        for call in calls
    ]
