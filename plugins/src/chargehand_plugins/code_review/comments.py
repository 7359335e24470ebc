"""Comments of earlier reviews, from JSON exports of GitHub, GitLab and Bitbucket. Pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

_MOST_VALUES: Final = 200_000
_MOST_COMMENTS: Final = 5_000
_LONGEST_COMMENT: Final = 2_000
_NAMES: Final = {
    "path": (("path",), ("position", "new_path"), ("position", "old_path"), ("inline", "path")),
    "line": (("line",), ("original_line",), ("position", "new_line"), ("position", "old_line"), ("inline", "to")),
    "author": (("user", "login"), ("author", "username"), ("user", "display_name")),
    "time": (("created_at",), ("created_on",)),
    "text": (("body",), ("content", "raw")),
}
"""Field names of each service."""


@dataclass(frozen=True)
class PastComment:
    path: str
    line: int
    """The line; 0 if the export has none."""
    author: str
    date: str
    text: str


def comments_in(text: str) -> list[PastComment]:
    """Read the comments on files of an export, newest first; none from anything else.

    An export is one JSON value, or one per fetched page.
    """
    comments: list[PastComment] = []
    waiting = list(_values(text))
    for _ in range(_MOST_VALUES):
        if not waiting or len(comments) >= _MOST_COMMENTS:
            break
        value = waiting.pop()
        if isinstance(value, list):
            waiting += cast("list[object]", value)
        elif isinstance(value, dict):
            fields = cast("dict[str, object]", value)
            if comment := _comment(fields):
                comments.append(comment)
            waiting += [each for each in fields.values() if isinstance(each, dict | list)]
    return sorted(comments, key=lambda one: one.date, reverse=True)


def _values(text: str) -> Iterator[object]:
    decoder, start = json.JSONDecoder(), 0
    while start < len(text):
        if text[start].isspace():
            start += 1
            continue
        try:
            value, start = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return
        yield value


def _comment(value: object) -> PastComment | None:
    path, line, author, time, text = (_first(value, _NAMES[name]) for name in _NAMES)
    if not isinstance(path, str) or not isinstance(text, str) or not text.strip():
        return None
    return PastComment(
        path=path,
        line=line if isinstance(line, int) else 0,
        author=author[:100] if isinstance(author, str) else "",
        date=time[:10] if isinstance(time, str) else "",
        text=" ".join(text.split())[:_LONGEST_COMMENT],
    )


def _first(value: object, places: tuple[tuple[str, ...], ...]) -> object:
    for place in places:
        node = value
        for name in place:
            node = cast("dict[str, object]", node).get(name) if isinstance(node, dict) else None
        if node is not None:
            return node
    return None
