"""What a session's agents may do with tools: policies, and what a nested session inherits of them."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from chargehand.contracts.base import Contract, Name, TypedByPeople, left_out

Capability = Literal["reads_untrusted", "reads_private", "reaches_out"]
"""What an agent's tools let it do: read what strangers write, read what is the user's own, send something out."""

ArgumentName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
PolicyMode = Literal["enforce", "report"]


class SumLimit(TypedByPeople):
    """The most that an argument of a tool may come to in a session, all calls together."""

    argument: ArgumentName
    """A number of at least 0; a call in which it is anything else is denied."""
    total: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
    """The largest sum."""


Bound = Annotated[float, Field(strict=True, ge=0, le=1e12, allow_inf_nan=False)]
ListedValue = Annotated[str, StringConstraints(min_length=1, max_length=300)]


class ToolRule(TypedByPeople):
    """A rule of an agent's policy. A tool may have several; each of them must allow a call."""

    tool: Name
    """The tool that it allows, within the limits below."""
    after: Name | None = None
    """Tool that must have succeeded in the session before."""
    same: ArgumentName | None = None
    """Argument that must have the same value in both calls, with `after`."""
    at_most_calls: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = None
    """Calls in a session."""
    at_most_sum: SumLimit | None = None
    """The most that an argument may come to in a session."""
    approval: Literal["auto"] | None = None
    """`auto`: a person decides about each call that is not `within`, or that the judge, if `judged`, passes on."""
    within: dict[ArgumentName, Bound | Annotated[tuple[ListedValue, ...], Field(min_length=1, max_length=1_000)]] = {}
    """What these arguments must be for a call without a person: a number from 0 to the one that stands here, or one of
    the values that are listed. `@example.com` stands for all addresses there, `https://example.com/` for all pages."""
    judged: bool = False
    """Whether a model, another than the agent's if there is one, has to expect the call, too."""

    @model_validator(mode="after")
    def _check_approval(self) -> Self:
        if (self.approval == "auto") != bool(self.within or self.judged):
            raise ValueError("approval: 'auto' goes with 'within', 'judged' or both; name them together")
        return self


class Obligation(Contract):
    """What a policy demands of the calls of one tool."""

    key: str
    """Names the rule in the whole session: what its calls use is counted under this name."""
    tool: str
    rule: ToolRule | None = None
    """None if the policy has no rule for the tool: every call is denied."""
    mode: PolicyMode = "enforce"
    """`report` allows a call that is against the rule, and records that."""


class Watched(Contract):
    """A tool whose successful calls a rule waits for."""

    tool: str
    same: str | None = left_out(None)
    """The argument that the rule compares."""


class Authority(Contract):
    """What the agents of a session may do, all together; a nested session may do no more."""

    capabilities: tuple[Capability, ...] = ()
    acting: tuple[str, ...] = ()
    """Tools that change something in the world."""
    approvals: tuple[str, ...] = ()
    """Tools that no agent uses without a person's approval."""
    policy: tuple[Obligation, ...] = ()
    """Obligations under which every agent uses a tool."""
    watched: tuple[Watched, ...] = ()
