"""What a session waits for, put to its user in the terminal that shows it: questions, and the plan to approve."""

import asyncio
import os
import shlex
import tempfile
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from chargehand import ChargehandError, Plan, Question, Session, Status
from chargehand_cli.live_tree import Progress
from chargehand_cli.rendering.escaping import one_safe_line, safe_text
from chargehand_cli.rendering.progress import plan_lines
from chargehand_cli.run_options import BadRequest, read_plan
from chargehand_cli.terminal import prompt, read_line, say

_ANSWER: Final = "Your answer (leave empty to skip): "
_DECISION: Final = "[a]pprove, [e]dit, [r]eject, or leave empty to decide later: "
_EDITOR: Final = "vi"

Put = Callable[[], Awaitable[None]]


class Prompts:
    """Puts one thing after another to the user, each once and only while the session waits for it."""

    def __init__(self, session: Session, progress: Progress, read: Callable[[], Awaitable[str]] = read_line) -> None:
        """Answer for a session that `progress` shows."""
        self._session = session
        self._progress = progress
        self._read = read
        self._seen: set[Hashable] = set()
        self._current: tuple[Hashable, asyncio.Task[None]] | None = None
        self._is_withdrawn = False

    async def update(self, status: Status) -> None:
        """Withdraw a prompt that the session no longer waits for, then put the next one."""
        awaited = dict(self._awaited(status))
        if self._current and (self._current[1].done() or self._current[0] not in awaited):
            self._is_withdrawn = True
            await self.close()
        if self._current:
            return
        for what, (put, withdrawal) in awaited.items():
            if what not in self._seen:
                self._seen.add(what)
                self._is_withdrawn = False
                self._current = (what, asyncio.create_task(self._put(put, withdrawal)))
                return

    async def close(self) -> None:
        """End the prompt."""
        if self._current:
            _, task = self._current
            self._current = None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _awaited(self, status: Status) -> Iterator[tuple[Hashable, tuple[Put, str]]]:
        """List what the session waits for, each with what is said when it waits no longer."""
        if status.state == "awaiting_approval" and status.plan:
            yield "plan", (partial(self._decide, status.plan), "The plan is decided.")
        for question in status.questions:
            withdrawal = f"{one_safe_line(question.subtask)} is no longer waiting for an answer."
            yield (question.subtask, question.open_until), (partial(self._answer, question), withdrawal)

    async def _put(self, put: Put, withdrawal: str) -> None:
        with self._progress.hidden():
            try:
                await put()
            except asyncio.CancelledError:
                say("")  # ends the line of the prompt
                if self._is_withdrawn:
                    say(withdrawal)
                raise
            except ChargehandError as error:
                say(f"Not accepted: {error}")

    async def _answer(self, question: Question) -> None:
        subtask = one_safe_line(question.subtask)
        say(f"{subtask} ({one_safe_line(question.agent)}) asks:")
        say(f"  {safe_text(question.text)}")
        prompt(_ANSWER)
        if text := await self._read():
            await self._session.answer(subtask=question.subtask, text=text)
        else:
            say(f"Skipped. To answer later: `chargehand answer {self._session.id} --subtask {subtask} TEXT`")

    async def _decide(self, plan: Plan) -> None:
        """Show the plan until it is decided about, here or elsewhere."""
        given = plan
        while True:
            for line in plan_lines(plan):
                say(line)
            prompt(_DECISION)
            choice = (await self._read())[:1].lower()
            if choice == "e":
                plan = await _edited(plan)
            else:
                break
        if choice == "a":
            await (self._session.approve() if plan == given else self._session.edit(plan))
        elif choice == "r":
            prompt("Reason: ")
            reason = await self._read()
            await self._session.reject(reason)
        else:
            say(f"To decide later: `chargehand plan {self._session.id} --approve`, `--edit FILE` or `--reject REASON`")


async def _edited(plan: Plan) -> Plan:
    """Have the user edit a plan in $VISUAL or $EDITOR; what is not a plan is told, and the plan stays as it was."""
    with tempfile.TemporaryDirectory(prefix="chargehand-plan-") as folder:
        file = Path(folder) / "plan.json"
        file.write_text(plan.model_dump_json(indent=2) + "\n", encoding="utf-8")
        command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or _EDITOR)
        try:
            editor = await asyncio.create_subprocess_exec(*command, str(file))
            try:
                failed = await editor.wait()
            except asyncio.CancelledError:
                editor.terminate()
                raise
            if failed:
                say(f"{command[0]} failed; the plan is as it was.")
                return plan
            return read_plan(file)
        except OSError as error:
            say(f"{command[0]} cannot be started: {error.strerror}. Name another editor with EDITOR.")
        except BadRequest as error:
            say(str(error))
    return plan
