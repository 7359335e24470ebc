"""Values sent over the wire come back unchanged."""

import json
from contextlib import nullcontext
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.contracts.cards import CrewCard
from activities.contracts.session import SessionFacts, SessionTerms
from activities.turn.contracts import TurnResult
from chargehand.contracts import (
    Contract,
    ConversationRequest,
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
    Tiers,
    Trace,
    Usage,
)
from chargehand.converter import data_converter
from chargehand.errors import AnotherRequest
from chargehand.interface import refuse_difference
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
def test_contracts_survive_a_round_trip(values: st.SearchStrategy[object], type_hint: Any, data: st.DataObject) -> None:
    value = data.draw(values)
    [back] = CONVERTER.from_payloads(CONVERTER.to_payloads([value]), [type_hint])

    assert back == value
    assert type(back) is type(value)


@given(outcome=OUTCOMES, usage=contracts(Usage))
def test_default_values_are_not_written_to_payloads(outcome: Outcome, usage: Usage) -> None:
    """At every depth, the only exception is the `kind` that discriminates outcomes."""
    [payload] = CONVERTER.to_payloads([SubtaskResult(outcome=outcome, wasted=usage)])

    written = json.loads(payload.data)
    assert written["outcome"] == outcome.model_dump(mode="json", exclude_defaults=True) | {"kind": outcome.kind}
    assert written.get("wasted", {}) == usage.model_dump(mode="json", exclude_defaults=True)


@pytest.mark.parametrize("model", [Report, Status, Plan])
@settings(max_examples=settings().max_examples // 5)
@given(data=st.data())
def test_payloads_for_clients_have_all_fields(model: type[Contract], data: st.DataObject) -> None:
    """Clients in other languages, and readers of the Temporal CLI's JSON, need not know the defaults."""
    value = data.draw(contracts(model))
    [payload] = CONVERTER.to_payloads([value])

    assert json.loads(payload.data) == value.model_dump(mode="json")


def test_the_initial_limits_of_a_session_are_written_completely() -> None:
    """A replay reads them from the history, even if the defaults have changed since."""
    card = CrewCard(name="c", tier=Tier.SMALL, agents=(), prompt_bytes=0)
    [payload] = CONVERTER.to_payloads([SessionFacts(crew=card, models={}, ceilings=Limits())])

    written = json.loads(payload.data)
    assert written["terms"] == SessionTerms().model_dump(mode="json")
    assert written["ceilings"] == Limits().model_dump(mode="json")


@pytest.mark.parametrize("kind", [SessionRequest, ConversationRequest])
@given(data=st.data())
@settings(max_examples=10)
def test_a_changed_request_under_the_same_id_is_refused_by_field_name(
    kind: type[SessionRequest | ConversationRequest], data: st.DataObject
) -> None:
    asked, other = data.draw(contracts(kind)), data.draw(contracts(kind))
    [original] = CONVERTER.from_payloads(CONVERTER.to_payloads([asked]), [kind])

    refuse_difference("talk", original, asked)
    for name in {*kind.model_fields} - {"credentials"}:  # credentials are sealed anew each time
        now = getattr(other, name)
        parts = (
            [f"{name}.{part}" for part in sorted(type(now).model_fields)] if isinstance(now, Limits | Tiers) else [name]
        )
        changed = asked.model_copy(update={name: now})
        is_named = kind is SessionRequest or name in changed.model_dump()  # a webhook that is None names nothing
        differing = [each for each in parts if is_named and attrgetter(each)(asked) != attrgetter(each)(other)]
        with pytest.raises(AnotherRequest) if differing else nullcontext() as refused:
            refuse_difference("talk", original, changed)
        assert refused is None or refused.value.fields == differing
