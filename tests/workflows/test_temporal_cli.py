"""The page about the Temporal CLI is run by the real program, command by command."""

import asyncio
import os
import re
import shlex
from pathlib import Path
from typing import Any, Final

import pytest
from temporalio.client import Client

from activities.models.protocol import ModelCall
from chargehand.messages import UPDATES
from chargehand.session import Session
from tests.conftest import temporal_program
from tests.scripted_model import Held, Script, Turn, answer, request_tool, say, subtask
from tests.waiting import until, until_state
from tests.workflows.conftest import OpenEnvironment
from tests.workflows.test_tool_approval import complaints_desk, pending

_PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "temporal-cli.md"
_BLOCK: Final = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HASH: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def commands(page: Path = _PAGE) -> list[list[str]]:
    """List the commands of a page in their order."""
    blocks = "".join(_BLOCK.findall(page.read_text(encoding="utf-8"))).replace("\\\n", "")
    return [shlex.split(line) for line in blocks.splitlines() if line.startswith("temporal ")]


@pytest.mark.slow
@pytest.mark.real_server
async def test_updates_can_be_sent_by_the_temporal_cli(
    environment: OpenEnvironment, client: Client, tmp_path: Path
) -> None:
    """Each command of the page does what the page says."""
    held, crews = Held(answer("Rotterdam.")), complaints_desk(tmp_path, 'approve = ["refund"]')

    def ask_first(call: ModelCall) -> Turn:
        asked = len([each for each in opened.model.of_kind("work") if each.agent == call.agent])
        return answer("By what?", status="ambiguous_input") if asked == 1 else held

    script = (
        Script()
        .plan(subtask("T1"), subtask("T2", after=["T1"]))
        .plan(subtask("T1", agent="clerk"), goal="complaint")
        .work("", ask_first, agent="reader")
        .work("", request_tool("refund", amount=7), answer("Settled."), agent="clerk")
    )
    done: list[str] = []
    async with environment(script, own_crews=(crews,), acting=("refund", "fraud_check", "letter")) as opened:
        ports, complaint = opened.chargehand.session("ports"), opened.chargehand.session("complaint")
        for command in commands():
            name = command[command.index("--name") + 1] if "--name" in command else ""
            call = await _is_ready_for(name, ports, complaint, held)
            replaced = {"chargehand": opened.chargehand.task_queue, "temporal": temporal_program()}
            words = [replaced.get(word, word).replace(_HASH, call) for word in command]
            await _run(client, *words)
            done += [name] if name else []
        held.released.set()
        first, second = await ports.result(), await opened.chargehand.session("ports-2").result()
        await complaint.result()
        listed = [each async for each in opened.chargehand.list(thread="ports")]

        async def has_goal() -> bool:
            listed[:] = [each async for each in opened.chargehand.list(thread="ports")]
            return len(listed) == 2

        await until(has_goal)

    assert set(done) <= set(UPDATES)
    assert first.stop_reason == "finish_now"
    assert second.follows == "ports"
    assert len(opened.tools["refund"].calls) == 1
    assert {each.goal for each in listed} == {
        "Who runs the largest ports of Europe?",
        "And which of them is the oldest?",
    }


@pytest.mark.real_server
async def test_a_conversation_can_be_held_by_the_temporal_cli(environment: OpenEnvironment, client: Client) -> None:
    """It is opened, talked with, read and closed by the commands of its page."""
    said: list[str] = []
    async with environment(Script().replies("pump", say("Is its lamp on?"))) as opened:
        for command in commands(_PAGE.with_name("conversations.md")):
            replaced = {"chargehand": opened.chargehand.task_queue, "temporal": temporal_program()}
            said.append(await _run(client, *(replaced.get(word, word) for word in command)))
        end = await opened.chargehand.conversation("pump").result()

    assert "Is its lamp on?" in said[1]
    assert "Is its lamp on?" in said[2]
    assert '"closed"' in said[-1]
    assert (end.reason, end.messages, end.replies) == ("closed", 1, 1)


async def _is_ready_for(name: str, ports: Session, complaint: Session, held: Held) -> str:
    """Wait until a session is where an update is for; returns the hash of the call to decide about."""
    match name:
        case "decide_plan":
            await until_state(ports, "awaiting_approval")
        case "answer":
            await until_state(ports, "awaiting_answer")
        case "edit_plan" | "tell" | "interrupt":
            await asyncio.wait_for(held.reached.wait(), 60)
        case "decide_call":
            [call] = await pending(complaint, 1)
            return call.hash
        case _:
            pass
    return _HASH


async def _run(client: Client, *command: str) -> str:
    environment: dict[str, Any] = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    environment |= {"TEMPORAL_ADDRESS": client.service_client.config.target_host}
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    written, _ = await process.communicate()
    assert process.returncode == 0, (command, written.decode())
    return written.decode()
