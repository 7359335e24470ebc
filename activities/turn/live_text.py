"""The text that a model is writing, in the heartbeats of its turn, where followers read it.

It costs no history, is encrypted like every payload, and nothing but followers depends on it: it is gone as soon as the
reply is recorded, and the next attempt at the turn begins its own.
"""

import time
from typing import Final
from zlib import crc32

from pydantic import JsonValue
from pydantic_core import from_json

from activities.heartbeat import LIVE_SECONDS
from activities.models.protocol import LONGEST_TEXT
from activities.models.replies import within
from activities.turn.journal import Journal
from activities.turn_kinds.converse import ConverseTask
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import SynthesisTask
from chargehand.contracts import LiveText, LiveTexts

_LONGEST: Final = 6_000
"""The most characters that a heartbeat carries, the last ones: fewer bytes than go to external storage."""


class LiveReport:
    """Publishes what a model has written so far, a few times a second."""

    def __init__(self, journal: Journal, field: str) -> None:
        self._journal = journal
        self._field = field
        """Of the reply, which is JSON."""
        self._next = 0.0
        self._published = ""

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def show(self, written: str) -> None:
        """Publish the text of an unfinished reply."""
        self._next = time.monotonic() + LIVE_SECONDS
        text = _text_of(written, self._field)
        if not text or text == self._published:
            return
        self._published = text
        offset = max(0, len(text) - _LONGEST)
        before = crc32(text[:offset].encode(errors="surrogatepass"))
        self._journal.publish(LiveText(offset=offset, before=before, text=text[offset:]))


def live_report(task: Task, journal: Journal, texts: LiveTexts) -> LiveReport | None:
    """Publish the text of a turn that writes the whole report, a reply, or what else was asked for; else None."""
    is_read = texts == "agents" or isinstance(task, ConverseTask)
    is_read = is_read or (isinstance(task, SynthesisTask) and task.label == task.kind)
    return LiveReport(journal, task.text_field) if is_read and task.text_field else None


def _text_of(written: str, field: str) -> str:
    """Read a field of the beginning of a reply; empty if there is none yet."""
    if len(written) > LONGEST_TEXT:
        return ""
    try:
        # Some models put a code fence around JSON.
        value: JsonValue = from_json(written[written.find("{") :], allow_partial="trailing-strings")
    except ValueError:
        return ""
    text = within(value, field)
    return text if isinstance(text, str) else ""
