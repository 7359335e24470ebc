"""A request with a schema: its report has an output that is valid, or says why there is none."""

import pytest
from pydantic import BaseModel, JsonValue

from activities.turn_kinds.output import OutputTask
from chargehand import OutputInvalid, SessionFailed
from chargehand.contracts import Limits, SessionRequest
from tests.scripted_model import Script, answer, output, subtask, topics
from tests.workflows.conftest import OpenEnvironment, RunSession


class Notice(BaseModel):
    months: int
    party: str | None = None


GOAL = SessionRequest(goal="How long is the notice period?", review="never")
ASKED = GOAL.model_copy(update={"output_schema": Notice.model_json_schema()})
ONE = Script().plan(subtask("T1")).work("", answer("Three months."))


@pytest.mark.parametrize(
    ("script", "kinds"),
    [
        pytest.param(ONE, ["plan", "work", "output"], id="the text of a lone agent"),
        pytest.param(Script().plan(*topics(2)), ["plan", "work", "work", "synthesis", "output"], id="a synthesis"),
    ],
)
async def test_a_model_of_pydantic_comes_back_as_its_instance(
    environment: OpenEnvironment, script: Script, kinds: list[str]
) -> None:
    """The client sends the schema of a model and gives an instance back; the report is written as ever."""
    async with environment(script.on("output", output({"months": 3, "party": None}))) as opened:
        found = await opened.chargehand.run(GOAL, output=Notice)

    assert found == Notice(months=3)
    assert [call.task.kind for call in opened.model.calls] == kinds


@pytest.mark.parametrize(
    ("given", "turns", "found", "problems"),
    [
        pytest.param([{"months": "3"}, {"months": 3}], 2, {"months": 3}, (), id="the second is valid"),
        pytest.param(['{"months": 3}'], 1, {"months": 3}, (), id="as JSON text"),
        pytest.param(
            [{"months": "3"}] * 4, 3, None, ("data.months: '3' is not of type 'integer'",), id="none is valid"
        ),
        pytest.param([None], 3, None, ("data: None is not of type 'object'",), id="nothing"),
    ],
)
async def test_an_invalid_output_is_mended_twice_at_most(
    run: RunSession, given: list[JsonValue], turns: int, found: JsonValue, problems: tuple[str, ...]
) -> None:
    """The model is told each error by its place; without a valid output, the session says so and keeps the text."""
    result, opened = await run(ONE.on("output", *map(output, given)), ASKED)

    tasks = opened.model.tasks(OutputTask)
    assert (result.output, result.output_problems) == (found, problems)
    assert result.stop_reason == ("invalid_output" if problems else "completed")
    assert result.answer == "Three months."
    assert len(tasks) == turns
    assert all("data" in rejected.errors for rejected in tasks[-1].rejected)
    assert result.usage.turns == 2 + turns


async def test_a_value_that_nobody_found_is_not_invented(environment: OpenEnvironment) -> None:
    """Where the schema requires what is missing, there is no output, and the client's error holds the report."""
    async with environment(ONE.on("output", output({"months": 0}, "No period is named."))) as opened:
        with pytest.raises(OutputInvalid, match="No period is named") as failed:
            await opened.chargehand.run(GOAL, output=Notice)

    assert failed.value.report.stop_reason == "invalid_output"
    assert failed.value.report.answer == "Three months."


async def test_a_session_always_has_a_turn_left_for_its_output(environment: OpenEnvironment) -> None:
    """The output is reserved for from the start: an agent that uses every turn it gets leaves that one."""
    script = ONE.work("", answer("Three months.")).on("output", output({"months": 3}))
    async with environment(script) as opened:
        smallest = ASKED.model_copy(update={"limits": Limits(max_turns=4)})
        result = await opened.run(smallest)
        with pytest.raises(SessionFailed, match="max_turns 4"):
            await opened.run(ASKED.model_copy(update={"limits": Limits(max_turns=3)}))

    assert result.output == {"months": 3}
    assert result.reserved_usd == 0


async def test_a_schema_that_cannot_be_used_is_refused_at_once(environment: OpenEnvironment) -> None:
    """No turn is paid for it, and the error names its place."""
    async with environment(ONE) as opened:
        with pytest.raises(SessionFailed, match=r"output_schema\.\$ref: must name a definition"):
            await opened.run(GOAL.model_copy(update={"output_schema": {"$ref": "https://example.com/schema"}}))

    assert opened.model.calls == []
