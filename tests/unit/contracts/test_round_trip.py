"""What goes over the wire comes back as it was."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chargehand.contracts import (
    Escalation,
    Failure,
    Outcome,
    Partial,
    Plan,
    PlanDecision,
    Report,
    SessionRequest,
    Status,
    Success,
    Trace,
    Usage,
)
from chargehand.converter import data_converter
from tests.unit.strategies import contracts

CONVERTER = data_converter().payload_converter
USAGES = contracts(Usage)


def _back(value: object, type_hint: Any) -> object:
    [there] = CONVERTER.to_payloads([value])
    [back] = CONVERTER.from_payloads([there], [type_hint])
    return back


@pytest.mark.parametrize(
    ("values", "type_hint"),
    [
        pytest.param(contracts(Plan), Plan | None, id="Plan or nothing"),
        pytest.param(
            st.one_of([contracts(kind) for kind in (Success, Partial, Failure, Escalation)]), Outcome, id="Outcome"
        ),
        *(
            pytest.param(contracts(model), model, id=model.__name__)
            for model in (SessionRequest, Plan, PlanDecision, Status, Report, Trace)
        ),
    ],
)
@settings(max_examples=25)
@given(data=st.data())
def test_what_is_sent_is_what_arrives(values: st.SearchStrategy[object], type_hint: Any, data: st.DataObject) -> None:
    """Every contract comes back equal and of the same type, to the last nanodollar and character."""
    value = data.draw(values)

    back = _back(value, type_hint)

    assert back == value
    assert type(back) is type(value)


def test_no_plan_arrives_as_no_plan() -> None:
    """The answer to a question about a plan may be that there is none."""
    assert _back(None, Plan | None) is None


def test_dollars_are_numbers_on_the_wire() -> None:
    """Money is a JSON number that other languages can add, exact to the nanodollar up to a million."""
    usage = Usage(cost_usd=Decimal("999999.999999999"))

    [payload] = CONVERTER.to_payloads([usage])

    assert b'"cost_usd":999999.999999999,' in payload.data


@given(one=USAGES, other=USAGES)
def test_usage_adds_field_by_field(one: Usage, other: Usage) -> None:
    """The sum of two usages is the sum of each of their fields, exactly."""
    total = one + other

    assert {name: getattr(total, name) for name in Usage.model_fields} == {
        name: getattr(one, name) + getattr(other, name) for name in Usage.model_fields
    }
