"""A turn that names the agents for a request, where a crew routes requests instead of planning them."""

from typing import ClassVar, Final, Literal

from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import document_sections, request_section
from chargehand.contracts import Contract

_INSTRUCTIONS: Final = """You are the dispatcher of a crew of agents. You decide who gets the user's request; you never
answer it yourself. Answer with JSON:
- routes: one agent, or two. The first, the primary, has to be able to answer the request. Name a second only if the
  request needs another agent besides: it starts when the first has ended, and sees what that found. For each: agent;
  instruction, complete in itself, with every fact of the request that this agent needs; reason, in one sentence.
- confidence: 0-100 that this is the right choice. Below 50 if the request could as well belong to another agent."""


class RouteDraft(Contract):
    agent: str
    instruction: str
    reason: str


class RouteAnswer(TurnAnswer):
    kind: Literal["route"] = "route"
    routes: list[RouteDraft]
    confidence: int


class RouteTask(TurnTask):
    instructions: ClassVar = _INSTRUCTIONS
    lists_agents: ClassVar = True
    answer_type: ClassVar = RouteAnswer

    kind: Literal["route"] = "route"
    goal: str

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        return [request_section(self.goal), *document_sections(catalog)]

    def sections(self, catalog: Catalog | None) -> list[str]:
        return []
