"""A reply of very many lists and objects is refused without holding up the worker."""

import json
import time

import pytest
from pydantic_core import from_json

from activities.http_limits import BodyRefused
from activities.models.replies import parse

_BYTES = 4_000_000
"""The longest event that is read."""


@pytest.mark.parametrize("value", ["[],", "{},", '{"a":[1]},'])
async def test_a_dense_reply_holds_up_nothing(value: str) -> None:
    """It is refused before a parser makes its values: in less than half of the processor time that this takes."""
    content = f'{{"output":[{value * (_BYTES // len(value))}0]}}'.encode()
    began = time.thread_time()
    from_json(content)
    parsing = time.thread_time() - began

    began = time.thread_time()
    with pytest.raises(BodyRefused):
        await parse(content)

    assert time.thread_time() - began < parsing / 2


async def test_a_long_text_is_no_dense_reply() -> None:
    """Brackets within a text are no values, so that a long table of an answer is read."""
    table = "1,[2],{3}\n" * 200_000

    assert await parse(json.dumps({"text": table}).encode()) == {"text": table}
