"""Authority: what the agents of a session are allowed to do, and how nested sessions and fallbacks narrow it.

A nested session has the authority of its parent, and an agent that takes over a subtask uses no acting tool that the
planned agent did not have. Policies on the parent or the planned agent apply to the agent that continues its work.
"""

from collections.abc import Iterable
from typing import TypeVar

from activities.contracts.cards import AgentCard, CrewCard
from chargehand.contracts import Authority, Obligation

_Item = TypeVar("_Item")


def authority_of(crew: CrewCard, inherited: Authority | None) -> Authority:
    """Return the combined authority of a crew's agents; a tool keeps only obligations that all its agents share."""
    above = inherited or Authority()
    tools = _unique(tool for card in crew.agents for tool in card.tools)
    unapproved = {tool for card in crew.agents for tool in card.tools if tool not in card.approvals}
    return Authority(
        capabilities=_unique(capability for card in crew.agents for capability in card.capabilities),
        acting=_unique(tool for card in crew.agents for tool in card.acting),
        approvals=_unique((*above.approvals, *(tool for tool in tools if tool not in unapproved))),
        policy=_unique((*above.policy, *(obligation for tool in tools for obligation in _common_policy(crew, tool)))),
        watched=_unique((*above.watched, *(each for card in crew.agents for each in card.watched))),
    )


def narrow_crew(crew: CrewCard, authority: Authority) -> CrewCard:
    """Reduce a crew to its parent session's authority: drop agents and acting tools that exceed it."""
    cards = {
        card.name: _bound(_without(card, {tool for tool in card.acting if tool not in authority.acting}), authority)
        for card in crew.agents
        if set(card.capabilities) <= set(authority.capabilities)
    }
    return crew.replace(
        agents=tuple(
            card.replace(
                fallback=card.fallback if card.fallback in cards else None,
                slow=card.slow if card.slow and card.slow.agent in {None, *cards} else None,
            )
            for card in cards.values()
        )
    )


def in_place_of(card: AgentCard, planned: AgentCard | None) -> AgentCard:
    """Reduce an agent that takes over a subtask to the acting tools of the planned agent."""
    if planned is None or planned.name == card.name:
        return card
    gained = {tool for tool in card.acting if tool not in planned.acting}
    return _bound(_without(card, gained), Authority(approvals=planned.approvals, policy=planned.policy))


def delegate_authority(authority: Authority, planned: AgentCard | None, *, is_approved: bool) -> Authority:
    """Return a nested session's authority; one that takes over an agent's subtask has only that agent's acting tools.

    If a person has approved the plan, it reaches out only if that agent does.
    """
    if planned is None:
        return authority
    withheld = {"reaches_out"}.difference(planned.capabilities) if is_approved else set[str]()
    return authority.replace(
        capabilities=tuple(each for each in authority.capabilities if each not in withheld),
        acting=tuple(tool for tool in authority.acting if tool in planned.acting),
        approvals=_unique((*authority.approvals, *planned.approvals)),
        policy=_unique((*authority.policy, *planned.policy)),
    )


def _bound(card: AgentCard, authority: Authority) -> AgentCard:
    return card.replace(
        approvals=_unique((*card.approvals, *(tool for tool in authority.approvals if tool in card.tools))),
        policy=_unique((*card.policy, *(each for each in authority.policy if each.tool in card.tools))),
        watched=_unique((*card.watched, *(each for each in authority.watched if each.tool in card.tools))),
    )


def _without(card: AgentCard, withheld: Iterable[str]) -> AgentCard:
    tools = set(card.tools).difference(withheld)
    return card.replace(
        tools=tuple(tool for tool in card.tools if tool in tools),
        acting=tuple(tool for tool in card.acting if tool in tools),
    )


def _common_policy(crew: CrewCard, tool: str) -> list[Obligation]:
    """Collect the obligations of a tool, or none if an agent has the tool without obligations."""
    owners = [card for card in crew.agents if tool in card.tools]
    each = [[obligation for obligation in card.policy if obligation.tool == tool] for card in owners]
    return [obligation for obligations in each for obligation in obligations] if all(each) else []


def _unique(items: Iterable[_Item]) -> tuple[_Item, ...]:
    unique: list[_Item] = []
    for item in items:
        if item not in unique:
            unique.append(item)
    return tuple(unique)
