"""Work that was running when two workers were lost is not given to a third."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.heartbeat import begin
from activities.models.protocol import ModelCall, ModelReply
from activities.quarantine import quarantine, quarantined
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import SessionRequest
from chargehand.converter import non_retryable_error
from chargehand.wire import ErrorType
from chargehand_plugins.testing.in_memory.activities import _NoServer  # pyright: ignore[reportPrivateUsage]
from tests.environment import open_environment
from tests.scripted_model import Script, answer, reply, report, subtask, topics, use


async def attempt(number: int, details: Sequence[object], *, fails: bool = False, lost: int = 0) -> list[object]:
    """Make an attempt; return what it has told the server."""
    environment, told = ActivityEnvironment(cast("Client", _NoServer())), list[object](details)
    environment.on_heartbeat = lambda *given: told.__setitem__(slice(None), given)
    environment.info = replace(environment.info, attempt=number, heartbeat_details=list(details))

    async def body() -> None:
        begin().has_beaten = True
        async with quarantine("a call of poison", lost):
            if fails:
                raise ConnectionError

    with suppress(ConnectionError):
        await environment.run(body)
    return told


@pytest.mark.parametrize("ended", range(4))
async def test_only_lost_workers_count_towards_quarantine(ended: int) -> None:
    """Whatever number of attempts failed before, two workers may be lost, and a third attempt is refused."""
    told: list[object] = []
    for number in range(1, ended + 1):
        told = await attempt(number, told, fails=True)

    for lost in range(2):
        assert await attempt(ended + lost + 1, told) == told
    with pytest.raises(ApplicationError, match=r"2 workers were lost while they ran a call of poison") as refused:
        await attempt(ended + 3, told)
    assert (refused.value.type, refused.value.non_retryable) == (ErrorType.QUARANTINED, True)


async def test_workers_lost_inside_the_turn_activity_count() -> None:
    """A tool call that lost a worker while it ran inside the turn's activity is given to only one more worker."""
    assert await attempt(1, [], lost=1) == []
    with pytest.raises(ApplicationError, match=r"2 workers were lost while they ran a call of poison"):
        await attempt(2, [], lost=1)


def _lose(calls: list[ModelCall], *details: str, most: int = 9) -> Callable[[ModelCall], ModelReply]:
    def lose(call: ModelCall) -> ModelReply:
        calls.append(call)
        if len(calls) > most:
            return reply(answer("Found."))
        raise non_retryable_error(ErrorType.ATTEMPT_LOST, "A worker was lost.", *details)

    return lose


async def test_a_session_continues_after_a_quarantined_turn(tmp_path: Path) -> None:
    """A turn may lose two workers, or three while it waits for the provider; its subtask then fails alone."""
    lucky, waiting, working = list[ModelCall](), list[ModelCall](), list[ModelCall]()
    script = Script().plan(*topics(3)).work("T1", _lose(lucky, "waiting", most=2))
    script = script.work("T2", _lose(waiting, "waiting")).work("T3", _lose(working))
    async with open_environment(None, tmp_path, script.synthesis(report("Done."))) as opened:
        result = await opened.run(SessionRequest(goal="Find all, please.", review="never"))

    assert (len(lucky), len(waiting), len(working)) == (3, 3, 2)
    ends = [(record.state, record.reason) for record in result.subtasks]
    assert ends == [("success", ""), ("failure", "quarantined"), ("failure", "quarantined")]
    assert [gap[:2] for gap in result.gaps if "2 workers were lost while they ran" in gap] == ["T3"]


async def test_an_agent_continues_after_a_quarantined_tool_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tool result says that no other worker gets the call, and the subtask succeeds."""

    async def poison(*_: object) -> None:
        raise non_retryable_error(ErrorType.QUARANTINED, quarantined("a call of search_documents"))

    script = Script().plan(subtask("T1")).work("T1", use("search_documents"), answer("Found."))
    async with open_environment(None, tmp_path, script) as opened:
        monkeypatch.setattr(opened.tools["search_documents"], "use", poison)
        result = await opened.run(SessionRequest(goal="Find it, please.", review="never"))

    [told] = opened.model.tasks(WorkTask)[-1].rounds[0].results
    assert "2 workers were lost while they ran a call of search_documents, so no other gets it" in str(told.output)
    assert [(record.state, record.reason) for record in result.subtasks] == [("success", "")]
