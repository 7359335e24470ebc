"""The text of a report while a model writes it, in the heartbeats of its turn, where `Session.follow()` reads it.

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
from activities.turn_kinds.registry import Task
from activities.turn_kinds.synthesis import SynthesisTask
from chargehand.contracts import LiveText

_LONGEST: Final = 6_000
"""The most characters that a heartbeat carries, the last ones: fewer bytes than go to external storage."""
_FIELD: Final = "answer"


class LiveReport:
    """Publishes what a model has written so far, a few times a second."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._next = 0.0
        self._published = ""

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def show(self, written: str) -> None:
        """Publish the report's text of an unfinished reply, which is JSON."""
        self._next = time.monotonic() + LIVE_SECONDS
        text = _text_of(written)
        if not text or text == self._published:
            return
        self._published = text
        offset = max(0, len(text) - _LONGEST)
        before = crc32(text[:offset].encode(errors="surrogatepass"))
        self._journal.publish(LiveText(offset=offset, before=before, text=text[offset:]))


def live_report(task: Task, journal: Journal) -> LiveReport | None:
    """Publish the text of a turn that writes the whole report; None for any other turn."""
    return LiveReport(journal) if isinstance(task, SynthesisTask) and task.label == task.kind else None


def _text_of(written: str) -> str:
    """Read the report's text in the beginning of a reply; empty if there is none yet."""
    if len(written) > LONGEST_TEXT:
        return ""
    try:
        # Some models put a code fence around JSON.
        value: JsonValue = from_json(written[written.find("{") :], allow_partial="trailing-strings")
    except ValueError:
        return ""
    text = within(value, _FIELD)
    return text if isinstance(text, str) else ""
