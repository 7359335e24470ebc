"""The tokens that clients of a command's server present, set by an environment variable."""

import os
import re
import secrets
from typing import Final

from chargehand_cli.run_options import BadRequest

_LEAST_CHARACTERS: Final = 16
_TOKEN: Final = re.compile(rf"[A-Za-z0-9_-]{{{_LEAST_CHARACTERS},}}")
"""Needs no quoting in a header."""


def token_from(variable: str) -> str:
    """Return the token in an environment variable; a random one if it is not set.

    Raises:
        BadRequest: it cannot be used.
    """
    token = os.environ.get(variable) or secrets.token_urlsafe(24)
    if not _TOKEN.fullmatch(token):
        raise BadRequest(f"{variable} must have at least {_LEAST_CHARACTERS} characters: letters, digits, '-' and '_'.")
    return token
