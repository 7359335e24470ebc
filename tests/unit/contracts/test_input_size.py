"""Untrusted input is measured before it is read: a refusal takes bounded work, however large the input is."""

import gc
import json
import sys
from collections import Counter
from contextlib import nullcontext, suppress
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
from tests.unit.strategies import json_values
from workflows.contracts import SubtaskRequest, SupervisorRequest
from workflows.mailbox.contracts import Envelope

CONVERTER = data_converter().payload_converter
MODELS: list[type[Message]] = [SessionRequest, SupervisorRequest, SubtaskRequest, PlanDecision, Envelope]
_MOST_CALLS = 200_000
"""Maximum function calls, in C or Python; a request that reaches every limit takes 100,000."""


@pytest.mark.parametrize("model", first_fast([*MODELS, None]))
def test_refusing_large_input_takes_bounded_work(model: type[Message] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, parsed, parse = Counter[bytes](), [""], json.loads

    def count(_frame: object, event: str, _argument: object) -> None:
        calls[data] += event in {"call", "c_call"}

    def loads(text: str, **hooks: Any) -> object:
        parsed.append(text)
        return parse(text, **hooks)

    monkeypatch.setattr(json, "loads", loads)
    gc.collect()
    gc.disable()  # it calls functions too
    sys.setprofile(count)
    for data in LARGE:
        with suppress(ApplicationError):
            payload = Payload(metadata={"encoding": b"json/plain"}, data=data)
            CONVERTER.from_payloads([payload], [model] if model else None)
    sys.setprofile(None)
    gc.enable()

    assert max(calls.values()) < _MOST_CALLS
    most = model or Message
    assert max(map(len, parsed)) <= most.largest_bytes
    assert max(text.count(",") for text in parsed) <= most.most_values


def _values(value: object) -> int:
    """Count the commas and brackets that the value has when serialised."""
    if not isinstance(value, dict | list):
        return 0
    items = list(cast("dict[str, object]", value).values()) if isinstance(value, dict) else cast("list[object]", value)
    return 1 + max(0, len(items) - 1) + sum(map(_values, items))


@given(value=json_values(st.text()), ascii_only=st.booleans())
@settings(deadline=None, max_examples=20)
def test_values_are_counted_exactly_without_parsing(value: object, ascii_only: bool) -> None:  # noqa: FBT001
    data = json.dumps(value, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    count = _values(value)

    refuse_excess(data, len(data), max(count, data.count(b'"')))
    if count and data.count(b'"') < count:
        with pytest.raises(AmbiguousJson, match="values"):
            refuse_excess(data, len(data), count - 1)
    with pytest.raises(AmbiguousJson, match="bytes"):
        refuse_excess(data, len(data) - 1, 1_000)


_LEVELS = {"[": 1, '{"a]":': 1, '{"\\\\":[': 2, "[[],": 1}
"""Levels of nesting that each beginning adds."""


@pytest.mark.parametrize("opening", _LEVELS)
def test_nesting_depth_is_measured_exactly_without_parsing(opening: str) -> None:
    for times in (1, 32, 33, 63, 64, 65, 130):
        is_deep = times * _LEVELS[opening] + opening.startswith("[[") > 64
        with pytest.raises(AmbiguousJson, match="deep") if is_deep else nullcontext():
            refuse_excess((opening * times).encode(), 10_000, 10_000)
