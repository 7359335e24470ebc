"""Calls that act, of which the server knows nothing any more: the record outside Temporal does."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from activities.contracts.tool import ToolAnswer
from activities.turn.apply_once import CallTimes
from chargehand.record import Record
from chargehand.tools import failed
from tests.activities.acting.test_settling import (
    CONTEXT,
    DONE,
    LOST_AFTER,
    REQUEST,
    Acting,
    Handles,
    LookingUp,
    Service,
    begin_attempt,
    lose_a_worker,
    spec,
)


@pytest.fixture(autouse=True)
def folder_of_records(tmp_path: Path) -> None:
    Handles.folder = tmp_path


@dataclass
class Refusing(Acting):
    """Its first call changes nothing, and says so."""

    async def use(self, arguments: object, context: object) -> ToolAnswer:
        del arguments, context
        self.calls += 1
        return failed("There is no such order.") if self.calls == 1 else DONE


def sound() -> LookingUp:
    """Make a tool that has been called before, so that none of its calls is lost."""
    return LookingUp(Service(), spec(settles_within=60.0), calls=1)


async def call(server: Handles, tool: Acting) -> ToolAnswer | None:
    """Make the call in a session that has just begun or was just restored."""
    server.details = ()
    return await asyncio.wait_for(begin_attempt(server, tool, CallTimes(pause=tool.service.pause)), 10)


async def test_a_call_that_is_recorded_is_not_made_again() -> None:
    """Its result is returned, and the tool is asked nothing."""
    server, tool = Handles(), sound()
    answers = [await call(server, tool) for _ in range(3)]

    assert answers == [DONE] * 3
    assert (len(tool.service.requests), tool.service.lookups) == (1, [])


async def test_a_call_that_changed_nothing_is_made_again() -> None:
    """A `ToolError` that is recorded says that it was not applied; what comes after it is another attempt."""
    server, tool = Handles(), Refusing(Service(), spec())
    answers = [await call(server, tool) for _ in range(3)]

    assert ([answer and answer.ok for answer in answers], tool.calls) == ([False, True, True], 2)
    last = server.record.last_call("s", "k")
    assert last is not None
    assert (last.begun.number, last.answer) == (1, DONE)


async def test_a_person_decides_about_what_was_called_before() -> None:
    """What a person has made again is another attempt, made once: after another restore its result is returned, even
    where that forgets the decision."""
    tool = Acting(Service(), spec(), "after")
    server = await lose_a_worker(tool)
    server.details = ()
    decided = REQUEST.model_copy(update={"decided_at": tool.service.now, "decision": "approved by Ann"})
    tool.service.now += LOST_AFTER

    again = await begin_attempt(server, tool, CallTimes(), decided)
    restored = [await call(server, tool), await begin_attempt(server, tool, CallTimes(), decided)]

    assert (again, restored, tool.calls) == (DONE, [DONE, DONE], 2)
    last = server.record.last_call("s", CONTEXT.idempotency_key)
    assert last is not None
    assert (last.begun.number, last.begun.decision) == (1, "approved by Ann")


async def test_of_two_workers_with_the_same_call_one_makes_it() -> None:
    """A worker that goes on with a session of before and one with the restored session both reach the call: the other
    returns the result, or does not know it yet."""
    tool, server = Acting(Service(), spec(), calls=1), Handles()
    answers = await asyncio.gather(
        *(begin_attempt(server, tool, CallTimes(pause=tool.service.pause)) for _ in range(5))
    )

    assert DONE in answers
    assert [answer for answer in answers if answer not in (None, DONE)] == []
    assert len(tool.service.requests) == 1


async def test_without_the_record_nothing_is_called(tmp_path: Path) -> None:
    """A store that cannot be written is a fault before the call."""
    tool, server = sound(), Handles()
    server.record = Record(tmp_path / "file")
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(OSError, match="file"):
        await call(server, tool)
    assert tool.service.requests == []
