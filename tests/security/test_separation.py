"""What belongs to one session, or to one subtask, is seen by no other."""

import asyncio
import re
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.contracts import SubtaskDraft, ToolCall
from activities.models.protocol import ModelCall, ModelReply
from activities.turn_kinds.plan import PlanTask
from activities.turn_kinds.work import WorkTask
from chargehand.contracts import Report, SessionRequest
from tests.scripted_model import answer, plan, reply, report, usage
from tests.security.environment import Engine, open_stand, open_web
from tests.security.obedient import SECRET, prompt_text

_SESSIONS = 50


def _secret(number: int) -> str:
    return f"CANARY{number:016}"


def _draft(id_: str, agent: str, *after: str) -> SubtaskDraft:
    instruction = f"Do the part of the work that is called {id_}."
    return SubtaskDraft(id=id_, agent=agent, instruction=instruction, depends_on=list(after), required=[])


def _telling(call: ModelCall) -> ModelReply:
    """Repeat everything: the whole prompt is the answer."""
    told = prompt_text(call)
    match call.task:
        case PlanTask():
            return reply(plan(_draft("T1", "reader"), _draft("T2", "reader"), _draft("T3", "writer", "T1")))
        case WorkTask(rounds=()) if "called T1" in call.task.instruction or "called T2" in call.task.instruction:
            calls = (
                ToolCall(id="1", tool="read_document", arguments={"document": "own.md", "first": 1, "last": 0}),
                ToolCall(id="2", tool="search_documents", arguments={"query": "account number", "document": ""}),
            )
            return ModelReply(stop="tools", tool_calls=calls, model="m", provider="p", usage=usage())
        case WorkTask():
            mark = re.search(r"called (T\d)", call.task.instruction)
            return reply(answer(f"SIBLING-{mark[1] if mark else ''} says: {told}"[:9_000]))
        case _:
            return reply(report(told[:9_000]))


# On a busy machine a heartbeat comes late, and the SDK warns of an activity that has ended meanwhile.
@pytest.mark.filterwarnings("ignore:Cannot find activity to cancel")
async def test_fifty_sessions_at_once_share_nothing(client: Client, tmp_path: Path) -> None:
    """No prompt, tool call or report of a session holds a secret of another; a subtask sees no sibling."""
    for number in range(_SESSIONS):
        folder = tmp_path / "documents" / str(number)
        folder.mkdir(parents=True)
        (folder / "own.md").write_text(f"# Ledger\n\nThe account number is {_secret(number)}.\n")

    async with (
        open_web() as web,
        open_stand(client, tmp_path, _telling, web, Engine(), roots=[tmp_path / "documents"]) as stand,
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
    seen = {(mark, sibling) for call in works for mark, sibling in _siblings(call)}
    assert seen == {("T3", "T1")}
    assert len(calls) >= _SESSIONS * 6


def _owner(workflow: str) -> int:
    found = re.match(r"apart-(\d+)", workflow)
    assert found
    return int(found[1])


def _siblings(call: ModelCall) -> list[tuple[str, str]]:
    assert isinstance(call.task, WorkTask)
    mark = re.search(r"called (T\d)", call.task.instruction)
    return [(mark[1] if mark else "", sibling) for sibling in re.findall(r"SIBLING-(T\d)", prompt_text(call))]
