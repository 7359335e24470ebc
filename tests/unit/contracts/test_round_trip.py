"""What goes over the wire comes back as it was."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.contracts.cards import CrewCard
from activities.contracts.session import SessionFacts, SessionTerms
from activities.turn.contracts import TurnResult
from chargehand.contracts import (
    Contract,
    Escalation,
    Failure,
    Limits,
    Outcome,
    Partial,
    Plan,
    PlanDecision,
    Report,
    SessionRequest,
    Status,
    Success,
    Tier,
    Trace,
    Usage,
)
from chargehand.converter import data_converter
from tests.unit.strategies import contracts
from workflows.contracts import SubtaskResult

CONVERTER = data_converter().payload_converter
OUTCOMES = st.one_of([contracts(kind) for kind in (Success, Partial, Failure, Escalation)])


@pytest.mark.parametrize(
    ("values", "type_hint"),
    [
        pytest.param(st.none() | contracts(Plan), Plan | None, id="Plan or nothing"),
        pytest.param(OUTCOMES, Outcome, id="Outcome"),
        *(
            pytest.param(contracts(model), model, id=model.__name__)
            for model in (SessionRequest, Plan, PlanDecision, Status, Report, Trace, SubtaskResult, TurnResult)
        ),
    ],
)
@settings(max_examples=settings().max_examples // 5)
@given(data=st.data())
def test_what_is_sent_is_what_arrives(values: st.SearchStrategy[object], type_hint: Any, data: st.DataObject) -> None:
    """Every contract comes back equal and of the same type, to the last nanodollar and character."""
    value = data.draw(values)

    [back] = CONVERTER.from_payloads(CONVERTER.to_payloads([value]), [type_hint])

    assert back == value
    assert type(back) is type(value)


@given(outcome=OUTCOMES, usage=contracts(Usage))
def test_what_is_usual_is_not_written(outcome: Outcome, usage: Usage) -> None:
    """A payload has no field that holds its default, at any depth, but for the kind that tells outcomes apart."""
    [payload] = CONVERTER.to_payloads([SubtaskResult(outcome=outcome, wasted=usage)])

    written = json.loads(payload.data)
    assert written["outcome"] == outcome.model_dump(mode="json", exclude_defaults=True) | {"kind": outcome.kind}
    assert written.get("wasted", {}) == usage.model_dump(mode="json", exclude_defaults=True)


@pytest.mark.parametrize("model", [Report, Status, Plan])
@settings(max_examples=settings().max_examples // 5)
@given(data=st.data())
def test_what_clients_read_has_all_fields(model: type[Contract], data: st.DataObject) -> None:
    """Clients in other languages, and whoever reads the JSON of Temporal's CLI, need not know the defaults."""
    value = data.draw(contracts(model))

    [payload] = CONVERTER.to_payloads([value])

    assert json.loads(payload.data) == value.model_dump(mode="json")


def test_the_limits_that_a_session_began_with_are_written_whole() -> None:
    """A replay reads the limits from the history, whatever the usual ones are by then."""
    card = CrewCard(name="c", tier=Tier.SMALL, agents=(), prompt_bytes=0)

    [payload] = CONVERTER.to_payloads([SessionFacts(crew=card, models={}, ceilings=Limits())])

    written = json.loads(payload.data)
    assert written["terms"] == SessionTerms().model_dump(mode="json")
    assert written["ceilings"] == Limits().model_dump(mode="json")
