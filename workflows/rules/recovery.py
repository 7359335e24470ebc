"""The recovery table: the action after each attempt at a subtask.

`docs/recovery.md` documents this table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, get_args

from chargehand.contracts import Escalation, Failure, FailureReason, Outcome, Partial, Tier
from chargehand.state_words import reason_words
from workflows.rules.graph import USABLE


class Action(Enum):
    """Actions after an attempt, named as in `docs/recovery.md`."""

    ACCEPT = "accept"
    REFINE = "rewrite the instruction in view of the error"
    FALLBACK = "use the fallback agent"
    STRONGER = "use a stronger tier"
    JUDGE = "have a judge decide between the two answers"
    SPLIT = "split it into a nested session"
    ASK = "ask a person"
    GIVE_UP = "give up"


@dataclass(frozen=True)
class Attempts:
    """The attempts at one subtask so far."""

    made: int = 1
    """Number of finished attempts."""
    agents: tuple[str, ...] = ()
    """The agents of these attempts, in order."""
    done: frozenset[Action] = frozenset()
    """Actions taken, including those without a following attempt."""


@dataclass(frozen=True)
class Means:
    """The options currently available for one subtask."""

    max_attempts: int
    """Failed attempts after which the subtask is given up."""
    fallback: str | None = None
    """The fallback of the latest attempt's agent, if it can take the subtask."""
    stronger: Tier | None = None
    """The next tier above the agent's."""
    may_nest: bool = False
    """Whether it can become a nested session."""
    may_ask: bool = False
    """Whether the session lets a person be asked."""
    can_pay: bool = True
    """Whether the ledger covers another attempt, or a judge."""


HOPELESS: Final[tuple[FailureReason, ...]] = (
    "duplicate",
    "skipped",
    "cancelled",
    "deadline",
    "terminated",
    "quarantined",
    "out_of_turns",
    "out_of_budget",
    "provider_refused",
    "provider_unavailable",
)
"""Failures that another attempt would repeat; Temporal has already retried provider errors."""

_WITH_ANSWER: Final = frozenset({"confidence_too_low", "timeout", "too_big"})
"""Escalations whose content answers the instruction at least in part."""

TABLE: Final[Mapping[str, tuple[Action, ...]]] = {
    "success": (Action.ACCEPT,),
    "partial": (Action.ACCEPT,),
    **{
        f"failure {reason}": () if reason in HOPELESS else (Action.REFINE, Action.FALLBACK)
        for reason in get_args(FailureReason)
    },
    "escalation ambiguous_input": (Action.ASK, Action.REFINE),
    "escalation out_of_scope": (Action.FALLBACK,),
    "escalation confidence_too_low": (Action.STRONGER, Action.JUDGE, Action.ACCEPT),
    "escalation timeout": (Action.SPLIT,),
    "escalation too_big": (Action.SPLIT,),
}
"""Actions to try in order, by how an attempt ended. If none is available, the subtask is given up."""


def next_action(outcome: Outcome, attempts: Attempts, means: Means) -> Action:
    """Choose the action after an attempt; `outcome` is the latest."""
    row = f"{outcome.kind} {outcome.reason}" if isinstance(outcome, Failure | Escalation) else outcome.kind
    actions = (action for action in TABLE[row] if _is_available(action, outcome, attempts, means))
    return next(actions, Action.GIVE_UP)


def _is_available(action: Action, outcome: Outcome, attempts: Attempts, means: Means) -> bool:
    if action is Action.ACCEPT:
        return outcome.kind in USABLE or has_answer(outcome)
    is_new = action not in attempts.done
    match action:
        case Action.JUDGE:
            return means.can_pay and is_new and Action.STRONGER in attempts.done and has_answer(outcome)
        case Action.REFINE:
            is_possible = is_new and Action.SPLIT not in attempts.done
        case Action.FALLBACK:
            is_possible = means.fallback not in {None, *attempts.agents} and Action.SPLIT not in attempts.done
        case Action.STRONGER:
            is_possible = is_new and means.stronger is not None
        case Action.SPLIT:
            is_possible = is_new and means.may_nest
        case _:
            is_possible = is_new and means.may_ask
    return is_possible and means.can_pay and attempts.made < means.max_attempts


def lacks_budget(action: Action, outcome: Outcome, attempts: Attempts, means: Means) -> bool:
    """Return whether a better action would be available if the ledger covered it."""
    return not means.can_pay and next_action(outcome, attempts, replace(means, can_pay=True)) != action


def has_answer(outcome: Outcome) -> bool:
    """Return whether an outcome contains an answer, even unsure or unfinished; a counter-question is none."""
    if isinstance(outcome, Failure) or (isinstance(outcome, Escalation) and outcome.reason not in _WITH_ANSWER):
        return False
    return bool(outcome.content or outcome.findings)


def question_of(outcome: Outcome) -> str:
    question = outcome.message if isinstance(outcome, Escalation) else ""
    return question or "The instruction can be understood in several ways; which one is meant?"


def accept(outcome: Outcome) -> Outcome:
    """Turn an accepted outcome into a usable one: an escalation's answer becomes partial."""
    if not isinstance(outcome, Escalation) or not has_answer(outcome):
        return outcome
    doubt = f"The agent returned this as unfinished ({reason_words(outcome.reason)}). {outcome.message}".rstrip()
    facts = outcome.model_dump(exclude={"kind", "message", "gaps"})
    return Partial(gaps=(*outcome.gaps, doubt), **facts)


def best_of(outcomes: Sequence[Outcome]) -> Outcome:
    """Choose the outcome of a subtask that is given up: its most confident answer, or its last outcome."""
    answers = [outcome for outcome in outcomes if has_answer(outcome)]
    if not answers:
        return outcomes[-1]
    surest = max(reversed(answers), key=lambda outcome: (outcome.kind in USABLE, outcome.confidence))
    return accept(surest)
