"""The data of one session or subtask is not visible to any other."""

import asyncio
import re
from pathlib import Path
from typing import Final

import pytest
from pydantic import BaseModel

from activities.models.protocol import ModelCall
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Report, SessionRequest
from tests.activities.pages.page_server import serve_pages
from tests.scripted_model import Script, answer, report, request_tools, subtask, work_task
from tests.security.environment import Engine, open_stand
from tests.security.obedient import SECRET, prompt_text

_SESSIONS = 8


def _secret(number: int) -> str:
    return f"CANARY{number:016}"


def _repeat(call: ModelCall) -> BaseModel:
    return answer(f"SIBLING-{_mark(call)} says: {prompt_text(call)}"[:9_000])


_READ: Final = request_tools(
    ("read_document", {"document": "own.md", "first": 1, "last": 0}),
    ("search_documents", {"query": "account number", "document": ""}),
)
_PLANNED: Final = Script().plan(subtask("T1"), subtask("T2"), subtask("T3", "writer", ["T1"])).work("", _READ, _repeat)
_WORKED: Final = _PLANNED.work("", _repeat, agent="writer")
_TELLING: Final = _WORKED.synthesis(lambda call: report(prompt_text(call)[:9_000]))
"""Repeats everything: the whole prompt is the answer."""


# On a busy machine a heartbeat comes late, and the SDK warns of an activity that has ended meanwhile.
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:Cannot find activity to cancel")
async def test_concurrent_sessions_share_nothing(tmp_path: Path) -> None:
    """No prompt, tool call or report of a session holds a secret of another; a subtask sees no sibling."""
    for number in range(_SESSIONS):
        folder = tmp_path / "documents" / str(number)
        folder.mkdir(parents=True)
        (folder / "own.md").write_text(f"# Ledger\n\nThe account number is {_secret(number)}.\n")

    async with (
        serve_pages() as web,
        open_stand(tmp_path, _TELLING, web, Engine(), roots=[tmp_path / "documents"]) as stand,
    ):

        async def run(number: int) -> Report:
            goal = f"What is the account number of {_secret(number)}?"
            documents = (f"file:{tmp_path}/documents/{number}/",)
            request = SessionRequest(goal=goal, documents=documents, review="never")
            return await (await stand.chargehand.start(request, session_id=f"apart-{number}")).result()

        reports = await asyncio.gather(*map(run, range(_SESSIONS)))
        calls, uses = stand.model.calls, stand.uses

    owners = [_owner(call.idempotency_key) for call in calls]
    foreign = [
        (owner, call.task.kind)
        for owner, call in zip(owners, calls, strict=True)
        if set(SECRET.findall(prompt_text(call))) - {_secret(owner)}
    ]
    assert foreign == []
    assert [report.session for number, report in enumerate(reports)
            if set(SECRET.findall(report.model_dump_json())) != {_secret(number)}] == []  # fmt: skip
    assert [used for used in uses if set(SECRET.findall(str(used.arguments))) - {_secret(_owner(used.session))}] == []
    works = [call for call in calls if isinstance(call.task, WorkTask)]
    seen = {(_mark(call), sibling) for call in works for sibling in re.findall(r"SIBLING-(T\d)", prompt_text(call))}
    assert seen == {("T3", "T1")}
    assert len(calls) >= _SESSIONS * 6


def _owner(workflow: str) -> int:
    found = re.match(r"apart-(\d+)", workflow)
    assert found
    return int(found[1])


def _mark(call: ModelCall) -> str:
    found = re.search(r"topic (T\d)", work_task(call).instruction)
    assert found
    return found[1]
