"""Show a session's progress: a live tree on a terminal, one line per change elsewhere."""

import os
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from chargehand import PendingCall, Question, Status, SubtaskRecord
from chargehand.failure_causes import error_words
from chargehand.history.projection import Projection
from chargehand.history.steps import Draft
from chargehand.history.tree import under_way
from chargehand.state_words import SUBTASK_MARKS
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.rendering.progress import (
    TONES,
    argument_lines,
    record_reason,
    record_state,
    record_words,
    spend_facts,
    step_words,
)
from chargehand_cli.rendering.text import clock_time, duration, text_end
from chargehand_cli.terminal import console, say

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text
    from rich.tree import Tree

_REFRESHES_PER_SECOND: Final = 8
_GO_ON: Final = ("waiting", "running")
_TOLD: Final = ("plan", "synthesis")
"""Purposes of turns that the session's state already shows."""
_MOST_WRITTEN: Final = 150
"""Number of final characters shown of text being written."""

Clock = Callable[[], datetime]
Steps: TypeAlias = Sequence[tuple[str, Draft]]
"""Running steps, each with the path of its subtask."""


def now() -> datetime:
    return datetime.now(UTC)


def choose_progress(session_id: str, *, url: str = "", quiet: bool = False) -> "Progress":
    """Draw a tree if standard error is a terminal; otherwise write lines to it."""
    if quiet:
        return Lines(write=lambda _: None)
    is_drawn = sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    return LiveTree(session_id, url) if is_drawn else Lines()


class Lines:
    """Progress as one line per change."""

    def __init__(self, *, write: Callable[[str], object] = say, clock: Clock = now) -> None:
        self._write = write
        self._clock = clock
        self._started_at = clock()
        self._state = ""
        self._subtasks: dict[str, tuple[str, ...]] = {}
        self._remark = ""
        self._questions: set[tuple[str, datetime]] = set()
        self._calls: set[str] = set()
        self._turns: set[tuple[str, str]] = set()
        self.work: Projection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ending: object) -> None: ...

    def update(self, status: Status) -> None:
        self._update_subtasks(each for each in status.subtasks if each.state not in _GO_ON)
        if status.state != self._state:
            self._state = status.state
            spend = spend_facts(status) if status.turns else []
            self._line(" · ".join([f"session {status.standing.words}", *spend]))
        self._update_subtasks(each for each in status.subtasks if each.state in _GO_ON)
        for question in status.questions:
            if (question.subtask, question.open_until) not in self._questions:
                self._questions.add((question.subtask, question.open_until))
                self._line(f"? {one_safe_line(question.subtask, 20)} asks: {one_safe_line(question.text, 1_000)}")
        for call in status.calls:
            if call.id not in self._calls:
                self._calls.add(call.id)
                self._line(f"? {one_safe_line(call.subtask, 20)} asks to use {describe_call(call)}")
                for line in argument_lines(call):
                    self._write(f"{'':11}{line}")

    def _update_subtasks(self, records: Iterable[SubtaskRecord]) -> None:
        for record in records:
            current = (record.state, f"{record.attempts}", record.reason)
            if self._subtasks.get(record.id) != current:
                self._subtasks[record.id] = current
                self._line(describe_record(record, self._clock()))

    def note(self, work: Projection | None) -> None:
        """Write what the supervisor starts doing, unless the session's state shows it, and what is retried."""
        self.work = work
        for path, step in under_way(work) if work else ():
            is_new = not path and step.kind == "turn" and step.purpose not in _TOLD
            words = f"{one_safe_line(path or step.agent, 40)} {step_words(step)}"
            words += f": {_retry_words(step)}" if step.error else ""
            if (is_new or step.error) and (step.id, words) not in self._turns:
                self._turns.add((step.id, words))
                self._line(words)

    def remark(self, text: str) -> None:
        if text and text != self._remark:
            self._line(text)
        self._remark = text

    def hidden(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _line(self, text: str) -> None:
        now, began = self._clock(), self._started_at
        seconds = f"{(now - began).total_seconds():6.1f} s"
        self._write(f"[{clock_time(now, began) if now - began >= timedelta(hours=1) else seconds}] {text}")


class LiveTree:
    """A tree on the alternate screen, redrawn a few times a second; its final state stays, a line per subtask.

    Lines wrapped by a narrower terminal cannot be redrawn in place, so resizing would leave copies of them.
    """

    def __init__(self, session_id: str, url: str = "") -> None:
        from rich.live import Live

        self._session_id = session_id
        self._url = url
        self._status: Status | None = None
        self._remark = ""
        self.work: Projection | None = None
        self._started_at = now()
        self._console = console(sys.stderr)
        self._live = Live(
            get_renderable=self._screen,
            console=self._console,
            refresh_per_second=_REFRESHES_PER_SECOND,
            screen=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_ending: object) -> None:
        self._live.stop()
        self.work = None
        if self._status:
            self._console.print(self._tree())

    def update(self, status: Status) -> None:
        self._status = status

    def note(self, work: Projection | None) -> None:
        """Show the running steps from a session's histories; None once these are no longer read."""
        self.work = work

    def remark(self, text: str) -> None:
        self._remark = text

    @contextmanager
    def hidden(self) -> Generator[None]:
        self._live.stop()
        try:
            yield
        finally:
            self._live.start(refresh=True)

    def _screen(self) -> "Group":
        from rich.console import Group
        from rich.text import Text

        below = Text("\nCtrl-C: finish now, leave running or stop", style="bright_black")
        return Group(self._tree(), *([Text(f"\n{self._url}", style="bright_black")] if self._url else []), below)

    def _tree(self) -> "Tree":
        return session_tree(self._session_id, self._status, self._remark, now(), self._started_at, work=self.work)


Progress: TypeAlias = Lines | LiveTree
"""Shows a session's status and a remark while its context is entered, except while `hidden`."""


def session_tree(
    session_id: str,
    status: Status | None,
    remark: str,
    at: datetime,
    shown_since: datetime,
    *,
    work: Projection | None = None,
) -> "Tree":
    """Draw a session: its state, turns and dollars, its subtasks, and the running steps of each."""
    from rich.text import Text
    from rich.tree import Tree

    state, tone = status.standing if status else ("starting", "running")
    started_at, ended_at = (status.started_at, status.ended_at) if status else (None, None)
    began_at = started_at if started_at and ended_at else min(shown_since, started_at or shown_since)
    elapsed = duration((ended_at or at) - began_at)
    # Below the name, so that a narrow terminal truncates neither turns nor dollars.
    since = [f"since {clock_time(began_at, at)}"] if at - began_at >= timedelta(days=1) and not ended_at else []
    facts = " · ".join([*(spend_facts(status) if status else ()), elapsed, *since])
    head = _line((state, TONES[tone]), " ", (one_safe_line(session_id), "bold"), (f"\n{facts}", "bright_black"))
    tree = Tree(head, guide_style="bright_black")
    if status:
        going_on = [*under_way(work)] if work else []
        _add_steps(tree, "", going_on, at)
        _add_subtasks(tree, status, at, going_on)
        _add_decisions(tree, status, at)
    if remark:
        tree.add(Text(one_safe_line(remark, 300), style="yellow"))
    return tree


def _add_subtasks(tree: "Tree", status: Status, at: datetime, going_on: Steps) -> None:
    for record in status.subtasks:
        state, reason = record_state(record), record_reason(record)
        colour = TONES[state]
        subtask = tree.add(
            _line(
                (f"{SUBTASK_MARKS[state]} ", colour),
                (f"{one_safe_line(record.id, 20)} {one_safe_line(record.agent, 40)} ", "bold"),
                (record_words(record, at), colour),
                f"  {reason}" if reason else "",
                (f"  {one_safe_line(record.instruction, 400)}", "bright_black"),
            )
        )
        _add_steps(subtask, record.id, going_on, at)


def _add_steps(tree: "Tree", subtask: str, going_on: Steps, at: datetime) -> None:
    """Draw the running steps of a subtask or the session: their duration, and the end of text being written."""
    from rich.text import Text

    for path, step in going_on:
        name, _, below = path.partition("/")
        if name != subtask:
            continue
        began_at = step.started_at or step.scheduled_at
        who = f"{one_safe_line(below or ('' if path else step.agent), 40)} ".lstrip()
        facts = ", ".join([step_words(step), *([duration(at - began_at)] if began_at else [])])
        added = tree.add(_line((who, "bold"), (facts, TONES["running"])))
        if step.error:
            added.add(Text(_retry_words(step), style="yellow"))
        if step.written:
            added.add(Text(one_safe_line(text_end(step.written, _MOST_WRITTEN)), style="italic"))


def _retry_words(step: Draft) -> str:
    return f"{error_words(step.error)}; trying again"


def _add_decisions(tree: "Tree", status: Status, at: datetime) -> None:
    for question in status.questions:
        tree.add(_wait_line(question, "asks", one_safe_line(question.text, 400), at))
    for call in status.calls:
        branch = tree.add(_wait_line(call, "asks to use", describe_call(call), at))
        for line in argument_lines(call):
            branch.add(_line(line))


def _wait_line(wait: Question | PendingCall, asks: str, what: str, at: datetime) -> "Text":
    from rich.text import Text

    return Text.assemble(
        ("? ", "yellow"),
        (f"{one_safe_line(wait.subtask, 20)} {one_safe_line(wait.agent, 40)} {asks} ", "bold"),
        what,
        (f"  until {clock_time(wait.open_until, at)}", "bright_black"),
    )


def _line(*parts: str | tuple[str, str]) -> "Text":
    from rich.text import Text

    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def describe_call(call: PendingCall) -> str:
    return f"{one_safe_line(call.tool, 100)} ({call.id})"


def describe_record(record: SubtaskRecord, at: datetime) -> str:
    who = f"{SUBTASK_MARKS[record_state(record)]} {one_safe_line(record.id, 20)} {one_safe_line(record.agent, 40)}"
    more = one_safe_line(record.instruction, 120) if record.state in _GO_ON else record_reason(record)
    return ": ".join(filter(None, [who, record_words(record, at), more]))
