"""Links and pictures of what models write: what was not read is text, so that following it takes the whole address.

A viewer of Markdown fetches pictures by itself, and shows other words than the address of a link.
"""

import re
from collections.abc import Collection
from typing import Final

from chargehand.contracts import Source

_DESTINATION: Final = re.compile(r"(?<=\])\((\s*<?)")
_DEFINITION: Final = re.compile(r"(?<=\]):(?=[\s<>]*(?:[A-Za-z][\w+.-]*:|[/\\&]))")
_TAG: Final = re.compile(r"<(?=[A-Za-z][A-Za-z0-9-]*[\s/])")
"""The beginning of an HTML tag that may have attributes."""
_LOCAL: Final = re.compile(r"#[\w-]+(?=[\s)>])|[\w-][\w.-]*(?=[\s)>])")
"""A place in the text, or the name of a file."""
_ENDS: Final = (")", ">", " ", "\n")


def inert_links(text: str, sources: Collection[Source]) -> str:
    """Break the links and pictures that lead elsewhere than to a source or a file of the report."""
    known = tuple({each.url for each in sources if each.url})

    def is_known(at: int) -> bool:
        return _LOCAL.match(text, at) is not None or any(
            text.startswith(url, at) and text[at + len(url) : at + len(url) + 1] in _ENDS for url in known
        )

    broken = _DESTINATION.sub(lambda found: found[0] if is_known(found.end()) else f" {found[0]}", text)
    return _TAG.sub("< ", _DEFINITION.sub(" :", broken))
