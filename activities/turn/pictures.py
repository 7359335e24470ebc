"""Pictures in a conversation: it names them, and each turn reads them for a model that sees."""

import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from activities.models.abilities import can_see
from activities.turn_kinds.protocol import Message, Picture, ToolText

_PNG: Final = b"\x89PNG"
_UNSEEN: Final = "(There is a picture, which this model cannot see.)"
_GONE: Final = "(There was a picture, which cannot be read any more.)"


Read = Callable[[str], Awaitable[bytes | None]]
"""Reads a picture by its name; None if it is gone."""


async def show_pictures(messages: Sequence[Message], read: Read, model: str) -> tuple[Message, ...]:
    """Add the pictures that tools' results name, or say that they are not shown."""
    shown: list[Message] = []
    for message in messages:
        results = [await _shown(result, read, model) if result.pictures else result for result in message.results]
        shown.append(message.model_copy(update={"results": tuple(results)}))
    return tuple(shown)


async def _shown(result: ToolText, read: Read, model: str) -> ToolText:
    if not can_see(model):
        return hide_pictures(result)
    contents = [await read(name) for name in result.pictures]
    if None in contents:
        return hide_pictures(result, _GONE)
    return result.model_copy(update={"shown": tuple(_picture(content) for content in contents if content)})


def hide_pictures(result: ToolText, why: str = _UNSEEN) -> ToolText:
    """Say that pictures are not shown."""
    text = f"{result.text}\n{why}" if result.pictures else result.text
    return result.model_copy(update={"text": text, "pictures": (), "shown": ()})


def _picture(content: bytes) -> Picture:
    kind = "image/png" if content.startswith(_PNG) else "image/jpeg"
    return Picture(media_type=kind, base64=base64.b64encode(content).decode())
