"""Build contracts from what callers pass to the client's methods."""

from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from chargehand.converter import describe_problems, join_problems, printable
from chargehand.errors import InvalidInput

_Model = TypeVar("_Model", bound=BaseModel)

LONGEST_SESSION_ID: Final = 175
"""Characters. A child's id begins with it and is at most 80 longer, and databases keep ids of 255 characters."""


def contract(kind: type[_Model], **fields: object) -> _Model:
    """Build a contract; fields that are None are absent.

    Raises:
        InvalidInput: a field is invalid.
    """
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        problems = join_problems(describe_problems(error, kind))
        raise InvalidInput(f"Invalid {kind.__name__}: {problems}") from error


def valid_id(text: str) -> str:
    """Check an id that a caller chose for a session.

    Raises:
        InvalidInput: it is empty, too long or has characters that cannot be shown.
    """
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_SESSION_ID:
        raise InvalidInput(
            f"session_id: {printable(text, 40)!r} cannot be used; "
            f"give 1 to {LONGEST_SESSION_ID} characters that can be shown"
        )
    return text
