"""The recovery table: what is tried next when an attempt at a subtask has ended, and what a lost input means.

`docs/recovery.md` is written from this table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, get_args

from chargehand.contracts import Escalation, Failure, FailureReason, Outcome, Partial, Subtask, Success, Tier
from workflows.rules.report_content import USABLE


@dataclass(frozen=True)
class Attempts:
    """What was tried at one subtask so far."""

    made: int = 1
    """Attempts that have ended; unless the last one was accepted, all of them badly."""
    agents: tuple[str, ...] = ()
    """Agents that tried, in order."""
    refined: int = 0
    """Refinements asked for, those that were not worth while included."""
    raised: int = 0
    """Attempts with a stronger tier."""
    split: bool = False
    """Whether it became a session of its own."""
    asked: bool = False
    """Whether a person was asked, whatever came of it."""
    judged: bool = False
    """Whether a judge decided between its answers."""

    def after(self, action: "Action") -> "Attempts":
        """Note that an action was taken, even if it led to no other attempt."""
        noted = self
        match action:
            case Refine():
                noted = replace(self, refined=self.refined + 1)
            case UseFallback(agent):
                noted = replace(self, agents=(*self.agents, agent))
            case UseStronger():
                noted = replace(self, raised=self.raised + 1)
            case JudgeBetween():
                noted = replace(self, judged=True)
            case Split():
                noted = replace(self, split=True)
            case AskHuman():
                noted = replace(self, asked=True)
            case Accept() | GiveUp():
                pass
        return noted

    def again(self) -> "Attempts":
        """Note that another attempt has ended."""
        return replace(self, made=self.made + 1)


@dataclass(frozen=True)
class Means:
    """What can be done for one subtask now."""

    max_attempts: int
    """Bad ends that open the breaker."""
    fallback: str | None = None
    """Agent that the crew names for this case and that has not tried yet."""
    stronger: Tier | None = None
    """Next tier above the agent's own."""
    may_nest: bool = False
    """Whether it can become a session of its own."""
    may_ask: bool = False
    """Whether the session lets a person be asked."""
    can_pay: bool = True
    """Whether the ledger covers another attempt, or a judge."""


@dataclass(frozen=True)
class Accept:
    """Take the outcome as it is; see `accepted`."""


@dataclass(frozen=True)
class GiveUp:
    """Try nothing more; see `best_of`."""

    why: str
    """For people."""


@dataclass(frozen=True)
class Refine:
    """Try again with an instruction that is written anew, the error in hand."""


@dataclass(frozen=True)
class UseFallback:
    """Try again with another agent."""

    agent: str


@dataclass(frozen=True)
class UseStronger:
    """Try again with the same agent on a stronger tier."""

    tier: Tier


@dataclass(frozen=True)
class JudgeBetween:
    """Have a judge decide between the first answer and the stronger tier's."""


@dataclass(frozen=True)
class Split:
    """Try again as a session of its own."""


@dataclass(frozen=True)
class AskHuman:
    """Ask a person, and try again with the answer."""


Action = Accept | GiveUp | Refine | UseFallback | UseStronger | JudgeBetween | Split | AskHuman


@dataclass(frozen=True)
class Step:
    """One entry of the table: an action, and when it is open."""

    words: str
    """What is done, for people."""
    when: str
    """When, for people; empty if always."""
    action: Callable[[Outcome, Attempts, Means], Action | None]
    """The action if it is open."""
    tries_again: bool = True
    """Whether it leads to another attempt; none is made once the breaker is open."""
    pays: bool = True
    """Whether it costs turns; nothing that does is done when the ledger cannot pay."""


def _refine(_: Outcome, attempts: Attempts, __: Means) -> Action | None:
    return None if attempts.refined or attempts.split else Refine()


def _fallback(_: Outcome, attempts: Attempts, means: Means) -> Action | None:
    if means.fallback is None or means.fallback in attempts.agents or attempts.split:
        return None
    return UseFallback(means.fallback)


def _stronger(_: Outcome, attempts: Attempts, means: Means) -> Action | None:
    return None if means.stronger is None or attempts.raised else UseStronger(means.stronger)


def _judge(outcome: Outcome, attempts: Attempts, _: Means) -> Action | None:
    return JudgeBetween() if attempts.raised and not attempts.judged and has_answer(outcome) else None


def _split(_: Outcome, attempts: Attempts, means: Means) -> Action | None:
    return Split() if means.may_nest and not attempts.split else None


def _ask(_: Outcome, attempts: Attempts, means: Means) -> Action | None:
    return AskHuman() if means.may_ask and not attempts.asked else None


def _accept(outcome: Outcome, _: Attempts, __: Means) -> Action | None:
    return Accept() if outcome.kind in USABLE or has_answer(outcome) else None


REFINE: Final = Step("write a better instruction, the error in hand", "once; not after a split", _refine)
FALLBACK: Final = Step(
    "use the fallback agent", "if the crew names one that has not tried; not after a split", _fallback
)
STRONGER: Final = Step("use a stronger tier", "once, if there is one", _stronger)
JUDGE: Final = Step("let a judge decide between the two answers", "once both are there", _judge, tries_again=False)
SPLIT: Final = Step("split it: a session of its own", "once, within the depth limit", _split)
ASK: Final = Step("ask a person", "once, if the session allows it", _ask)
ACCEPT: Final = Step("accept it", "", _accept, tries_again=False, pays=False)
ACCEPT_ANSWER: Final = replace(ACCEPT, words="accept what there is, as partial", when="if there is an answer")

HOPELESS: Final[tuple[FailureReason, ...]] = (
    "duplicate",
    "skipped",
    "cancelled",
    "deadline",
    "terminated",
    "out_of_turns",
    "out_of_budget",
    "provider_refused",
    "provider_unavailable",
)
"""Failures that another attempt would only meet again; a provider's errors were retried below already."""

_WITH_ANSWER: Final = frozenset({"confidence_too_low", "timeout", "too_big"})
"""Escalations whose content answers the instruction, if only in part."""

TABLE: Final[Mapping[str, tuple[Step, ...]]] = {
    "success": (ACCEPT,),
    "partial": (ACCEPT,),
    **{f"failure {reason}": (REFINE, FALLBACK) for reason in get_args(FailureReason) if reason not in HOPELESS},
    **{f"failure {reason}": () for reason in HOPELESS},
    "escalation ambiguous_input": (ASK, REFINE),
    "escalation out_of_scope": (FALLBACK,),
    "escalation confidence_too_low": (STRONGER, JUDGE, ACCEPT_ANSWER),
    "escalation timeout": (SPLIT,),
    "escalation too_big": (SPLIT,),
}
"""What is tried in turn, by how an attempt ended. When nothing is open, the subtask is given up."""


def next_action(outcome: Outcome, attempts: Attempts, means: Means) -> Action:
    """Decide what happens after an attempt; `outcome` is that of the latest one."""
    for step in TABLE[row_of(outcome)]:
        barred = (step.tries_again and attempts.made >= means.max_attempts) or (step.pays and not means.can_pay)
        action = None if barred else step.action(outcome, attempts, means)
        if action is not None:
            return action
    return GiveUp(_why(outcome, attempts, means))


def is_for_want_of_means(action: Action, outcome: Outcome, attempts: Attempts, means: Means) -> bool:
    """Whether another action than this would be open if the ledger covered it."""
    return not means.can_pay and next_action(outcome, attempts, replace(means, can_pay=True)) != action


def row_of(outcome: Outcome) -> str:
    """Name the table's row for an outcome."""
    return f"{outcome.kind} {outcome.reason}" if isinstance(outcome, Failure | Escalation) else outcome.kind


def has_answer(outcome: Outcome) -> bool:
    """Whether an agent handed an answer back, however unsure of it or unfinished; a question back is none."""
    if isinstance(outcome, Failure) or (isinstance(outcome, Escalation) and outcome.reason not in _WITH_ANSWER):
        return False
    return bool(outcome.content or outcome.findings)


def question_of(outcome: Outcome) -> str:
    """Name what an agent wants decided."""
    asked = outcome.message if isinstance(outcome, Escalation) else ""
    return asked or "The instruction can be read in several ways; which one is meant?"


def accepted(outcome: Outcome) -> Outcome:
    """Make an outcome that others can build on of one that is accepted: an escalation's answer becomes partial."""
    if not isinstance(outcome, Escalation) or not has_answer(outcome):
        return outcome
    doubt = f"The agent handed this back ({outcome.reason.replace('_', ' ')}). {outcome.message}".rstrip()
    return Partial(
        content=outcome.content,
        findings=outcome.findings,
        sources=outcome.sources,
        confidence=outcome.confidence,
        gaps=(*outcome.gaps, doubt),
        spend=outcome.spend,
        reason=outcome.reason,
    )


def best_of(outcomes: Sequence[Outcome]) -> Outcome:
    """Choose what a subtask that is given up hands on: its surest answer, or else how its last attempt ended."""
    answers = [outcome for outcome in outcomes if has_answer(outcome)]
    if not answers:
        return outcomes[-1]
    surest = max(reversed(answers), key=lambda outcome: (outcome.kind in USABLE, outcome.confidence))
    return accepted(surest)


def skipped(subtask: Subtask, outcomes: Mapping[str, Outcome]) -> Failure | None:
    """Say why a subtask whose inputs have ended makes no sense any more; None if it runs, gaps stated."""
    lost = [needed for needed in subtask.required if outcomes[needed].kind not in USABLE]
    if not lost:
        return None
    return Failure(reason="skipped", message=f"It needs {', '.join(lost)}, which came to nothing.")


def _why(outcome: Outcome, attempts: Attempts, means: Means) -> str:
    if isinstance(outcome, Success | Partial):
        raise TypeError(f"a {outcome.kind} is accepted, never given up")
    if isinstance(outcome, Failure) and outcome.reason in HOPELESS:
        return f"Another attempt would not help ({outcome.reason})."
    if attempts.made >= means.max_attempts:
        ends = "bad end" if attempts.made == 1 else "bad ends"
        return f"Its breaker is open after {attempts.made} {ends}, the last one {outcome.reason}."
    if not means.can_pay:
        return f"The limits do not pay for another attempt after {outcome.reason}."
    return f"Nothing is left to try after {outcome.reason}."
