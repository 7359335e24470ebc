"""The page about recovery, written from the table itself: `python -m workflows.recovery_page docs/recovery.md`."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

from chargehand.contracts import Failure, Outcome, Partial, Plan, Subtask, Success
from workflows.graph import ready
from workflows.recovery import (
    TABLE,
    Attempts,
    GiveUp,
    Means,
    Step,
    UseFallback,
    next_action,
    skipped,
)
from workflows.reporting import USABLE

_MEANS: Final = Means(max_attempts=3, fallback="researcher")
_LOST: Final = Failure(reason="no_answer", message="The documents do not say.")


_PAGE: Final = """# When a subtask ends badly

<!-- Written by `python -m workflows.recovery_page docs/recovery.md` from the table itself. -->

Infrastructure errors (time-outs, 429, 5xx, a lost worker) never come this far: Temporal retries them. What comes back
to the supervisor is a typed outcome, and a pure function, `next_action` in `workflows/recovery.py`, answers it from
this table. The first entry that is open is done; when none is, the subtask is given up.

| an attempt ended as | in turn |
|---|---|
{rows}

- **Breaker.** After `max_attempts` bad ends (3 unless the request says otherwise) nothing is tried again. What there
  is can still be judged or accepted.
- **Purse.** Nothing that costs turns is done when the limits do not pay for it.
- **A refinement** is given the error and the earlier instruction. If the model finds that no other instruction would
  help, the next entry is taken at once; that is no attempt.
- **A question** that no person answers in its time is no attempt either: the next entry is taken.
- **Nothing finished is lost.** A subtask that is given up hands on the surest answer that any of its attempts came to,
  as partial. An escalation that asks back (`ambiguous_input`, `out_of_scope`) holds no answer.
- **Siblings** always go on. What depends on a lost subtask runs with the gap stated in its context, unless the plan
  marks that input `required`; then it is skipped, and the report says so.

## A worked example

T1 and T2 depend on nothing, T3 needs T1, T4 needs T2, T5 needs T3 and T4. The crew names `researcher` as the fallback
of T1's agent. T1 is lost for good: whoever tries it finds no answer. Each line below is a moment.

### No input is required

{free}

### T3 requires T1

{one}

### T3 requires T1, and T5 requires T3

{both}
"""


def page() -> str:
    """Write the whole page."""
    return _PAGE.format(
        rows="\n".join(_rows()),
        free=_story(()),
        one=_story(("T3",)),
        both=_story(("T3", "T5")),
    )


def _rows() -> Iterable[str]:
    """One row for neighbours of one kind that are answered alike."""
    for (kind, steps), names in groupby(TABLE, key=lambda name: (name.split()[0], TABLE[name])):
        reasons = [f"`{name.split()[1]}`" for name in names if " " in name]
        yield f"| {kind} {', '.join(reasons)}".rstrip() + f" | {_in_turn(steps)} |"


def _in_turn(steps: Iterable[Step]) -> str:
    told = [f"{step.words} ({step.when})" if step.when else step.words for step in steps]
    return " → ".join(told if told and not list(steps)[-1].when else [*told, "give up"])


@dataclass
class _Walk:
    """The example, a round of attempts at a time."""

    plan: Plan
    tries: dict[str, Attempts] = field(default_factory=dict[str, Attempts])
    """What runs now."""
    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])

    def lines(self) -> Iterable[str]:
        told = self._start()
        while told:
            yield " ".join(told)
            told = [line for id_ in list(self.tries) for line in self._end(id_)]
            told += self._start()
        usable = [id_ for id_, outcome in self.outcomes.items() if outcome.kind in USABLE]
        lost = [id_ for id_ in self.outcomes if id_ not in usable]
        yield f"The report is written from {_listed(sorted(usable))}. Its gaps name {_listed(sorted(lost))}."

    def _start(self) -> list[str]:
        told: list[str] = []
        while waiting := ready(self.plan, {*self.outcomes, *self.tries}, self.outcomes):
            started: list[str] = []
            for subtask in waiting:
                refusal = skipped(subtask, self.outcomes)
                if refusal:
                    self.outcomes[subtask.id] = refusal
                    told.append(f"{subtask.id} is skipped: {refusal.message[0].lower()}{refusal.message[1:]}")
                else:
                    self.tries[subtask.id] = Attempts(agents=("reader",))
                    started.append(f"{subtask.id}{_with_gaps(subtask, self.outcomes)}")
            if started:
                told.append(f"{_listed(started)} {'start, side by side' if len(started) > 1 else 'starts'}.")
        return told

    def _end(self, id_: str) -> Iterable[str]:
        attempts = self.tries.pop(id_)
        lost = [needed for needed in self._subtask(id_).depends_on if self.outcomes[needed].kind not in USABLE]
        ended = Partial(gaps=tuple(lost)) if lost else Success()
        outcome: Outcome = _LOST if id_ == "T1" else ended
        action = next_action(outcome, attempts, _MEANS)
        if outcome.kind in USABLE:
            self.outcomes[id_] = outcome
            yield f"{id_} ends: {outcome.kind}."
        elif isinstance(action, GiveUp):
            self.outcomes[id_] = outcome
            yield f"{id_} ends: {outcome.kind}. It is given up: {action.why[0].lower()}{action.why[1:]}"
        else:
            self.tries[id_] = attempts.after(action).again()
            how = f"with the agent {action.agent}" if isinstance(action, UseFallback) else "with a better instruction"
            yield f"{id_} ends: {outcome.kind}. It is tried again {how}."

    def _subtask(self, id_: str) -> Subtask:
        return next(subtask for subtask in self.plan.subtasks if subtask.id == id_)


def _story(requiring: Iterable[str]) -> str:
    return "\n".join(f"{number}. {line}" for number, line in enumerate(_Walk(example(requiring)).lines(), start=1))


def example(requiring: Iterable[str]) -> Plan:
    """Build the example's plan; of the subtasks named, T3 requires T1 and T5 requires T3."""
    inputs = {"T1": (), "T2": (), "T3": ("T1",), "T4": ("T2",), "T5": ("T3", "T4")}
    return Plan(
        subtasks=tuple(
            Subtask(
                id=id_,
                agent="reader",
                instruction=f"Find out about {id_}.",
                depends_on=needed,
                required=needed[:1] if id_ in set(requiring) else (),
            )
            for id_, needed in inputs.items()
        )
    )


def _with_gaps(subtask: Subtask, outcomes: Mapping[str, Outcome]) -> str:
    lost = [needed for needed in subtask.depends_on if outcomes[needed].kind not in USABLE]
    return f" (told that {_listed(lost)} came to nothing)" if lost else ""


def _listed(items: Iterable[str]) -> str:
    *head, last = list(items) or ["nothing"]
    return f"{', '.join(head)} and {last}" if head else last


def main(file: Path) -> None:
    """Write the page into a file."""
    file.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
