"""What anyone can send is measured before it is read: a refusal takes bounded work, however large the input is."""

import json
import sys
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ApplicationError

from chargehand.contracts import Message, PlanDecision, SessionRequest
from chargehand.converter import data_converter
from chargehand.strict_json import AmbiguousJson, refuse_excess
from tests.hostile_payloads import LARGE
from tests.parameters import first_fast
from workflows.contracts import SubtaskRequest, SupervisorRequest
from workflows.mailbox.contracts import Envelope

CONVERTER = data_converter().payload_converter
MODELS: list[type[Message]] = [SessionRequest, SupervisorRequest, SubtaskRequest, PlanDecision, Envelope]
_MOST_CALLS = 200_000
"""Of functions, in C or Python; a request that reaches every limit takes 100,000."""


def _calls(data: bytes, type_hint: type[Any] | None) -> int:
    """Count the calls of functions while a payload is read or refused."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        CONVERTER.from_payloads(
            [Payload(metadata={"encoding": b"json/plain"}, data=data)], [type_hint] if type_hint else None
        )
    except ApplicationError:
        pass
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("model", first_fast([*MODELS, None]))
def test_the_work_of_a_refusal_is_bounded(model: type[Message] | None) -> None:
    """No input of any size or shape makes the converter call more functions than a small constant."""
    # Of two, since other tests' garbage may be collected in one.
    most = max(min(_calls(data, model) for _ in range(2)) for data in LARGE)

    assert most < _MOST_CALLS


def test_no_parser_reads_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large, too deep or too long is refused before it is parsed."""
    parsed: list[str] = []
    parse = json.loads

    def loads(text: str, **hooks: Any) -> object:
        parsed.append(text)
        return parse(text, **hooks)

    monkeypatch.setattr(json, "loads", loads)

    for data in LARGE:
        _calls(data, SessionRequest)

    assert max(map(len, parsed)) <= SessionRequest.largest_bytes
    assert max(text.count(",") for text in parsed) <= SessionRequest.most_values


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=60,
)


def _items(value: object) -> list[object] | None:
    if isinstance(value, dict):
        return list(cast("dict[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else None


def _values(value: object) -> int:
    """Count commas and brackets as a parser would write them."""
    items = _items(value)
    return 0 if items is None else 1 + max(0, len(items) - 1) + sum(map(_values, items))


def _depth(value: object) -> int:
    items = _items(value)
    return 0 if items is None else 1 + max(map(_depth, items), default=0)


@given(value=JSON, ascii_only=st.booleans())
@settings(deadline=None, max_examples=20)
def test_values_are_counted_as_a_parser_would(value: object, ascii_only: bool) -> None:  # noqa: FBT001
    """Brackets, commas, quotes and backslashes in strings count for nothing; the count of values is exact."""
    data = json.dumps(value, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    count = _values(value)

    refuse_excess(data, len(data), max(count, data.count(b'"')))
    if count and data.count(b'"') < count:
        with pytest.raises(AmbiguousJson, match="values"):
            refuse_excess(data, len(data), count - 1)
    with pytest.raises(AmbiguousJson, match="bytes"):
        refuse_excess(data, len(data) - 1, 1_000)


@given(depth=st.integers(min_value=1, max_value=130), opening=st.sampled_from(["[", '{"a]":', '{"\\\\":[', "[[],"]))
@settings(deadline=None, max_examples=40)
def test_depth_is_measured_as_a_parser_would(depth: int, opening: str) -> None:
    """64 levels pass, 65 do not, whatever they are made of."""
    text = opening * depth + "1"
    nested = [each for each in text.replace('"a]"', "").replace("[]", "") if each in "[{"]
    data = (text + "".join({"[": "]", "{": "}"}[each] for each in reversed(nested))).encode()
    deep = _depth(json.loads(data)) > 64

    if deep:
        with pytest.raises(AmbiguousJson, match="deep"):
            refuse_excess(data, 10_000, 10_000)
    else:
        refuse_excess(data, 10_000, 10_000)
