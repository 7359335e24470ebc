"""A request as it was typed. Standard library only."""

from dataclasses import dataclass

from chargehand.errors import ChargehandError


class BadRequest(ChargehandError):  # noqa: N818  # reads as a statement: `except BadRequest`
    """The request cannot be used; the message names each field."""


@dataclass(frozen=True)
class Typed:
    """A request as options give it; None is what was not typed."""

    goal: str | None = None
    input: str | None = None
    """A file with a request as JSON, or `-` for standard input."""
    crew: str | None = None
    budget: float | None = None
    turns: int | None = None
    deadline: str | None = None
    parallel: int | None = None
    depth: int | None = None
    attempts: int | None = None
    rounds: int | None = None
    approve_plan: bool = False
    subtask_deadline: str | None = None
    on_limit: str | None = None
    review: str | None = None
    questions: bool = False
    answer_within: str | None = None
    urgency: str | None = None
