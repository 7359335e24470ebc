"""`chargehand chat`: one message per line, piped or typed."""

import asyncio
import re
import signal
from functools import partial
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.models.protocol import ModelCall
from tests.acceptance.commands import Commands, Terminal
from tests.crew_files import crew_folder
from tests.environment import open_environment
from tests.scripted_model import Held, Script, answer, request_tool, say, subtask
from tests.waiting import eventually
from tests.workflows.conftest import DESK
from tests.workflows.test_following import shown as shown_so_far


@pytest.mark.slow
async def test_each_piped_line_is_answered_on_standard_output(client: Client, tmp_path: Path) -> None:
    """Replies come in order, a job's reply last; without --id the conversation closes, with --id it stays open."""
    script = Script().plan(subtask("T1", agent="engineer")).work("", answer("Dry.")).replies("Hello", say("Hello."))
    script = script.replies("Find out", say("It has begun.", job="Find out why pumps fail."))
    script = script.replies("job j1", say("They ran dry."))
    async with open_environment(
        client, tmp_path, script, own_crews=(crew_folder(tmp_path, "desk", **DESK),), acting=("refund",)
    ) as opened:
        chargehand = Commands.of(opened.chargehand, tmp_path)
        ran = await chargehand("chat", "--crew", "desk", given="Hello\n\nFind out why.\n")
        left = await chargehand("chat", "--crew", "desk", "--id", "left", "--json", given="Hello\n")
        unknown = await chargehand("chat", "--crew", "nope", given="Hello\n")
        joined = await chargehand("chat", "--crew", "support", "--id", "left", given="")
        again = await chargehand("chat", "--id", "left", "--quiet", given="Bye\n/close\nNever said.\n")
        over = await chargehand("chat", "--id", "left", given="Said too late.\n")
        wrong = await chargehand("chat", "--crew", "desk", given="x" * 30_000 + "\nNever said.\n")
        [stopped] = re.findall(r"^Conversation (\S+)$", wrong.said, re.MULTILINE)
        ended = await opened.chargehand.conversation(stopped).result()
        [name] = re.findall(r"^Conversation (\S+)$", ran.said, re.MULTILINE)
        report = await chargehand("result", name)
        closed = await opened.chargehand.conversation(name).result()
        end = await opened.chargehand.conversation("left").result()

    assert (ran.code, ran.out) == (0, "Hello.\nIt has begun.\nThey ran dry.\n")
    assert (left.code, '"text":"Hello."' in left.out, again.out) == (0, True, "I see.\n")
    assert (unknown.code, unknown.out, "Conversation " in unknown.said) == (2, "", False)
    assert (over.code, over.out) == (1, "")
    assert over.said.startswith("chargehand: 'left' has ended (closed). It can no longer be changed")
    assert (wrong.code, wrong.out, ended.reason, ended.messages) == (2, "", "closed", 0)
    assert (joined.code, joined.out) == (2, "")
    assert "'left' exists and differs in crew: use another id" in joined.said
    assert (report.code, "is a conversation, which has a transcript and no report" in report.said) == (2, True)
    assert (closed.reason, closed.messages, closed.replies) == ("closed", 2, 3)
    assert (end.reason, end.messages) == ("closed", 2)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_tool_calls_can_be_approved_in_the_chat_or_by_another_client(
    client: Client, tmp_path: Path, terminal: Terminal
) -> None:
    """A refused message does not end the chat; another client's messages, decisions and close are shown."""
    written = asyncio.Event()

    def write(call: ModelCall) -> Held:
        shown_so_far(call, "You get", "content")
        return Held(say("You get it back."), written)

    script = Script().replies("money", request_tool("refund", amount=7), write).replies("Hello", say("Good day."))
    script = script.replies("more", request_tool("refund", amount=8), say("All.")).replies("Thanks", say("Welcome."))
    async with open_environment(
        client, tmp_path, script, own_crews=(crew_folder(tmp_path, "desk", **DESK),), acting=("refund",)
    ) as opened:
        running = await Commands.of(opened.chargehand, tmp_path).begin(
            "chat", "--crew", "desk", "--id", "shared", tty=terminal.theirs, screen=terminal.theirs
        )
        await terminal.read_until("> ")
        terminal.type("\x01")
        await terminal.read_until("Not accepted: ")
        terminal.type("I want my money back.")
        shown = await terminal.read_until("decide elsewhere: ")
        terminal.type("a")
        await terminal.read_until("You get")
        written.set()
        rest = await terminal.read_until("> ")
        elsewhere = opened.chargehand.conversation("shared")
        await elsewhere.say(text="Hello.")
        heard = await terminal.read_until("> ")
        terminal.type("I want more.")
        await terminal.read_until("decide elsewhere: ")
        await elsewhere.approve_call((await elsewhere.status()).calls[0])
        decided = await terminal.read_until("> ")
        terminal.type("Thanks.")
        await terminal.read_until("Welcome.")
        await terminal.read_until("> ")
        await elsewhere.close()
        ended = await terminal.read_until("has ended: closed.")
        await terminal.end_of(running)

    assert re.search(r"clerk asks to use refund\s+amount: 7", shown)
    assert rest.split("> ")[0].strip() == "it back."
    assert re.match(r"\r\nSaid elsewhere: Hello\.\s+Good day\.", heard)  # not on the prompt's line
    assert ended.startswith("\r\nThe conversation has ended: closed.")
    assert re.search(r"It is decided elsewhere\.\s+All\.", decided)
    assert [call["amount"] for call in opened.tools["refund"].calls] == [7, 8]


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_chat_can_be_left_at_any_moment(client: Client, tmp_path: Path, terminal: Terminal) -> None:
    """A resumed chat shows what followed the last message; the end of the input at a prompt leaves at once."""
    eggs, dry = Held(say("Boiled.")), Held(answer("Dry."))
    script = Script().replies("eggs", eggs).replies("Find out", say("It has begun.", job="Find out why pumps fail."))
    script = script.plan(subtask("T1", agent="engineer")).work("", dry)
    script = script.replies("money", request_tool("refund", amount=7))
    async with open_environment(
        client, tmp_path, script, own_crews=(crew_folder(tmp_path, "desk", **DESK),), acting=("refund",)
    ) as opened:
        commands, talk = Commands.of(opened.chargehand, tmp_path), opened.chargehand.conversation("resumed")
        begin = partial(
            commands.begin, "chat", "--crew", "desk", "--id", "resumed", tty=terminal.theirs, screen=terminal.theirs
        )
        interrupted = await begin()
        await terminal.read_until("> ")
        terminal.type("Two eggs.")
        await eggs.reached.wait()
        interrupted.send_signal(signal.SIGINT)
        await terminal.end_of(interrupted)
        eggs.released.set()
        await eventually(talk.transcript, lambda transcript: len(transcript.lines) == 2)
        back = await begin()
        seen = await terminal.read_until("> ")
        terminal.type("Find out why.")
        await terminal.read_until("It has begun.")
        terminal.type("I want my money back.")
        await terminal.read_until("decide elsewhere: ")
        terminal.type("\x04")
        await terminal.end_of(back)

        [call] = (await talk.status()).calls
        dry.released.set()

    assert (interrupted.returncode, back.returncode, call.arguments) == (130, 0, {"amount": 7})
    assert re.search(r"Said before: Two eggs\.\s+Boiled\.\s+> $", seen)
