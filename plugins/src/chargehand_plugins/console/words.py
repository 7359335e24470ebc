"""The texts of the console, from `words.toml`."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

_FILE: Final = Path(__file__).with_name("words.toml")


@cache
def catalogue() -> Mapping[str, Mapping[str, str]]:
    """Load the texts by page and name."""
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def words(page: str, name: str, **values: object) -> str:
    """Return a text with values filled in."""
    text = catalogue()[page][name]
    return text % values if values else text
