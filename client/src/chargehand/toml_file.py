"""Reads a TOML file written by people, checking bounds before parsing it."""

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

_KEY: Final = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*"|'[^'\n]*')"""
# tomllib takes a minute for a dotted key of 100 KB. Possessive, so that the search itself takes no time.
_ENDLESS_KEY: Final = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_KEY}[ \t]*+\.[ \t]*+){{20}}{_KEY}")


_MOST_BYTES: Final = 256 * 1024


class UnusableToml(Exception):  # noqa: N818  # it is raised as a statement of fact
    """The file is unreadable; the message says why, without its name."""


def read_toml(file: Path, most_bytes: int = _MOST_BYTES) -> Mapping[str, object]:
    """Read the tables of a file.

    Raises:
        UnusableToml: it is missing, too large, too deep, or not TOML.
    """
    try:
        if file.exists() and not file.is_file():  # opening a named pipe would block
            raise UnusableToml("is not a regular file")
        with file.open("rb") as opened:
            data = opened.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise UnusableToml(f"is larger than {most_bytes // 1024} KiB")
        return _tables(data.decode())
    except OSError as error:
        raise UnusableToml(f"cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # also for impossible dates and numbers
        raise UnusableToml(parser_words(error) or f"is not TOML: {error}") from error


def parser_words(error: Exception) -> str:
    """Word what Python's parsers raise about any text with advice to programmers; empty for other errors."""
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 text (byte {error.start + 1})"
    return "has a number of too many digits" if "int_max_str_digits" in str(error) else ""


@lru_cache(maxsize=100)
def _tables(text: str) -> Mapping[str, object]:
    """Parse a text, cached because several parts of a starting worker need it."""
    if _ENDLESS_KEY.search(text):
        raise UnusableToml("has a key of more than 20 parts; no table is that deep")
    return tomllib.loads(text)
