"""The report in the shape that its request asks for: filled by a model, checked by code, mended twice at most."""

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue
from temporalio import workflow

from activities.contracts.rounds import InputOutcome
from activities.turn_kinds.output import OutputAnswer, OutputTask, RejectedOutput
from workflows import options
from workflows.budget.estimates import OUTPUT
from workflows.budget.model_calls import CannotPay, TurnLost
from workflows.rules.inputs import DECISION_TOKENS, fit
from workflows.state.session import Session
from workflows.steps.turns import take_turn
from workflows.steps.writer import Material

_ATTEMPTS: Final = 3
"""The first output, and two more after its errors were named."""
_MOST_DATA_PROBLEMS: Final = 20
_PROBLEM_CHARACTERS: Final = 500


async def fill_output(
    session: Session, answer: str, gaps: Sequence[str], material: Material, why_not: str
) -> tuple[JsonValue, tuple[str, ...]]:
    """Have a model put a report into the shape of the request's schema; returns the output, or why there is none.

    `why_not` says why no model is to be asked; it is empty if one is.
    """
    schema = session.request.output_schema
    if schema is None or session.budget.output_reserve is None:
        return None, ()
    session.budget.output_reserve.release()
    if why_not:
        return None, (why_not,)
    goal = session.request.goal
    rejected: list[RejectedOutput] = []

    def reading(outcomes: tuple[InputOutcome, ...]) -> OutputTask:
        return OutputTask(
            goal=goal, data_schema=schema, answer=answer, gaps=tuple(gaps), outcomes=outcomes, rejected=tuple(rejected)
        )

    while len(rejected) < _ATTEMPTS:
        task = fit(material.outcomes, reading, DECISION_TOKENS)
        try:
            until = max(session.clock.deadline_at, workflow.now() + options.LEAST_REPORT_TIME)
            if not session.budget.can_pay(task, OUTPUT.least_output):
                task = task.model_copy(update={"outcomes": ()})
            result = await take_turn(session, task, until=until)
        except CannotPay:
            return None, _problems(["The limits left nothing to pay for it.", *(each.errors for each in rejected)])
        except TurnLost as error:
            return None, _problems([error.message])
        found = result.answer_as(OutputAnswer)
        if found and not result.data_problems:
            return (None if found.missing else found.data), _problems(found.missing)
        rejected.append(
            RejectedOutput(output=result.text, errors=result.data_problems or result.problem or f"it was {result.stop}")
        )
    return None, _problems([rejected[-1].errors])


def _problems(problems: Sequence[str]) -> tuple[str, ...]:
    return tuple(problem[:_PROBLEM_CHARACTERS] for problem in problems[:_MOST_DATA_PROBLEMS])
