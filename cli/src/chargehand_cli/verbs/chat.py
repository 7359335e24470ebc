"""Talk to a crew: `chat`, at a terminal or with one message per line from standard input."""

import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from chargehand import ChargehandError, InvalidInput
from chargehand.state_words import ENDED
from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import error_text, one_safe_line
from chargehand_cli.terminal import Exit, can_ask, prompt, put_json, put_markdown, put_part, say
from chargehand_cli.verb import FILES, AsJson, Documents, Quiet, verb

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from chargehand import Conversation, PendingCall, Reply

app = typer.Typer()

_LOOK_SECONDS: Final = 0.5
"""Delay between an event and the next look at the conversation, which shows all events so far."""
_CLOSE: Final = "/close"


@verb(app, location=FILES)
async def chat(
    connection: Connection,
    *,
    crew: Annotated[str | None, typer.Option(help="Crew that talks.", show_default="research")] = None,
    agent: Annotated[str | None, typer.Option(help="Agent that speaks first.", show_default="the first")] = None,
    docs: Documents = None,
    goal: Annotated[str | None, typer.Option(help="Background that the agents need.")] = None,
    budget: Annotated[float | None, typer.Option(help="Budget in US dollars.", show_default="5.00")] = None,
    conversation_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Conversation to continue or open.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> Exit:
    """Talk to the agents of a crew: one message per line, typed or piped, with replies on standard output."""
    typed = {"crew": crew, "agent": agent, "goal": goal, "limits": None if budget is None else {"budget_usd": budget}}
    fields: dict[str, Any] = {name: value for name, value in typed.items() if value is not None}
    await connection.open_with_worker()
    talk = await connection.chargehand.converse(documents=docs or (), conversation_id=conversation_id, **fields)
    await talk.opened()
    if not quiet:
        say(connection.describe())
        say(f"Conversation {talk.id}{': end it by /close, leave it by Ctrl-D' if can_ask() else ''}")
    is_closed = is_own = conversation_id is None and not sys.stdin.isatty()
    try:
        is_closed = await Chat(talk, as_json=as_json).hold() or is_own
    finally:
        if is_closed:
            with suppress(ChargehandError):  # it has ended in the meantime
                await talk.close()
        elif not quiet:
            say(_below_prompt(f"To go on: `chargehand chat --id {talk.id}`"))
    return Exit.DONE


@dataclass
class Chat:
    """A conversation on the terminal: the lines already shown or typed."""

    talk: "Conversation"
    as_json: bool
    _lines: "asyncio.Queue[str]" = field(default_factory=asyncio.Queue[str])
    _known: set[int] = field(default_factory=set[int])
    """Numbers of the transcript lines that were shown or typed here."""
    _seen: set[str] = field(default_factory=set[str])
    """Ids of calls already shown."""
    _asking: "asyncio.Task[None] | None" = None
    """The prompt for a decision, named by its call."""
    _written: dict[str, str] = field(default_factory=dict[str, str])
    """The part already shown of each reply being written, by subtask."""
    _replied_at: "datetime | None" = None
    _is_waiting: bool = False
    _has_news: asyncio.Event = field(default_factory=asyncio.Event)
    _is_followed: bool = True

    async def hold(self) -> bool:
        """Send typed lines until the input ends; return whether the conversation is over."""
        before = (await self.talk.transcript()).lines
        last = max((line.number for line in before if line.kind == "message"), default=1)
        self._known = {line.number for line in before if line.number < last or not can_ask()}
        self._replied_at = max((line.at for line in before), default=None)
        if can_ask():
            await self._show_news("Said before")
        # A daemon thread, so that an interrupted process does not wait for a line.
        Thread(target=_read, args=(asyncio.get_running_loop(), self._lines), daemon=True).start()
        following = asyncio.create_task(self._follow())
        try:
            return await self._talk()
        finally:
            following.cancel()

    async def _talk(self) -> bool:
        while text := await self._next():
            if text.strip() == _CLOSE:
                return True
            if text.strip():
                await self._say(text)
        if not can_ask():
            await self._wait_for_jobs()
        return False

    async def _follow(self) -> None:
        """Watch for events, and show replies on a terminal while they are written, new drafts below earlier ones."""
        shows_text = not self.as_json and sys.stdout.isatty()
        with suppress(ChargehandError):  # replies are then shown only when complete
            async for event in self.talk.follow():
                if event.kind != "text":
                    self._has_news.set()
                elif shows_text and self._is_waiting and not (self._replied_at and event.at <= self._replied_at):
                    if self._asking:  # it may have been decided elsewhere
                        self._ask((await self.talk.status()).calls)
                    if not event.offset:
                        put_part("\n\n" if self._written else "")
                        self._written[event.subtask] = ""
                    self._written[event.subtask] = self._written.get(event.subtask, "") + event.text
                    put_part(event.text)
        self._is_followed = False
        self._has_news.set()

    async def _news(self) -> None:
        """Wait until there may be news; an idle conversation is not polled."""
        await self._has_news.wait()
        await asyncio.sleep(_LOOK_SECONDS)
        if self._is_followed:
            self._has_news.clear()

    async def _ends_before_news(self, task: "asyncio.Task[Any]") -> bool:
        news = asyncio.create_task(self._news())
        await asyncio.wait({task, news}, return_when=asyncio.FIRST_COMPLETED)
        news.cancel()
        return task.done()

    async def _next(self) -> str:
        """Wait for a line, empty at the end of the input; meanwhile show finished jobs and activity elsewhere."""
        is_new, reading = True, asyncio.create_task(self._lines.get())
        while True:
            if is_new and can_ask():
                prompt("> ")
            if await self._ends_before_news(reading):
                return await reading
            is_new = await self._show_news()
            status = await self.talk.status()
            if status.state in ENDED:
                say(_below_prompt(f"The conversation has ended: {status.standing.words}."))
                return _CLOSE
            for call in status.calls:
                is_new |= self._show_call(call, is_asked=False)

    async def _say(self, text: str) -> None:
        try:
            saying = asyncio.create_task(self.talk.say(text=text))
        except InvalidInput as error:
            if not can_ask():
                raise
            say(f"Not accepted: {error_text(error)}")
            return
        self._is_waiting = True
        try:
            while not await self._ends_before_news(saying):
                if not self._is_waiting:  # the input has ended
                    return
                self._ask((await self.talk.status()).calls)
            self._ask(())
            self._show(await saying)
        finally:
            self._is_waiting = False
            saying.cancel()

    def _ask(self, calls: "Sequence[PendingCall]") -> None:
        """Show each call that needs approval once; at a terminal, ask until one is decided, here or elsewhere."""
        if self._asking and not self._asking.done():
            if self._asking.get_name() in {call.id for call in calls}:
                return
            self._asking.cancel()  # the next typed line is a message
            say("\nIt is decided elsewhere.")
        self._asking = None
        for call in calls:
            if self._show_call(call, is_asked=can_ask()) and can_ask():
                self._asking = asyncio.create_task(self._decide(call), name=call.id)
                return

    async def _decide(self, call: "PendingCall") -> None:
        prompt("[a]pprove, [r]eject, or leave empty to decide elsewhere: ")
        line = await self._lines.get()
        self._asking = None  # it is decided here
        if not line:
            self._lines.put_nowait(line)  # the end of the input also ends the messages
            self._is_waiting = False
            self._has_news.set()
        choice = line.strip()[:1].lower()
        try:
            if choice == "a":
                await self.talk.approve_call(call)
            elif choice == "r":
                await self.talk.reject_call(call)
        except ChargehandError as error:
            say(f"Not accepted: {error_text(error)}")

    async def _show_news(self, said: str = "Said elsewhere") -> bool:
        """Show replies about jobs or to messages sent elsewhere; at a terminal, show those messages, too."""
        lines = [line for line in (await self.talk.transcript()).lines if line.number not in self._known]
        for line in lines:
            if line.kind == "reply":
                prompt(_below_prompt(""))
                self._put(line.text, line.model_dump_json())
            elif line.kind == "message" and can_ask():
                say(_below_prompt(f"{said}: {one_safe_line(line.text, 1_000)}"))
        self._known |= {line.number for line in lines}
        return bool(lines)

    def _show_call(self, call: "PendingCall", *, is_asked: bool) -> bool:
        """Show a call, with how to decide it unless a prompt follows; return False if it was shown before."""
        if call.id in self._seen:
            return False
        self._seen.add(call.id)
        from chargehand_cli.rendering.progress import argument_lines

        say(_below_prompt(f"{one_safe_line(call.agent)} asks to use {one_safe_line(call.tool)}"))
        for line in argument_lines(call):
            say(f"    {line}")
        if not is_asked:
            say(f"To decide: `chargehand calls {self.talk.id} {call.id} --approve` or `--reject REASON`")
        return True

    async def _wait_for_jobs(self) -> None:
        while (await self.talk.transcript()).jobs or (await self.talk.status()).state == "executing":
            await self._news()
        await self._show_news()

    def _show(self, reply: "Reply") -> None:
        written = "\n\n".join(self._written.values())
        if written and reply.text.startswith(written):
            put_part(reply.text[len(written) :] + "\n")
        else:
            put_part("\n" if written else "")
            self._put(reply.text, reply.model_dump_json())
        self._written, self._replied_at = {}, reply.at
        for gap in () if self.as_json else reply.gaps:
            say(f"Gap: {one_safe_line(gap, 600)}")
        self._known |= {reply.number, *reply.answers}

    def _put(self, text: str, as_json: str) -> None:
        if self.as_json:
            put_json(as_json)
        else:
            put_markdown(text)


def _below_prompt(line: str) -> str:
    """Begin on a line of its own, below a prompt that was not answered."""
    return f"\n{line}" if can_ask() else line


def _read(loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[str]") -> None:
    with suppress(RuntimeError):  # the loop has ended
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")
