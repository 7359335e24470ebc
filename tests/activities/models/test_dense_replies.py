"""A reply of very many lists and objects is refused without holding up the worker."""

import gc
import json

import pytest

from activities.http.response_limits import BodyRefused
from activities.models.replies import parse

_BYTES = 4_000_000
"""The longest event that is read."""


@pytest.mark.parametrize("value", ["[],", "{},", '{"a":[1]},'])
async def test_a_dense_reply_holds_up_nothing(value: str) -> None:
    """It is refused before a parser makes its values, of which the garbage collector keeps count."""
    content = f'{{"output":[{value * (_BYTES // len(value))}0]}}'.encode()

    before = _collections()
    with pytest.raises(BodyRefused):
        await parse(content)

    assert _collections() - before < 10


def _collections() -> int:
    """Say how often enough lists and objects were made for a collection: some 2,000 of them, at most."""
    return gc.get_stats()[0]["collections"]


async def test_a_long_text_is_no_dense_reply() -> None:
    """Brackets within a text are no values, so that a long table of an answer is read."""
    table = "1,[2],{3}\n" * 200_000

    assert await parse(json.dumps({"text": table}).encode()) == {"text": table}
