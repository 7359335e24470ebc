"""Recorded sessions, replayed on the real server by the activities that recorded them."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from activities.contracts.tool import Tool
from activities.models.protocol import Model, ModelCall, ModelReply
from activities.models.tiers import Models
from activities.turn_kinds.work import WorkTask
from chargehand.client import Chargehand
from chargehand.contracts import Report, SessionRequest
from chargehand.errors import SessionTerminated
from chargehand_plugins.tape.verbs import read_request
from chargehand_plugins.tape.worker import TapeSettings, with_recorder
from tests.crew_files import READS_THE_WEB, crew_folder
from tests.environment import TOOLS, scripted_cards
from tests.scripted_model import Script, ScriptedModel, ScriptedTool, answer, found, report, subtask, use, work_task
from worker.composition import compose
from worker.parts import Traffic, TrafficWrapper
from worker.settings import Settings
from worker.workers import build_worker

GOAL = SessionRequest(goal="What do the documents say about the topics?")
TAPES = Path(__file__).resolve().parents[5] / "examples" / "tapes"

SERVER = """[[mcp]]
name = "time"
command = "no-such-program"
environment = ["TOKEN"]
tools = ["now"]"""


class TapedSettings(Settings, TapeSettings):
    """The settings of a worker with this plug-in."""

    model_config = Settings.model_config


@asynccontextmanager
async def worker(
    client: Client, folder: Path, *wrappers: TrafficWrapper, tape: Path | None = None
) -> AsyncGenerator[Chargehand]:
    """Run a worker as `worker_main` composes it."""
    settings = TapedSettings(state_dir=folder, task_queue=f"tape-{uuid4().hex[:8]}", tape_replay=tape)
    async with AsyncExitStack() as closing:
        activities = await compose(settings, os.environ, closing, *wrappers)
        async with build_worker(client, settings, activities):
            yield Chargehand(client, settings.task_queue)


async def run(chargehand: Chargehand, request: SessionRequest = GOAL) -> Report:
    return await (await chargehand.start(request)).result()


@dataclass(frozen=True)
class Late:
    """A model that makes one subtask wait for the plan's others."""

    model: Model
    words: str
    others: set[str] = field(default_factory=set[str])
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def complete(self, call: ModelCall) -> ModelReply:
        if isinstance(call.task, WorkTask):
            if self.words in call.task.instruction:
                await self.done.wait()
            elif call.task.rounds:
                self.others.add(call.task.instruction)
                if len(self.others) == 2:
                    self.done.set()
        return await self.model.complete(call)


def scripted(closing: AsyncExitStack, tape: Path) -> TrafficWrapper:
    """Have a scripted model and scripted tools answer, and record their traffic."""
    tools: dict[str, Tool] = {name: ScriptedTool(name, found(f"{name}.md#L1", f"what {name} read")) for name in TOOLS}
    models = Models(ScriptedModel(SCRIPT), scripted_cards())
    return lambda traffic: with_recorder(Settings(), tape, closing, Traffic(models, {**traffic.tools, **tools}, ()))


def cited(call: ModelCall) -> BaseModel:
    source = work_task(call).rounds[0].results[0].sources[0]
    return answer(f"Known by the {call.agent} [{source.ref}].", ref=source.ref, quote=source.quote)


PLANNED = Script().plan(subtask("T1"), subtask("T2", "analyst"), subtask("T3"))
SCRIPT = PLANNED.work("", lambda call: use(call.tools[0].name), cited).synthesis(report("All is known [S1] [S2]."))


async def recorded(client: Client, folder: Path) -> tuple[Report, Path]:
    """Run and record a session with scripted backends."""
    tape = folder / "tape.jsonl"
    async with AsyncExitStack() as closing, worker(client, folder, scripted(closing, tape)) as chargehand:
        return await run(chargehand), tape


def said(result: Report) -> tuple[object, ...]:
    """Return the parts of a report that sessions with the same traffic have in common."""
    states = [(record.id, record.state, record.usage) for record in result.subtasks]
    return result.answer, result.sources, result.gaps, result.usage, result.stop_reason, states


async def test_a_replayed_session_gives_the_recorded_report(client: Client, tmp_path: Path) -> None:
    """Answer, sources, costs and states match in any order of requests, and the report says it is a replay."""

    def reversed_speed(traffic: Traffic) -> Traffic:
        return Traffic(replace(traffic.models, adapter=Late(traffic.models.adapter, "T1")), traffic.tools, ())

    first, tape = await recorded(client, tmp_path)
    async with worker(client, tmp_path / "other", reversed_speed, tape=tape) as chargehand:
        again = await run(chargehand)

    assert said(again) == said(first)
    assert again.brain == "scripted-1 (replayed)"


async def test_a_request_missing_from_the_tape_terminates_the_session(client: Client, tmp_path: Path) -> None:
    """It ends at once, and the error names the turn and what differs."""
    _, tape = await recorded(client, tmp_path)
    tape.write_text(
        tape.read_text().replace('"kind":"synthesis","agent":"supervisor"', '"kind":"synthesis","agent":"x"')
    )
    async with worker(client, tmp_path / "other", tape=tape) as chargehand:
        with pytest.raises(SessionTerminated) as ended:
            await run(chargehand)

    assert str(ended.value).endswith(
        'Not on the tape: the synthesis turn of supervisor on "What do the documents say about the topics?". '
        'The nearest entry differs: `agent` is "supervisor" here and "x" there.'
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wind-limits", "engine-faults"])
async def test_the_shipped_tapes_replay(client: Client, tmp_path: Path, name: str) -> None:
    """Each replays without documents: two agents succeed, and every citation has a quoted source."""
    tape = TAPES / f"{name}.jsonl"
    async with worker(client, tmp_path, tape=tape) as chargehand:
        result = await run(chargehand, SessionRequest.model_validate(read_request(tape)))

    assert result.stop_reason == "completed"
    assert [record.state for record in result.subtasks] == ["success", "success"]
    assert result.gaps == ()
    assert set(re.findall(r"\[S(\d+)\]", result.answer)) == {str(number + 1) for number in range(len(result.sources))}
    assert all(source.quote for source in result.sources)
    assert all(source.about for source in result.sources if source.ref.startswith("sql:"))
    assert result.brain == "hand-written (replayed)"


async def test_a_replay_starts_no_mcp_server(tmp_path: Path) -> None:
    """A worker with a tape needs neither the program nor the variables of a declared server."""
    crews = crew_folder(tmp_path, "clock", SERVER, timekeeper=f'tools = ["time_now"]\n{READS_THE_WEB}')
    settings = TapedSettings(state_dir=tmp_path / "state", crews=crews, tape_replay=TAPES / "wind-limits.jsonl")

    async with AsyncExitStack() as closing:
        assert await compose(settings, {}, closing)
