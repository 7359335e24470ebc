"""The findings of `doctor`."""

from collections.abc import Callable

from chargehand_cli.terminal import Exit, put


class Findings:
    """What `doctor` found, written line by line."""

    def __init__(self, write: Callable[[str], object] = put) -> None:
        self._write = write
        self.worst = Exit.DONE

    def good(self, text: str) -> None:
        self._write(f"✔ {text}")

    def note(self, text: str) -> None:
        self._write(f"· {text}")

    def bad(self, text: str, code: Exit = Exit.FAILED) -> None:
        self._write(f"✘ {text}")
        self.worst = max(self.worst, code)
