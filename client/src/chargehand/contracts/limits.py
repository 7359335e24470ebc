"""The limits of a session, the profiles that set them, model tiers and effort."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from chargehand.contracts.base import WHOLE, Dollars, Name, TypedByPeople
from chargehand.contracts.durations import UpToADay, UpToAWeek

__all__ = ["Limits", "Tier", "Tiers"]


def _unquoted_number(value: object) -> object:
    if isinstance(value, str | bool):
        raise ValueError("must be a number such as 2.50, without quotes")
    return value


DollarLimit = Annotated[
    Dollars,
    Field(gt=0, le=10_000),
    BeforeValidator(_unquoted_number),
    WithJsonSchema({"type": "number", "minimum": 1e-9, "maximum": 10_000}),
]
"""US dollars that a session may spend (a nanodollar or more, at most 10,000)."""


MOST_TURNS: Final = 1_000
Turns = Annotated[int, Field(strict=True, ge=1, le=MOST_TURNS), WHOLE]
Parallel = Annotated[int, Field(strict=True, ge=1, le=100), WHOLE]
Rounds = Annotated[int, Field(strict=True, ge=1, le=250), WHOLE]
OutputTokens = Annotated[int, Field(ge=256, le=128_000)]
"""Maximum output tokens of one turn, thinking included (256 to 128,000)."""
Words = Annotated[int, Field(strict=True, ge=50, le=20_000), WHOLE]
"""Approximate length of a text in words (50 to 20,000)."""


class Tier(StrEnum):
    """Capability of a model; the operator's settings map each tier to a model."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


Effort = Literal["low", "medium", "high"]
"""Reasoning effort, for models that support it."""


class Limits(TypedByPeople):
    """Limits of one session, including everything it starts. The operator's ceilings also apply."""

    max_turns: Turns = 20
    """LLM calls in the whole session, whatever they are for (1 to 1,000)."""
    budget_usd: Annotated[DollarLimit, Field(json_schema_extra={"default": 2.0})] = Decimal("2.00")
    """US dollars that the whole session may spend on models (more than 0, at most 10,000)."""
    max_depth: Annotated[int, Field(strict=True, ge=1, le=10), WHOLE] = 5
    """Levels of delegation: 1 allows subtasks but no nested session (1 to 10)."""
    max_parallel: Parallel = 5
    """Maximum agents of the whole session working at the same time (1 to 100)."""
    max_attempts: Annotated[int, Field(strict=True, ge=1, le=10), WHOLE] = 3
    """Attempts at one subtask (1 to 10)."""
    max_rounds: Rounds = 10
    """Rounds of model turn and tool calls in one attempt at a subtask (1 to 250)."""
    max_reviews: Annotated[int, Field(strict=True, ge=1, le=6), WHOLE] = 2
    """Reviews of the outcomes of one supervisor, each of which may add subtasks (1 to 6)."""
    deadline: UpToAWeek = timedelta(minutes=10)
    """Time from the start until the report is written from the results so far: seconds, or ISO 8601 such as `PT10M`
    (at most 7 days)."""
    subtask_deadline: UpToADay = timedelta(minutes=5)
    """Time for one attempt of an agent at a subtask, after which it returns its results so far: seconds, or ISO 8601
    (at most a day). A nested session, and an attempt with urgency `batch`, has until the session's deadline."""
    on_limit: Literal["finish", "pause"] = "finish"
    """At a limit: write the report from the results so far, or wait for higher limits."""

    def above(self, ceilings: "Limits") -> list[str]:
        """List the names of the limits that are higher than an installation's ceilings."""
        names = (name for name in type(self).model_fields if name != "on_limit")
        return [name for name in names if getattr(self, name) > getattr(ceilings, name)]

    if TYPE_CHECKING:  # fields accept more types than they store

        def __init__(
            self,
            *,
            max_turns: int = ...,
            budget_usd: Decimal | float = ...,
            max_depth: int = ...,
            max_parallel: int = ...,
            max_attempts: int = ...,
            max_rounds: int = ...,
            max_reviews: int = ...,
            deadline: timedelta | float | str = ...,
            subtask_deadline: timedelta | float | str = ...,
            on_limit: Literal["finish", "pause"] = ...,
        ) -> None: ...


Profile = Literal["quick", "standard", "deep"]
"""A set of limits for the amount of work that a request deserves; each limit can still be set separately."""

PROFILES: Final[Mapping[Profile, Limits]] = {
    "quick": Limits(
        max_turns=8,
        budget_usd=Decimal("0.25"),
        max_parallel=3,
        max_rounds=4,
        max_reviews=1,
        deadline=timedelta(minutes=3),
        subtask_deadline=timedelta(minutes=2),
    ),
    "standard": Limits(),
    "deep": Limits(
        max_turns=300,
        budget_usd=Decimal("25.00"),
        max_parallel=10,
        max_rounds=20,
        max_reviews=6,
        deadline=timedelta(hours=1),
        subtask_deadline=timedelta(minutes=20),
    ),
}
"""The limits of each profile."""

EFFORTS: Final[Mapping[Profile, Effort]] = {"quick": "low", "deep": "high"}
"""Reasoning effort for plans, reports and work unless the crew sets it; the defaults apply in `standard`."""


class Tiers(TypedByPeople):
    """Model tiers that override the crew's."""

    supervisor: Tier | None = None
    """Tier for planning and synthesis; the crew's if absent."""
    agents: dict[Name, Tier] = {}
    """Tier by agent name; other agents keep the crew's."""
