"""Contracts that callers build in Python are refused in the same words as through any other interface."""

import json
import re
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages

import pytest
from pydantic import BaseModel, ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError

import chargehand
from chargehand.contracts import Contract, SessionRequest
from chargehand.converter import data_converter
from chargehand.errors import InvalidInput
from tests.unit.strategies import below

CONVERTER = data_converter().payload_converter
CANDIDATES = [None, True, -1, 10**12, "", "\x00", "x" * 30_000, [], [-1], [""], {}, {"no": 1}]
"""Values of which each field refuses some, because of its type or a rule."""


def _contracts() -> list[type[Contract]]:
    for module in walk_packages(chargehand.__path__, "chargehand."):
        import_module(module.name)
    return [each for each in below(Contract) if each.__module__.startswith("chargehand.")]


CONTRACTS = _contracts()


def _refusal(kind: type[Contract], /, **fields: object) -> str:
    """Build a contract; return why it is invalid, or an empty string."""
    try:
        kind(**fields)
    except ValueError as error:
        return str(error) if isinstance(error, InvalidInput) and isinstance(error.__cause__, ValidationError) else ""
    return ""


def _refusal_of_payload(kind: type[Contract], /, **fields: object) -> str:
    payload = Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(fields).encode())
    try:
        CONVERTER.from_payloads([payload], [kind])
    except ApplicationError as error:
        return error.message
    return ""


@pytest.mark.parametrize("kind", CONTRACTS)
def test_a_value_that_cannot_be_json_is_refused_by_field_name(kind: type[Contract]) -> None:
    for name in (field.alias or name for name, field in kind.model_fields.items()):
        refusal = _refusal(kind, **{name: object()})
        assert refusal.startswith(f"Invalid {kind.__name__}: ")
        assert re.search(rf"[:;] {name}[.:]", refusal)


@pytest.mark.parametrize("kind", CONTRACTS)
def test_hostile_values_are_refused_as_any_other(kind: type[Contract]) -> None:
    """Values that are nested deeply, not finite or half a character raise `InvalidInput` or are accepted."""
    nested: list[object] = []
    for _ in range(3_000):
        nested = [nested]
    for value in (nested, {"a": nested}, float("nan"), 10**400, "\ud800", b"\xff", {1: 2}):
        for name in kind.model_fields:
            with suppress(InvalidInput):
                kind(**{name: value})


@pytest.mark.parametrize("kind", [each for each in CONTRACTS if each.model_config.get("extra") == "forbid"])
def test_python_and_payloads_are_refused_in_the_same_words(kind: type[Contract]) -> None:
    for name in kind.model_fields:
        refusals = [_refusal(kind, **{name: value}) for value in CANDIDATES]
        assert refusals == [_refusal_of_payload(kind, **{name: value}) for value in CANDIDATES]
        assert any(f"{name}: " in each or f"{name}." in each for each in refusals)

    for unknown in ("no_such_field", *(f"{name}x" for name in kind.model_fields)):
        remedy = "known are " if unknown == "no_such_field" else "did you mean "
        assert f"{unknown}: is not a known field; {remedy}" in _refusal(kind, **{unknown: 1})
        assert _refusal(kind, **{unknown: 1}) == _refusal_of_payload(kind, **{unknown: 1})


def test_user_models_may_contain_contracts() -> None:
    class Job(BaseModel):
        request: SessionRequest

    job = Job.model_validate({"request": {"goal": "a goal"}})
    with pytest.raises(ValidationError) as caught:
        Job.model_validate({"request": {"goal": "a goal", "limits": {"max_turns": 0}}})

    assert job == Job(request=SessionRequest(goal="a goal"))
    assert [each["loc"] for each in caught.value.errors()] == [("request", "limits", "max_turns")]
