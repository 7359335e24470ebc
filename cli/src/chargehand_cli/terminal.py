"""What goes where: results to standard output, everything said meanwhile to standard error."""

import sys
from typing import TYPE_CHECKING

from chargehand_cli.rendering.escaping import safe_text

if TYPE_CHECKING:
    from rich.console import Console


def say(line: str) -> None:
    """Tell the user something that is not the result."""
    sys.stderr.write(safe_text(line) + "\n")
    sys.stderr.flush()


def put(text: str) -> None:
    """Write a part of the result."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def put_markdown(markdown: str) -> None:
    """Write Markdown: rendered on a terminal, as it is elsewhere."""
    if not sys.stdout.isatty():
        put(safe_text(markdown))
        return
    from rich.markdown import Markdown  # noqa: PLC0415  # only terminals need it

    # Links are shown with their address: a hidden one could lead anywhere.
    output_console().print(Markdown(safe_text(markdown), hyperlinks=False))


def output_console() -> "Console":
    """Build the console of standard output."""
    from rich.console import Console  # noqa: PLC0415  # only terminals need it

    return Console(file=sys.stdout, highlight=False)


def note_console() -> "Console":
    """Build the console of standard error."""
    from rich.console import Console  # noqa: PLC0415  # only terminals need it

    return Console(file=sys.stderr, highlight=False)
