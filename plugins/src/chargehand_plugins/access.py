"""What servers that plug-ins run ask of a token, and when they need TLS."""

import ipaddress
import re
from typing import Final

MIN_TOKEN_LENGTH: Final = 16
_TOKEN: Final = re.compile(rf"[A-Za-z0-9_-]{{{MIN_TOKEN_LENGTH},}}")


def is_token(text: str) -> bool:
    """Whether a text is long enough for a token, and needs no quoting in a header."""
    return _TOKEN.fullmatch(text) is not None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
