"""The result of a subtask: exactly one of four outcomes."""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from chargehand.contracts.base import Contract, Dollars, left_out

__all__ = [
    "Artifact",
    "Escalation",
    "Failure",
    "Finding",
    "Issue",
    "Outcome",
    "Partial",
    "Source",
    "SpendLine",
    "Success",
    "Usage",
]

Confidence = Annotated[int, Field(ge=0, le=100)]
"""0 (a guess) to 100 (certain)."""


Verification = Literal["contradicted", "unsupported", "cited", "computed", "supported"]
"""How well a claim is verified, weakest first: `contradicted`: a judge found that its source says otherwise;
`unsupported`: it has no source; `cited`: it has a source that a tool returned, but no judge has read it or not
all of the claim is in it; `computed`: each of its figures is the cell, row, column and unit of a result, or
arithmetic on these that code repeats, and a judge agreed; `supported`: a judge found that words or rows which code
located in its source state it."""


class Source(Contract):
    """A source that a tool has read."""

    ref: str
    """Its name in findings and reports, unique in a session: `handbook.md#L10-L14`, `q3.pdf#page=2`, a URL, `sql:…`."""
    title: str = ""
    """A title for people: heading path, page title or query."""
    url: str | None = None
    """Address where it can be opened, if any."""
    quote: str = ""
    """The passage, verbatim; several are separated by a line `[…]`."""
    about: str = left_out("")
    """For a query: what it computes from which documents, in words for people."""
    session: str = left_out("")
    """Id of the earlier session whose tools returned it, if it is known only from that session's report."""


class Finding(Contract):
    """One claim and its sources."""

    claim: str
    """The claim, as a self-contained sentence."""
    sources: tuple[str, ...] = ()
    """`ref`s of its sources; each was returned by a tool of this subtask or of its inputs."""
    confidence: Confidence
    """How sure the agent is of this claim: 0 (a guess) to 100 (certain)."""
    quote: str = left_out("")
    """Words of its first source that support it, found there by code; empty if there are none."""


Severity = Literal["critical", "major", "minor"]


class Issue(Contract):
    """A defect that a reviewer found in an outcome."""

    severity: Severity
    """`critical` makes the whole result unusable, `major` makes part of it wrong, `minor` is worth fixing."""
    location: str
    """The subtask's id and the words concerned."""
    file: str = left_out("")
    """Path of the file concerned; empty if none."""
    line: int = left_out(0)
    """Line in that file, from 1; in the new version if it is a change."""
    message: str
    """What is wrong."""
    suggestion: str = ""
    """How to fix it; empty if the reviewer does not know."""
    confidence: Confidence
    """How sure the reviewer is: 0 (a guess) to 100 (certain)."""


class Artifact(Contract):
    """A file created by a tool, such as a chart, in the artifact store."""

    uri: str
    """Its address in the artifact store: `artifact:<sha256>/<name>`."""
    name: str
    """File name."""
    media_type: str
    """Media type such as `image/png`."""
    bytes: int
    """Its size."""
    title: str = ""
    """What it shows, for people."""


class Usage(Contract):
    """The usage and cost of model calls and tools. Adding two adds every field."""

    turns: int = 0
    """LLM calls."""
    input_tokens: int = 0
    """Input tokens, including cached ones."""
    cached_input_tokens: int = 0
    """Input tokens read from the provider's cache."""
    output_tokens: int = 0
    """Output tokens."""
    cost_usd: Dollars = Decimal(0)
    """Total cost in US dollars."""
    possibly_billed_twice_usd: Dollars = Decimal(0)
    """Part of `cost_usd` for calls of unknown outcome, at their worst case."""
    charged_above_reservation_usd: Dollars = left_out(Decimal(0))
    """Part of `cost_usd` that providers charged beyond the reservations."""
    tool_calls: int = 0
    """Tool calls."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})


class SpendLine(Contract):
    """Usage of one agent with one model for one purpose."""

    agent: str
    """Agent of the crew, or `supervisor`."""
    model: str
    """Model that answered, as its provider names it; empty for tools."""
    purpose: str
    """The kind of turn (`plan`, `work`, `synthesis`, `refine`, `judge`, …), `tools`, or `lost`."""
    usage: Usage
    """The sum of its calls."""


class _Ended(Contract):
    content: str = ""
    """The answer to the instruction, in Markdown; may be incomplete unless `kind` is `success`."""
    findings: tuple[Finding, ...] = ()
    """Each claim with its sources."""
    sources: tuple[Source, ...] = ()
    """All sources named by the findings."""
    confidence: Confidence = 0
    """The agent's overall confidence: 0 (a guess) to 100 (certain)."""
    data: JsonValue = left_out(None)
    """The result as data, valid against the agent's `output` schema; null if it has none."""
    gaps: tuple[str, ...] = ()
    """What was asked for but could not be found or done."""
    issues: tuple[Issue, ...] = left_out(())
    """Defects that a reviewer found in the outcomes it received."""
    artifacts: tuple[Artifact, ...] = left_out(())
    """Files that the subtask's tools made."""
    spend: tuple[SpendLine, ...] = ()
    """The subtask's cost by agent, model and purpose."""


class Success(_Ended):
    """The instruction was carried out."""

    kind: Literal["success"] = "success"


class Partial(_Ended):
    """The instruction was carried out in part; `gaps` says what is missing."""

    kind: Literal["partial"] = "partial"
    reason: str = ""
    """Why the answer is incomplete, for people; a `FailureReason` if something stopped the agent."""


FailureReason = Literal[
    "provider_unavailable",
    "provider_refused",
    "refused",
    "truncated",
    "empty",
    "malformed",
    "invalid_output",
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
    "quarantined",
    "internal",
]
"""A fixed vocabulary without user text."""


class Failure(_Ended):
    """There is no usable result."""

    kind: Literal["failure"] = "failure"
    reason: FailureReason
    """Kind of failure, from a fixed vocabulary."""
    message: str = ""
    """What failed and what to do about it, for people."""


class Escalation(_Ended):
    """The agent hands the decision back to its supervisor."""

    kind: Literal["escalation"] = "escalation"
    reason: Literal["ambiguous_input", "out_of_scope", "confidence_too_low", "timeout", "too_big"]
    """Why the agent cannot continue by itself."""
    message: str = ""
    """What has to be decided, for people."""


Outcome = Annotated[
    Success | Partial | Failure | Escalation,
    Field(discriminator="kind", description="How a subtask ended; its `kind` says which."),
]
