"""The request that starts a session, and its limits."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, cast

from pydantic import (
    BeforeValidator,
    Field,
    FieldSerializationInfo,
    StringConstraints,
    WithJsonSchema,
    field_serializer,
    model_validator,
)

from chargehand.contracts.authority import Authority, Capability
from chargehand.contracts.base import (
    Contract,
    Dollars,
    JsonSchema,
    Name,
    NoControlCharacters,
    NullIsEmpty,
    TypedByPeople,
    left_out,
)

__all__ = ["Limits", "SessionRequest", "Tier", "Tiers"]

_DOCUMENT: Final = r"^(artifact:[0-9a-f]{64}/.+|file:/.+|https://[^/\s].*)$"
_SHOWN: Final = 60
_SECONDS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_DURATION: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})?|(?:\d{1,9}(?:\.\d{1,9})?\s{0,9}(?:s|min|m|h|d)\s{0,9}){1,4}")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)?")
DURATION_EXPECTED: Final = "must be a duration such as 90s, 10m, 1h30m or PT10M, or a number of seconds"


def _explain_path(value: object) -> object:
    """Refuse what is no address in words, before the pattern does."""
    if not isinstance(value, str) or re.match(_DOCUMENT, value):
        return value
    name = value if len(value) <= _SHOWN else f"…{value[-_SHOWN:]}"
    if "://" in value or not value:
        raise ValueError(f"{name!r} is not an address that can be read: https:// is, and what an upload returns")
    raise ValueError(
        f"{name!r} is a path; pass documents=[{name!r}] to start(), or --docs to `chargehand run`, which upload it"
    )


DocumentUri = Annotated[
    str, StringConstraints(pattern=_DOCUMENT, max_length=2_000), NoControlCharacters, BeforeValidator(_explain_path)
]
"""The address of a document or folder: `artifact:<sha256>/<name>` as uploaded by the client, `file:/<path>` below a
folder that the operator allows, or a public document at `https://…`."""


WebhookAddress = Annotated[str, StringConstraints(pattern=r"^https?://[!-.0-~][!-~]*$", max_length=2_000)]
"""The address of a webhook, as it is sent: other characters than those of ASCII are written by their codes."""
SessionIdentifier = Annotated[str, StringConstraints(min_length=1, max_length=255), NoControlCharacters]
"""The id of a session, which is its workflow id."""


def _unquoted_number(value: object) -> object:
    if isinstance(value, str | bool):
        raise ValueError("must be a number, without quotes")
    return value


def _duration(value: object) -> object:
    """Read `90s`, `10m` or `1h30m`; pydantic reads seconds and ISO 8601."""
    if isinstance(value, bool):
        raise ValueError(DURATION_EXPECTED)
    if not isinstance(value, str) or not _DURATION.fullmatch(typed := value.strip().lower()):
        return value
    return sum(float(number) * _SECONDS[unit or "s"] for number, unit in _PART.findall(typed))


def _one_or_several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


DollarLimit = Annotated[
    Dollars,
    Field(gt=0, le=10_000),
    BeforeValidator(_unquoted_number),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 10_000}),
]
"""US dollars that a session may spend (more than 0, at most 10,000)."""

Criterion = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=3, max_length=1_000), NoControlCharacters
]
"""One demand on a report, in the user's words (3 to 1,000 characters)."""

Count = Annotated[int, Field(strict=True, ge=1)]
"""A whole number of at least 1, written without quotes."""


OutputTokens = Annotated[int, Field(ge=256, le=128_000)]
"""The most output tokens of one turn, thinking included (256 to 128,000)."""
Words = Annotated[int, Field(strict=True, ge=50, le=20_000)]
"""About how long a text is to be, in words (50 to 20,000)."""


def _duration_schema(most_seconds: int) -> dict[str, Any]:
    seconds = {"type": "number", "exclusiveMinimum": 0, "maximum": most_seconds}
    return {"anyOf": [{"type": "string", "examples": ["90s", "1h30m", "PT10M"]}, seconds]}


UpToADay = Annotated[
    timedelta,
    Field(gt=timedelta(0), le=timedelta(days=1)),
    BeforeValidator(_duration),
    WithJsonSchema(_duration_schema(86_400), mode="validation"),
]
"""A positive duration of at most a day: seconds, `90s`, `1h30m`, or ISO 8601 such as `PT10M`."""
UpToAWeek = Annotated[
    timedelta,
    Field(gt=timedelta(0), le=timedelta(days=7)),
    BeforeValidator(_duration),
    WithJsonSchema(_duration_schema(604_800), mode="validation"),
]
"""A positive duration of at most seven days."""

LONGEST_SESSION_ID: Final = 175
"""Characters. A child's id begins with it and is at most 80 longer, and databases keep ids of 255 characters."""
MOST_DOCUMENTS: Final = 200
"""Addresses that a session may read, with those of the sessions that it follows."""


class Tier(StrEnum):
    """How capable a model has to be; the operator's settings map each tier to a model."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


Effort = Literal["low", "medium", "high"]
"""How hard a model thinks before it answers, on models that can be told."""


class Limits(TypedByPeople):
    """Limits of one session, including everything it starts. The operator's ceilings apply as well."""

    max_turns: Annotated[Count, Field(le=1_000)] = 20
    """LLM calls in the whole session, whatever they are for (1 to 1,000)."""
    budget_usd: Annotated[DollarLimit, Field(json_schema_extra={"default": 2.0})] = Decimal("2.00")
    """US dollars that the whole session may spend on models (more than 0, at most 10,000)."""
    max_depth: Annotated[Count, Field(le=10)] = 5
    """Levels of delegation: 1 allows subtasks but no nested session (1 to 10)."""
    max_parallel: Annotated[Count, Field(le=100)] = 5
    """Subtasks of one supervisor that run at the same time (1 to 100)."""
    max_attempts: Annotated[Count, Field(le=10)] = 3
    """Attempts at one subtask (1 to 10)."""
    max_rounds: Annotated[Count, Field(le=250)] = 10
    """Rounds of model turn and tool calls in one subtask (1 to 250)."""
    max_reviews: Annotated[Count, Field(le=6)] = 2
    """Reviews of the outcomes of one supervisor, each of which may add subtasks (1 to 6)."""
    deadline: UpToAWeek = timedelta(minutes=10)
    """Time from the start until the report is written from the results so far: seconds, or ISO 8601 such as `PT10M`
    (at most 7 days)."""
    subtask_deadline: UpToADay = timedelta(minutes=5)
    """Time for one attempt of an agent at a subtask, after which it returns what it has: seconds, or ISO 8601
    (at most a day). A nested session, and an attempt with urgency `batch`, has until the session's deadline."""
    on_limit: Literal["finish", "pause"] = "finish"
    """What to do when a limit is reached: write the report from the results so far, or wait for higher limits."""


Profile = Literal["quick", "standard", "deep"]
"""How much work a request is worth: a set of limits, each of which can still be set by itself."""

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
"""How hard models think about plans, reports and work, unless the crew says so; as usual in the profile `standard`."""


class Tiers(TypedByPeople):
    """Model tiers that override the crew's."""

    supervisor: Tier | None = None
    """Tier for planning and synthesis; the crew's if absent."""
    agents: dict[Name, Tier] = {}
    """Tier by agent name; other agents keep the crew's."""


class Delegation(Contract):
    """What a session passes to a nested session. Set by a supervisor; refused from anyone else."""

    session: str
    """Id of the session at the root of the tree."""
    run: str
    """Identifies the run of that session in the ids of its children."""
    depth: int
    """Hops from the root: 1 for its direct children."""
    ancestors: tuple[str, ...]
    """Fingerprints of the work that this session is part of, the root's first."""
    deadline_at: datetime
    """When the nested session has to end, whatever its own deadline is."""
    goal_reads: tuple[Capability, ...] = ()
    """What kinds of text the goal rests on."""
    authority: Authority = Authority()
    """What the agents of the parent session may do; those of this one may do no more."""
    crew_changes: bool = left_out(False)
    """Whether its crew is another than its parent's, so that this crew's routes apply to it."""
    overcharges: Annotated[dict[str, Annotated[float, Field(ge=1)]], Field(max_length=20)] = left_out({})
    """How many times its worst case a call of each model has cost, for models that charge more than can be bounded."""
    crew_version: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$|^$")] = left_out("")
    """Digest of the crews, tools and models that the session began with."""


class SessionRequest(TypedByPeople):
    """One user request. Only `goal` is required."""

    goal: Annotated[str, StringConstraints(strip_whitespace=True, min_length=3, max_length=20_000), NoControlCharacters]
    """What the user wants to know or have done, in their own words (3 to 20,000 characters)."""
    crew: Name = "research"
    """Name of the crew that does the work."""
    documents: Annotated[tuple[DocumentUri, ...], Field(max_length=MOST_DOCUMENTS), NullIsEmpty] = ()
    """Documents and folders that the agents may read (200 at most; a folder counts once)."""
    follows: SessionIdentifier | None = None
    """Id of a finished session of the same tenant and namespace: this one knows its goal, answer, findings and
    sources, and those that it follows in brief, but has limits of its own."""
    earlier_documents: bool = True
    """Whether the documents of the session that it follows can be read too."""
    profile: Profile | None = None
    """Limits for a quick answer (8 turns, $0.25), the usual ones (`standard`), or those for deep research (300 turns,
    $25, an hour); the crew's if absent, which is `standard` unless its file says otherwise."""
    limits: Limits = Limits()
    """Limits of this session; those that are absent are the profile's, or the crew's if no profile is named."""
    length_words: Words | None = None
    """About how long the report is to be, in words (50 to 20,000): as long as it needs to be if absent. From 3,000
    words on it is written by section, which takes a turn for the outline and one for each 1,000 words."""
    criteria: Annotated[
        tuple[Criterion, ...],
        Field(max_length=20),
        NullIsEmpty,
        BeforeValidator(_one_or_several, json_schema_input_type=Criterion | tuple[Criterion, ...]),
    ] = ()
    """What makes a report good: a text, or a list of 20 criteria at most. A model with a context of its own grades the
    report by each of them; where one is not met, the report is revised, twice at most and within the limits."""
    output_schema: JsonSchema | None = None
    """A JSON Schema (draft 2020-12 or 7, at most 32,000 bytes) that the report's `output` is to satisfy, beside its
    text. A model fills it from the report, and mends what is invalid, twice at most and within the limits."""
    approval: Literal["none", "plan"] = "none"
    """`plan` makes the session wait after planning until a person approves, edits or rejects the plan. A crew may
    require that of every request."""
    review: Literal["auto", "always", "never"] = "auto"
    """Whether a judge reads the outcomes and may add subtasks, and a critic reads the report before it is returned.
    `auto` does what the crew says, and else does so when something is missing, doubtful or contradictory."""
    questions: Literal["none", "allowed"] = "none"
    """`allowed` lets an ambiguous subtask ask a person, who answers by the Update `answer`."""
    answer_within: UpToAWeek = timedelta(minutes=5)
    """How long a question, or a tool call that needs approval, waits for a person: seconds, or ISO 8601. Then the
    subtask continues without an answer, and the call is denied."""
    urgency: Literal["now", "batch"] = "now"
    """`batch` lets models answer within hours at half the price, where the provider offers it. The deadline holds."""
    tenant: Name = "default"
    """The tenant that the session runs for; tenants share the workers fairly."""
    priority: Annotated[int, Field(strict=True, ge=1, le=5)] = 3
    """Order in a backlog, 1 (first) to 5 (last)."""
    tiers: Tiers = Tiers()
    """Model tiers that override the crew's."""
    webhook: WebhookAddress | None = left_out(None)
    """Where to announce the session's end, at a host that the operator allows: a signed POST without any text of the
    session, repeated for a day until it is answered with 2xx."""
    delegation: Delegation | None = None
    """Set by a supervisor that delegates; refused from anyone else."""

    @field_serializer("limits")
    def _write_given_limits(self, limits: Limits, info: FieldSerializationInfo) -> dict[str, Any]:
        """Leave out what the crew may decide."""
        return limits.model_dump(mode=info.mode, exclude_unset=True)

    @model_validator(mode="before")
    @classmethod
    def _take_limits_of_profile(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        request = cast("dict[str, Any]", fields)
        profile, limits = request.get("profile"), request.get("limits", {})
        usual = PROFILES.get(cast("Profile", profile)) if isinstance(profile, str) else None
        given = limits.model_dump(mode="json", exclude_unset=True) if isinstance(limits, Limits) else limits
        if usual is None or not isinstance(given, dict):
            return request
        return {**request, "limits": {**usual.model_dump(mode="json"), **cast("dict[str, Any]", given)}}
