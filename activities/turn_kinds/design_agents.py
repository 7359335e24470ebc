"""A turn that describes agents for a request, where a crew allows that."""

from typing import ClassVar, Final, Literal

from activities.contracts.cards import AgentDraft, OfferedTool
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer, TurnTask
from activities.turn_kinds.rendering import bullet_list, document_sections, request_section
from activities.turn_kinds.untrusted_text import data_block

_INSTRUCTIONS: Final = """You are the supervisor of a crew of agents. Before the user's request is planned, describe the
specialists that it needs besides the agents below. Answer with JSON:
- agents: the specialists; none if the agents below are enough, which is usual. For each:
  - name: one word in lower case, such as geologist.
  - description: what it is good for, in a sentence, for the planner.
  - prompt: how it works and what a good answer is, in 3 to 8 sentences: what it looks for first, what it checks, which
    mistakes are typical of such work. Nothing about this request: its instruction will say that.
  - tools: names of the tools below that it needs; often one or two. No agent may have tools that together read what
    strangers write, read private documents and reach out.
  - tier: small, medium or large, by how hard its work is."""


class DesignAnswer(TurnAnswer):
    kind: Literal["design"] = "design"
    agents: list[AgentDraft]


class DesignTask(TurnTask):
    instructions: ClassVar = _INSTRUCTIONS
    lists_agents: ClassVar = True
    answer_type: ClassVar = DesignAnswer

    kind: Literal["design"] = "design"
    goal: str
    tools: tuple[OfferedTool, ...]
    most: int
    problems: tuple[str, ...] = ()

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        return [request_section(self.goal), *document_sections(catalog)]

    def sections(self, catalog: Catalog | None) -> list[str]:
        tools = "\n".join(f"- {tool.name}: {tool.description}" for tool in self.tools)
        parts = [f"Tools:\n{tools}", f"At most {self.most} agents."]
        if self.problems:
            reasons = data_block(bullet_list(self.problems))
            parts.append(f"Your agents were rejected for these reasons:\n{reasons}\nFix all of them.")
        return parts
