"""The request that starts a session, and its limits."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Final, Literal, cast

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    FieldSerializationInfo,
    StringConstraints,
    ValidationError,
    field_serializer,
    model_validator,
)

from chargehand.contracts.authority import Authority, Capability
from chargehand.contracts.base import (
    ALLOWED_CHARACTER,
    WHOLE,
    Contract,
    Flag,
    Form,
    JsonSchema,
    Name,
    NoControlCharacters,
    NullIsEmpty,
    Overcharge,
    TypedByPeople,
    left_out,
)
from chargehand.contracts.durations import AnswerTime
from chargehand.contracts.limits import PROFILES, Limits, Profile, Tiers, Words

__all__ = ["SessionRequest"]


_DOCUMENT: Final = r"^(artifact:[0-9a-f]{64}/.+|file:/.+|https://[^/\s].*)$"
_SHOWN: Final = 60
LONGEST_GOAL: Final = 20_000
MOST_DOCUMENTS: Final = 200
"""Maximum document addresses of a session, including those of the sessions that it follows."""


def _explain_path(value: object) -> object:
    """Refuse an invalid address with an explanation, before the pattern does."""
    if isinstance(value, dict | DocumentReference):
        raise ValueError("an object has a `uri` that can be read and, if need be, `trusted`, true or false")
    if not isinstance(value, str) or re.match(_DOCUMENT, value):
        return value
    name = value if len(value) <= _SHOWN else f"…{value[-_SHOWN:]}"
    if "://" in value or not value:
        raise ValueError(f"{name!r} is not an address that can be read: https:// is, and what an upload returns")
    raise ValueError(
        f"{name!r} is a path; pass documents=[{name!r}] to start(), or --docs to `chargehand run`, which upload it"
    )


DocumentUri = Annotated[
    str,
    StringConstraints(pattern=_DOCUMENT, max_length=2_000),
    NoControlCharacters,
    Field(json_schema_extra={"pattern": _DOCUMENT.replace(".", ALLOWED_CHARACTER)}),
    BeforeValidator(_explain_path),
]
"""The address of a document or folder: `artifact:<sha256>/<name>` as uploaded by the client, `file:/<path>` below a
folder that the operator allows, or a public document at `https://…`."""


class DocumentReference(TypedByPeople):
    """A document, and whether the caller vouches for it."""

    uri: DocumentUri
    """Its address."""
    trusted: Flag = False
    """Whether its text contains no instructions by strangers and may be sent out: see `trusted_documents`."""


def _reference(value: object) -> object:
    """Parse a reference; anything else is left for the field to refuse."""
    if isinstance(value, dict):
        with suppress(ValidationError):
            return DocumentReference.model_validate(value)
    return cast("object", value)


Documents = Annotated[
    tuple[DocumentUri, ...],
    Field(max_length=MOST_DOCUMENTS),
    NullIsEmpty,
    BeforeValidator(lambda value: value, json_schema_input_type=tuple[DocumentUri | DocumentReference, ...] | None),
]
TrustedDocuments = Annotated[tuple[DocumentUri, ...], Field(max_length=MOST_DOCUMENTS)]

LiveTexts = Literal["report", "agents"]

SEALED: Final = "sealed:"
"""Prefix of every sealed credential."""
Credentials = Annotated[
    dict[Name, Annotated[str, Form(rf"^{SEALED}[A-Za-z0-9_-]+=*$", "must be sealed: use `seal_credentials`", 8_000)]],
    Field(max_length=10),
]
"""Credentials sealed by `chargehand.credentials.seal_credentials`, by name."""

WebhookAddress = Annotated[
    str,
    Form(
        r"^https?://[!-.0-~][!-~]*$",
        "must be an address such as https://example.com/hook, of at most 2,000 characters; percent-encode spaces and "
        "letters outside ASCII",
        2_000,
    ),
]
"""The address of a webhook; characters outside ASCII are percent-encoded."""
LONGEST_ID: Final = 255
"""Maximum characters of an id, which every database of Temporal can store."""
SessionIdentifier = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID), NoControlCharacters]
"""The id of a session, which is its workflow id."""
LONGEST_SESSION_ID: Final = LONGEST_ID - 80
"""Shorter than `LONGEST_ID`, since a child's id adds up to 80 characters to it."""
Criterion = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=3, max_length=1_000), NoControlCharacters
]
"""One requirement for a report, in the user's words (3 to 1,000 characters)."""


class StartRequest(TypedByPeople):
    """Common fields of session and conversation requests."""

    # An unsealed value may be a plain-text credential.
    model_config = ConfigDict(hide_input_in_errors=True)

    goal: str
    crew: Name = "research"
    """Name of the crew that does the work."""
    documents: Documents = ()
    """Documents and folders that the agents may read (200 at most; a folder counts once): addresses, or objects with
    `uri` and `trusted`."""
    trusted_documents: TrustedDocuments = left_out(())
    """Those of `documents` that the caller vouches for: they contain no text by strangers, and their text may be sent
    out. If all are trusted, agents that have read them may reach out without a person's approval."""
    tenant: Name = "default"
    """The tenant that it runs for; tenants share the workers fairly."""
    priority: Annotated[int, Field(strict=True, ge=1, le=5), WHOLE] = 3
    """Order in a backlog, 1 (first) to 5 (last)."""
    tiers: Tiers = Tiers()
    """Model tiers that override the crew's."""
    webhook: WebhookAddress | None = left_out(None)
    """Where to announce its end, at a host allowed by the operator: a signed POST without any session text, retried for
    up to a day until the response is 2xx."""
    credentials: Credentials = left_out({})
    """The user's own sealed credentials for tools and MCP servers, by the names that these request (10 at
    most)."""

    @model_validator(mode="before")
    @classmethod
    def _split_references(cls, fields: object) -> object:
        """Replace document references by their addresses, and collect the trusted ones."""
        request = cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}
        documents, noted = request.get("documents"), request.get("trusted_documents", ())
        if not isinstance(documents, list | tuple) or not isinstance(noted, list | tuple):
            return cast("object", fields)
        read = [_reference(each) for each in cast("Sequence[object]", documents)]
        named = [each for each in read if isinstance(each, DocumentReference)]
        if not named:
            return cast("object", fields)
        trusted = (*cast("Sequence[object]", noted), *(each.uri for each in named if each.trusted))
        uris = [each.uri if isinstance(each, DocumentReference) else each for each in read]
        return {**request, "documents": uris, "trusted_documents": trusted}


class Delegation(Contract):
    """What a session passes to a nested session. Set by a supervisor; refused from anyone else."""

    session: str
    """Id of the session at the root of the tree."""
    run: str
    """Identifies the run of that session in the ids of its children."""
    depth: int
    """Hops from the root: 1 for its direct children."""
    path: str = left_out("")
    """Its subtask below the root, such as `T2` or `T2/T1`."""
    ancestors: tuple[str, ...]
    """Fingerprints of the work that this session is part of, root first."""
    deadline_at: datetime
    """When the nested session must end, whatever its own deadline."""
    goal_reads: tuple[Capability, ...] = ()
    """Kinds of text in the goal."""
    said: tuple[str, ...] = left_out(())
    """The user's own words: the root session's goal and the user's answers."""
    authority: Authority = Authority()
    """The authority of the parent session's agents, which this session's agents may not exceed."""
    others_act: bool = left_out(False)
    """Whether agents of the sessions above may have side effects while this session runs."""
    crew_changes: bool = left_out(False)
    """Whether its crew differs from its parent's, in which case this crew's routes apply."""
    overcharges: Annotated[dict[str, Overcharge], Field(max_length=20)] = left_out({})
    """Observed ratio of cost to worst case by model, for models that charge more than their bound."""
    crew_version: Annotated[str, Form(r"^[0-9a-f]{64}$|^$", "must be a digest in hexadecimal")] = left_out("")
    """Digest of the crews, tools and models at the session's start."""


def _without_delegation(schema: dict[str, Any]) -> None:
    del schema["properties"]["delegation"]


class SessionRequest(StartRequest):
    """One user request. Only `goal` is required."""

    model_config = ConfigDict(json_schema_extra=_without_delegation)

    goal: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=3, max_length=LONGEST_GOAL), NoControlCharacters
    ]
    """What the user wants to know or have done, in their own words (3 to 20,000 characters)."""
    follows: SessionIdentifier | None = None
    """Id of a finished session of the same tenant and namespace. This session knows that session's goal, answer,
    findings and sources, and summaries of the sessions before it, but has its own limits."""
    earlier_documents: Flag = True
    """Whether the documents of the followed session can be read too."""
    profile: Profile | None = None
    """Limits for a quick answer (8 turns, $0.25), the usual ones (`standard`), or those for deep research (300 turns,
    $25, an hour); the crew's if absent, which is `standard` unless its file says otherwise."""
    limits: Limits = Limits()
    """Limits of this session; absent ones are the profile's, or the crew's if no profile is named."""
    length_words: Words | None = None
    """Approximate length of the report in words (50 to 20,000); no target if absent. From 3,000
    words on it is written by section, which takes a turn for the outline and one for each 1,000 words."""
    criteria: Annotated[
        tuple[Criterion, ...],
        Field(max_length=20),
        NullIsEmpty,
        BeforeValidator(
            lambda given: (given,) if isinstance(given, str) else given,
            json_schema_input_type=Criterion | tuple[Criterion, ...],
        ),
    ] = ()
    """What makes a report good: a text, or a list of 20 criteria at most. A model with a separate context grades the
    report by each of them; if one is not met, the report is revised, at most twice and within the limits."""
    output_schema: JsonSchema | None = None
    """A JSON Schema (draft 2020-12 or 7, at most 32,000 bytes) for the report's `output`, in addition to its
    text. A model fills it from the report and corrects invalid values, at most twice and within the limits."""
    approval: Literal["none", "plan"] = "none"
    """`plan` makes the session wait after planning until a person approves, edits or rejects the plan. A crew may
    require that of every request."""
    review: Literal["auto", "always", "never"] = "auto"
    """Whether a judge reads the outcomes and may add subtasks, and a critic reads the report before it is returned.
    `auto` follows the crew, or else does both if something is missing, doubtful or contradictory."""
    questions: Literal["none", "allowed"] = "none"
    """`allowed` lets an ambiguous subtask ask a person, who answers by the Update `answer`."""
    answer_within: AnswerTime | None = None
    """How long a question, a tool call, a plan or a session at its limits waits for a person: seconds, `8h`, `3d`,
    ISO 8601, or `none` for a week. Then the subtask continues without an answer, the call is denied, and a plan or
    limits end the session. If absent, 15 minutes for a question and a working day for everything else. The deadline is
    extended by the wait."""
    urgency: Literal["now", "batch"] = "now"
    """`batch` lets models answer within hours at half the price, if the provider offers it. The deadline applies."""
    live_text: LiveTexts = left_out("report")
    """Text that followers can read while it is written: the report's, or with `agents` also every agent's, which
    costs the server up to four additional heartbeats per second and agent."""
    delegation: Delegation | None = None
    """Set by a supervisor that delegates; refused from anyone else."""

    @field_serializer("limits")
    def _write_given_limits(self, limits: Limits, info: FieldSerializationInfo) -> dict[str, Any]:
        """Omit unset limits, which the crew may decide."""
        return limits.model_dump(mode=info.mode, exclude_unset=True)

    @property
    def vouches_for_documents(self) -> bool:
        """Whether the text of all its documents may be sent out."""
        return bool(self.documents) and {*self.documents} <= {*self.trusted_documents}

    @model_validator(mode="before")
    @classmethod
    def _take_limits_of_profile(cls, fields: object) -> object:
        if not isinstance(fields, dict):
            return fields
        request = cast("dict[str, Any]", fields)
        profile, limits = request.get("profile"), request.get("limits", {})
        usual = PROFILES.get(cast("Profile", profile)) if isinstance(profile, str) else None
        overrides = limits.model_dump(mode="json", exclude_unset=True) if isinstance(limits, Limits) else limits
        if usual is None or not isinstance(overrides, dict):
            return request
        return {**request, "limits": {**usual.model_dump(mode="json"), **cast("dict[str, Any]", overrides)}}
