"""What `doctor` finds."""

from collections.abc import Callable

from chargehand_cli.exit_codes import Exit
from chargehand_cli.terminal import put


class Findings:
    """What was found, put out line by line as it is found."""

    def __init__(self, write: Callable[[str], object] = put) -> None:
        self._write = write
        self.worst = Exit.DONE

    def fine(self, what: str) -> None:
        self._write(f"✔ {what}")

    def note(self, what: str) -> None:
        self._write(f"· {what}")

    def wrong(self, what: str, meaning: Exit = Exit.FAILED) -> None:
        self._write(f"✘ {what}")
        self.worst = max(self.worst, meaning)
