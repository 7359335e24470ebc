"""The JSON Schemas that other services build against."""

import json
import re
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from chargehand import contracts
from chargehand.contracts import Contract, Limits, Plan, Report, SessionRequest
from chargehand.contracts.base import TypedByPeople
from tests.unit.contracts.schema_files import main, schemas
from tests.unit.strategies import contracts as drawn

GOLDEN = Path(__file__).parents[3] / "docs" / "schemas"
RENEW = (
    "If the change is meant, run `.venv/bin/python -m tests.unit.contracts.schema_files docs/schemas` and commit the "
    "result."
)


def test_every_schema_matches_its_reviewed_file(tmp_path: Path) -> None:
    main(tmp_path / "schemas")

    written, reviewed = (
        {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
        for folder in (tmp_path / "schemas", GOLDEN)
    )
    assert written == reviewed, RENEW


def _described(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each description with the schema that it describes, at any depth."""
    if isinstance(schema, dict):
        node = cast("dict[str, Any]", schema)
        if isinstance(node.get("description"), str):
            yield node["description"], node
        yield from (found for each in node.values() for found in _described(each))
    elif isinstance(schema, list):
        yield from (found for each in cast("list[Any]", schema) for found in _described(each))


def test_bounds_in_descriptions_match_the_schema() -> None:
    """A description that ends with a range, such as "(1 to 4,000 characters)", states the bounds of its field."""
    ranges = [
        (text, [bound.replace(",", "") for bound in found.groups()], json.dumps(schema))
        for text, schema in _described(schemas())
        if (found := re.search(r"\(([\d,]+) to ([\d,]+)(?: characters)?\)", text))
    ]

    assert len(ranges) > 20
    for text, bounds, schema in ranges:
        assert [bound for bound in bounds if not re.search(rf": {bound}\b", schema)] == [], text


def test_every_schema_is_valid_json_schema() -> None:
    for name in sorted(schemas()):
        Draft202012Validator.check_schema(schemas()[name])
        assert schemas()[name].get("description"), name


def test_every_contract_field_has_a_description() -> None:
    public = (getattr(contracts, name) for name in contracts.__all__)
    for model in (each for each in public if isinstance(each, type) and issubclass(each, Contract)):
        silent = [name for name, field in _fields(model).items() if "description" not in field]
        assert model.__dict__["__doc__"]
        assert silent == []


def test_integer_fields_accept_a_decimal_point() -> None:
    """JSON Schema takes 3.0 for an integer, and so does each field that people write."""
    public = [getattr(contracts, name) for name in contracts.__all__]
    written = [each for each in public if isinstance(each, type) and issubclass(each, TypedByPeople)]
    seen = set[str]()
    for model, (name, field) in ((each, field) for each in written for field in _fields(each).items()):
        for kind in (kind for kind in field.get("anyOf", [field]) if kind.get("type") == "integer"):
            seen.add(name)
            with pytest.raises(ValidationError) if _required(model) else nullcontext() as refused:
                model.model_validate_json(json.dumps({name: float(kind.get("minimum", 1))}))
            assert refused is None or name not in {each["loc"][0] for each in refused.value.errors() if each["loc"]}
    assert {"max_turns", "priority"} <= seen


def _fields(model: type[Contract]) -> dict[str, dict[str, Any]]:
    schema = model.model_json_schema(by_alias=False)
    return (schema["$defs"][model.__name__] if "$ref" in schema else schema)["properties"]


def _required(model: type[Contract]) -> bool:
    return any(each.is_required() for each in model.model_fields.values())


def test_the_request_schema_agrees_with_the_parser() -> None:
    cases = [
        '{"goal": "a goal"}',
        '{"goal": "a goal", "limits": {"budget_usd": 0.5, "deadline": 60, "max_turns": 3}}',
        '{"goal": "a goal", "limits": {"budget_usd": 1, "deadline": "PT1M"}}',
        '{"goal": "a goal", "documents": ["file:/docs/a b.pdf"], "tiers": {"agents": {"reader": "large"}}}',
        '{"goal": "a goal", "limits": {"budget_usd": "2"}}',
        '{"goal": "a goal", "limits": {"budget_usd": 0}}',
        '{"goal": "a goal", "limits": {"deadline": 0}}',
        '{"goal": "a goal", "limits": {"deadline": true}}',
        '{"goal": "a goal", "limits": {"max_turns": 0}}',
        '{"goal": "a goal", "crew": "Research"}',
        '{"goal": "a goal", "priority": 9}',
        '{"goal": "a goal", "bugdet": 9}',
        '{"goal": "ab"}',
        "{}",
    ]
    for written in cases:
        with nullcontext() if _fits("SessionRequest", written) else pytest.raises(ValidationError):
            SessionRequest.model_validate_json(written)


@pytest.mark.parametrize("model", [Plan, Report, Limits])
@settings(max_examples=10)
@given(data=st.data())
def test_written_contracts_match_their_published_schemas(model: type[Contract], data: st.DataObject) -> None:
    assert _fits(model.__name__, data.draw(drawn(model)).model_dump_json())


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schemas()[name])


def _fits(name: str, written: str | bytes) -> bool:
    return _validator(name).is_valid(json.loads(written))  # pyright: ignore[reportUnknownMemberType]  # its types leave a gap
