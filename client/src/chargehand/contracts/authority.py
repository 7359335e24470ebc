"""What a session's agents can do with tools: policies, and what a nested session inherits."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from chargehand.contracts.base import Contract, Name, TypedByPeople, left_out

Capability = Literal["reads_untrusted", "reads_private", "reaches_out"]
"""What an agent's tools can do: read untrusted text, read the user's private text, send data out."""

ArgumentName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
PolicyMode = Literal["enforce", "report"]


class SumLimit(TypedByPeople):
    """The maximum sum of a tool's argument over all calls in a session."""

    argument: ArgumentName
    """A number of at least 0; calls with any other value are denied."""
    total: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
    """The maximum sum."""


Bound = Annotated[float, Field(strict=True, ge=0, le=1e12, allow_inf_nan=False)]
ListedValue = Annotated[str, StringConstraints(min_length=1, max_length=300)]


class ToolRule(TypedByPeople):
    """A rule of an agent's policy. A tool may have several; each of them must allow a call."""

    tool: Name
    """The tool that this rule allows, within the limits below."""
    after: Name | None = None
    """Tool that must have succeeded earlier in the session."""
    same: ArgumentName | None = None
    """Argument that must have the same value in both calls, with `after`."""
    at_most_calls: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = None
    """Maximum calls in a session."""
    at_most_sum: SumLimit | None = None
    """Maximum sum of an argument in a session."""
    approval: Literal["auto"] | None = None
    """`auto`: a person decides each call that is not `within` or, if `judged`, is referred by the judge."""
    within: dict[ArgumentName, Bound | Annotated[tuple[ListedValue, ...], Field(min_length=1, max_length=1_000)]] = {}
    """Argument values allowed without a person: a number from 0 up to the given one, or one of
    the listed values. `@example.com` allows all addresses there, `https://example.com/` all pages."""
    judged: bool = False
    """Whether a model, preferably not the agent's, must also judge the call to be expected."""

    @model_validator(mode="after")
    def _check_approval(self) -> Self:
        if (self.approval == "auto") != bool(self.within or self.judged):
            raise ValueError("approval: 'auto' goes with 'within', 'judged' or both; name them together")
        return self


class Obligation(Contract):
    """A policy's demands on the calls of one tool."""

    key: str
    """Identifies the rule in the whole session; usage is counted under this key."""
    tool: str
    rule: ToolRule | None = None
    """None if the policy has no rule for the tool: every call is then denied."""
    mode: PolicyMode = "enforce"
    """`report` allows a call that violates the rule, and records the violation."""


class Watched(Contract):
    """A tool whose successful calls are a condition of another rule."""

    tool: str
    same: str | None = left_out(None)
    """The argument that the rule compares."""


class Authority(Contract):
    """The combined permissions of a session's agents; a nested session has no more."""

    capabilities: tuple[Capability, ...] = ()
    acting: tuple[str, ...] = ()
    """Tools with side effects."""
    approvals: tuple[str, ...] = ()
    """Tools that require a person's approval for every agent."""
    policy: tuple[Obligation, ...] = ()
    """Obligations that apply to every agent's use of a tool."""
    watched: tuple[Watched, ...] = ()
