"""What one subtask hands back: exactly one of four outcomes."""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from chargehand.contracts.base import Contract, Dollars, left_out

Confidence = Annotated[int, Field(ge=0, le=100)]
"""0 (a guess) to 100 (certain)."""


class Source(Contract):
    """Something that a tool really read."""

    ref: str
    """How agents and reports name it, unique in a session: `handbook.md#L10-L14`, `q3.pdf#page=2`, a URL, `sql:…`."""
    title: str = ""
    """A human title: heading path, page title, or the query."""
    url: str | None = None
    """Where it can be opened, if anywhere."""
    quote: str = ""
    """The words that stand there, verbatim."""


class Finding(Contract):
    """One claim and what it rests on."""

    claim: str
    """What is claimed, in a sentence that can stand alone."""
    sources: tuple[str, ...] = ()
    """`ref`s of the sources that say so; every one was returned by a tool of this subtask or of its inputs."""
    confidence: Confidence
    """How sure the agent is of this claim: 0 (a guess) to 100 (certain)."""


Severity = Literal["critical", "major", "minor"]


class Issue(Contract):
    """Something that a reviewer found wrong with what it was given."""

    severity: Severity
    """`critical` makes the whole unusable, `major` a part of it wrong, `minor` is worth mending."""
    location: str
    """Where it is: the subtask's id, and the words in question."""
    message: str
    """What is wrong."""
    suggestion: str = ""
    """What would mend it; empty if the reviewer knows no way."""
    confidence: Confidence
    """How sure the reviewer is: 0 (a guess) to 100 (certain)."""


class Artifact(Contract):
    """A file that a tool made, such as a chart; kept in the artifact store."""

    uri: str
    """Where it is kept: `artifact:<sha256>/<name>`."""
    name: str
    """File name."""
    media_type: str
    """Such as `image/png`."""
    bytes: int
    """Its size."""
    title: str = ""
    """What it shows, for people."""


class Usage(Contract):
    """What model calls cost. Adding two of them adds every field."""

    turns: int = 0
    """LLM calls."""
    input_tokens: int = 0
    """All input tokens, cached ones included."""
    cached_input_tokens: int = 0
    """Input tokens read from the provider's cache."""
    output_tokens: int = 0
    """Tokens that the models wrote."""
    cost_usd: Dollars = Decimal(0)
    """US dollars for all of it."""
    possibly_billed_twice_usd: Dollars = Decimal(0)
    """Part of `cost_usd` for calls whose fate is unknown: charged here at their worst case."""
    tool_calls: int = 0
    """Uses of tools."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})


class SpendLine(Contract):
    """Usage of one agent with one model for one purpose."""

    agent: str
    """Agent of the crew, or `supervisor`."""
    model: str
    """Model that answered, as its provider names it; empty for tools."""
    purpose: str
    """What it was for: the kind of turn (`plan`, `work`, `synthesis`, `refine`, `judge`, …), `tools`, or `lost`."""
    usage: Usage
    """What it came to."""


class _Ended(Contract):
    content: str = ""
    """The answer to the instruction, in Markdown; whatever there is, for the kinds that did not succeed."""
    findings: tuple[Finding, ...] = ()
    """Each claim by itself, with what it rests on."""
    sources: tuple[Source, ...] = ()
    """Every source that the findings name."""
    confidence: Confidence = 0
    """How sure the agent is of the whole: 0 (a guess) to 100 (certain)."""
    gaps: tuple[str, ...] = ()
    """What was asked for and could not be found or done."""
    issues: tuple[Issue, ...] = left_out(())
    """What a reviewer found wrong with the outcomes it was given."""
    artifacts: tuple[Artifact, ...] = left_out(())
    """Files that the subtask's tools made."""
    spend: tuple[SpendLine, ...] = ()
    """What the subtask cost, by agent, model and purpose."""


class Success(_Ended):
    """The instruction was carried out."""

    kind: Literal["success"] = "success"
    """Tells the four outcomes apart."""


class Partial(_Ended):
    """Some of it was carried out; `gaps` says what is missing."""

    kind: Literal["partial"] = "partial"
    """Tells the four outcomes apart."""
    reason: str = ""
    """Why it is not all, for people; a word of `FailureReason` if something stopped it."""


FailureReason = Literal[
    "provider_unavailable",
    "provider_refused",
    "refused",
    "truncated",
    "empty",
    "malformed",
    "no_answer",
    "out_of_rounds",
    "out_of_turns",
    "out_of_budget",
    "deadline",
    "cancelled",
    "duplicate",
    "skipped",
    "tool_unavailable",
    "terminated",
    "internal",
]
"""A fixed vocabulary, free of user text."""


class Failure(_Ended):
    """Nothing usable came out."""

    kind: Literal["failure"] = "failure"
    """Tells the four outcomes apart."""
    reason: FailureReason
    """What kind of failure, from a fixed vocabulary."""
    message: str = ""
    """What failed and what to do about it, for people."""


class Escalation(_Ended):
    """The agent hands the decision back to its supervisor."""

    kind: Literal["escalation"] = "escalation"
    """Tells the four outcomes apart."""
    reason: Literal["ambiguous_input", "out_of_scope", "confidence_too_low", "timeout", "too_big"]
    """Why the agent cannot decide by itself."""
    message: str = ""
    """What the decision is about, for people."""


Outcome = Annotated[Success | Partial | Failure | Escalation, Field(discriminator="kind")]
"""How a subtask ended; told apart by `kind`."""
