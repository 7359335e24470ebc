"""The actual facilities of a session, from which its prompts are composed."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from activities.contracts.crew import Agent, Crew
from activities.contracts.tool import ToolSpec
from chargehand.contracts.limits import Profile

_HAS: Final = "(?:no )?(?:web|documents)"
_CONDITION: Final = re.compile(rf"\{{({_HAS}(?: and {_HAS})?): ([^{{}}]*)\}}")
"""A conditional part of a crew's text, for sessions with or without web search or documents: `{no web: …}`."""
_COMPUTES: Final = "run_code"
"""Tools that are useless to document agents without documents."""


class Setting(NamedTuple):
    """The facilities of a session on which prompts depend."""

    has_web: bool
    """Whether `search` searches the web; otherwise it searches the user's documents."""
    has_documents: bool
    profile: Profile
    idle: frozenset[str] = frozenset()
    """Tools that are useless without documents, if there is a web search instead."""

    @classmethod
    def of(cls, specs: Mapping[str, ToolSpec], *, has_web: bool, has_documents: bool, profile: Profile) -> "Setting":
        # With neither, all agents keep their tools, which answer that there are no documents.
        is_idle = has_web and not has_documents
        idle = {name for name, spec in specs.items() if spec.needs_documents and is_idle}
        return cls(has_web, has_documents, profile, frozenset(idle))

    @property
    def keeps_notes(self) -> bool:
        """Whether conversations get so long that agents should note their findings."""
        return self.profile == "deep"

    def fit(self, text: str) -> str:
        """Keep the parts of a crew's text that apply here."""
        return _CONDITION.sub(self._part, text)

    def fit_tool(self, spec: ToolSpec) -> ToolSpec:
        return spec if self.has_documents or spec.without_documents is None else spec.without_documents

    def usable_tools(self, agent: Agent) -> tuple[str, ...]:
        return tuple(tool for tool in agent.tools if tool not in self.idle)

    def usable_agents(self, crew: Crew) -> tuple[Agent, ...]:
        """Omit document agents if there are no documents, unless no agent with tools would be left."""
        usable = tuple(agent for agent in crew.agents if not agent.tools or not self._is_idle(agent))
        return usable if any(agent.tools for agent in usable) else crew.agents

    def words(self, agent: Agent) -> int:
        """Return the maximum words of an agent's answer, more in deep sessions."""
        return agent.length_words * 5 // 2 if self.profile == "deep" else agent.length_words

    def _is_idle(self, agent: Agent) -> bool:
        return not self.idle.isdisjoint(agent.tools) and {*agent.tools} <= self.idle | {_COMPUTES}

    def _part(self, condition: re.Match[str]) -> str:
        there = {"web": self.has_web, "documents": self.has_documents}
        terms = condition[1].split(" and ")
        return condition[2] if all(there[each.removeprefix("no ")] != each.startswith("no ") for each in terms) else ""


ANYWHERE: Final = Setting(has_web=True, has_documents=True, profile="standard")
