"""What servers that plug-ins run ask of a token."""

import re
from typing import Final

MIN_TOKEN_LENGTH: Final = 16
_TOKEN: Final = re.compile(rf"[A-Za-z0-9_-]{{{MIN_TOKEN_LENGTH},}}")


def is_token(text: str) -> bool:
    """Whether a text is long enough for a token, and needs no quoting in a header."""
    return _TOKEN.fullmatch(text) is not None
