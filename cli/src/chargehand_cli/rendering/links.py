"""Links in a report's text: to the report's own sources, and nowhere else."""

import re
from collections.abc import Collection
from typing import Final

_MARK: Final = re.compile(r"<(?=[A-Za-z/!?])|(?<=\])[(:]")


def without_links(markdown: str, known: Collection[str] = ()) -> str:
    """Escape links, pictures, their definitions and HTML in Markdown, so that they are seen as they were written.

    Only plain links to known addresses stay. Nothing is left that a viewer would load.
    """
    targets = "|".join(re.escape(address) for address in sorted(known, key=len, reverse=True) if address)
    kept = re.compile(rf"(?<!!)\[[^\[\]\n<!]*\]\((?:{targets})\)") if targets else None
    parts: list[str] = []
    at = 0
    for match in kept.finditer(markdown) if kept else ():
        parts += [_escaped(markdown[at : match.start()]), match[0]]
        at = match.end()
    return "".join([*parts, _escaped(markdown[at:])])


def is_web_address(url: str) -> bool:
    """Whether something can be a link at all: of the web, and nothing in it that could end the link early."""
    return re.fullmatch(r"https?://[^\s<>()\[\]\"\\]+", url) is not None


def _escaped(text: str) -> str:
    return _MARK.sub(lambda match: "&lt;" if match[0] == "<" else f"\\{match[0]}", text)
