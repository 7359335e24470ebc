"""The recovery table: what is tried next when an attempt at a subtask has ended, and what a failed input means.

`docs/recovery.md` documents this table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, get_args

from chargehand.contracts import Escalation, Failure, FailureReason, Outcome, Partial, Success, Tier
from workflows.rules.graph import USABLE


@dataclass(frozen=True)
class Attempts:
    """What was tried for one subtask so far."""

    made: int = 1
    """Attempts that have ended."""
    agents: tuple[str, ...] = ()
    """Agents that made them, in order."""
    refined: int = 0
    """Refinements that were requested, even if the model expected nothing from them."""
    upgraded: int = 0
    """Attempts with a stronger tier."""
    split: bool = False
    """Whether it became a nested session."""
    asked: bool = False
    """Whether a person was asked, even without an answer."""
    judged: bool = False
    """Whether a judge decided between its answers."""

    def after(self, action: "Action") -> "Attempts":
        """Note an action, even if it leads to no other attempt."""
        noted = self
        match action:
            case Refine():
                noted = replace(self, refined=self.refined + 1)
            case UseFallback(agent):
                noted = replace(self, agents=(*self.agents, agent))
            case UseStronger():
                noted = replace(self, upgraded=self.upgraded + 1)
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
    """Failed attempts after which the subtask is given up."""
    fallback: str | None = None
    """The crew's fallback agent, if it has made no attempt yet."""
    stronger: Tier | None = None
    """Next tier above the agent's own."""
    may_nest: bool = False
    """Whether it can become a nested session."""
    may_ask: bool = False
    """Whether the session lets a person be asked."""
    can_pay: bool = True
    """Whether the ledger covers another attempt, or a judge."""


@dataclass(frozen=True)
class Accept:
    """Accept the outcome; see `accepted`."""


@dataclass(frozen=True)
class GiveUp:
    """Make no other attempt; see `best_of`."""

    why: str
    """For people."""


@dataclass(frozen=True)
class Refine:
    """Try again with an instruction that is rewritten in view of the error."""


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
    """Have a judge decide between the first answer and that of the stronger tier."""


@dataclass(frozen=True)
class Split:
    """Try again as a nested session."""


@dataclass(frozen=True)
class AskHuman:
    """Ask a person, and try again with the answer."""


Action = Accept | GiveUp | Refine | UseFallback | UseStronger | JudgeBetween | Split | AskHuman


@dataclass(frozen=True)
class Step:
    """One entry of the table: an action, and when it is available."""

    words: str
    """The action, for people."""
    when: str
    """When it is available, for people; empty if always."""
    action: Callable[[Outcome, Attempts, Means], Action | None]
    """Returns the action if it is available."""
    tries_again: bool = True
    """Whether it leads to another attempt, which `max_attempts` limits."""
    pays: bool = True
    """Whether it costs turns, which the ledger has to cover."""


def _refine(_: Outcome, attempts: Attempts, __: Means) -> Action | None:
    return None if attempts.refined or attempts.split else Refine()


def _fallback(_: Outcome, attempts: Attempts, means: Means) -> Action | None:
    if means.fallback is None or means.fallback in attempts.agents or attempts.split:
        return None
    return UseFallback(means.fallback)


def _stronger(_: Outcome, attempts: Attempts, means: Means) -> Action | None:
    return None if means.stronger is None or attempts.upgraded else UseStronger(means.stronger)


def _judge(outcome: Outcome, attempts: Attempts, _: Means) -> Action | None:
    return JudgeBetween() if attempts.upgraded and not attempts.judged and has_answer(outcome) else None


def _split(_: Outcome, attempts: Attempts, means: Means) -> Action | None:
    return Split() if means.may_nest and not attempts.split else None


def _ask(_: Outcome, attempts: Attempts, means: Means) -> Action | None:
    return AskHuman() if means.may_ask and not attempts.asked else None


def _accept(outcome: Outcome, _: Attempts, __: Means) -> Action | None:
    return Accept() if outcome.kind in USABLE or has_answer(outcome) else None


REFINE: Final = Step("rewrite the instruction in view of the error", "once; not after a split", _refine)
FALLBACK: Final = Step("use the fallback agent", "if there is one that has not tried; not after a split", _fallback)
STRONGER: Final = Step("use a stronger tier", "once, if there is one", _stronger)
JUDGE: Final = Step("have a judge decide between the two answers", "once there are two", _judge, tries_again=False)
SPLIT: Final = Step("split it into a nested session", "once, within the depth limit", _split)
ASK: Final = Step("ask a person", "once, if the session allows it", _ask)
ACCEPT: Final = Step("accept it", "", _accept, tries_again=False, pays=False)
ACCEPT_ANSWER: Final = replace(ACCEPT, words="accept the answer as partial", when="if there is one")

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
"""Failures that another attempt would repeat; Temporal has retried a provider's errors already."""

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
"""What is tried in turn, by how an attempt ended. When nothing is available, the subtask is given up."""


def next_action(outcome: Outcome, attempts: Attempts, means: Means) -> Action:
    """Decide what happens after an attempt; `outcome` is that of the latest one."""
    for step in TABLE[row_of(outcome)]:
        is_barred = (step.tries_again and attempts.made >= means.max_attempts) or (step.pays and not means.can_pay)
        action = None if is_barred else step.action(outcome, attempts, means)
        if action is not None:
            return action
    return GiveUp(_why(outcome, attempts, means))


def lacks_budget(action: Action, outcome: Outcome, attempts: Attempts, means: Means) -> bool:
    """Whether another action than this would be available if the ledger covered it."""
    return not means.can_pay and next_action(outcome, attempts, replace(means, can_pay=True)) != action


def row_of(outcome: Outcome) -> str:
    """Return the table's row for an outcome."""
    return f"{outcome.kind} {outcome.reason}" if isinstance(outcome, Failure | Escalation) else outcome.kind


def has_answer(outcome: Outcome) -> bool:
    """Whether an outcome holds an answer, even an unsure or unfinished one; a counter-question is no answer."""
    if isinstance(outcome, Failure) or (isinstance(outcome, Escalation) and outcome.reason not in _WITH_ANSWER):
        return False
    return bool(outcome.content or outcome.findings)


def question_of(outcome: Outcome) -> str:
    """Return the question that an agent wants answered."""
    question = outcome.message if isinstance(outcome, Escalation) else ""
    return question or "The instruction can be understood in several ways; which one is meant?"


def accept(outcome: Outcome) -> Outcome:
    """Turn an accepted outcome into one that others can use: an escalation's answer becomes partial."""
    if not isinstance(outcome, Escalation) or not has_answer(outcome):
        return outcome
    doubt = f"The agent returned this as unfinished ({outcome.reason.replace('_', ' ')}). {outcome.message}".rstrip()
    return Partial(
        content=outcome.content,
        findings=outcome.findings,
        sources=outcome.sources,
        confidence=outcome.confidence,
        data=outcome.data,
        gaps=(*outcome.gaps, doubt),
        spend=outcome.spend,
        reason=outcome.reason,
    )


def best_of(outcomes: Sequence[Outcome]) -> Outcome:
    """Choose the outcome of a subtask that is given up: its surest answer, or else that of its last attempt."""
    answers = [outcome for outcome in outcomes if has_answer(outcome)]
    if not answers:
        return outcomes[-1]
    surest = max(reversed(answers), key=lambda outcome: (outcome.kind in USABLE, outcome.confidence))
    return accept(surest)


def _why(outcome: Outcome, attempts: Attempts, means: Means) -> str:
    if isinstance(outcome, Success | Partial):
        raise TypeError(f"a {outcome.kind} is accepted, never given up")
    if isinstance(outcome, Failure) and outcome.reason in HOPELESS:
        return f"Another attempt would not help; last error: {outcome.reason}."
    if attempts.made >= means.max_attempts:
        failed = "failed attempt" if attempts.made == 1 else "failed attempts"
        return f"Gave up after {attempts.made} {failed}; last error: {outcome.reason}."
    if not means.can_pay:
        return f"The limits do not cover another attempt; last error: {outcome.reason}."
    return f"There is nothing else to try; last error: {outcome.reason}."
