"""A turn of the agent that has the floor in a conversation: it works on the latest message, and replies."""

from typing import ClassVar, Final, Literal

from activities.contracts.crew import Agent, Crew
from activities.contracts.setting import Setting
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import TurnAnswer
from activities.turn_kinds.rendering import said_text
from activities.turn_kinds.work import AgentAnswer, WorkTask, told_section, working_rules
from chargehand.contracts import JsonSchema

_INSTRUCTIONS: Final = """You are the {name} in a crew of agents, and you talk with a user.

{prompt}

{working} reply to the user's latest message in JSON:
- status: success; partial (with gaps); no_answer (nothing that you have answers it).
- content: what the user reads, in Markdown, at most {words} words, {refs}. If something is missing that only the user
  knows, ask for it. Never say that something was done unless the result of a tool says so.
- findings: each claim alone that rests on something you read; source_refs, such as ["p1"]; quote: words copied from the
  first of them, or empty. Empty for small talk.
- confidence: 0-100, of a finding and of the whole. gaps: what was asked and not found. message: why, unless success.
- hand_over: the name of the agent below that the message is for, if it is not for you; else empty. That agent then goes
  on with the user: put into message what it has to know, and into content at most a sentence.
- job: a task that needs several agents and more time, complete in itself, if the user wants one; else empty. It is
  carried out while you go on talking, and you are told what came of it: say in content that it has begun.

Agents:
{agents}"""


class ReplyAnswer(AgentAnswer):
    kind: Literal["reply"] = "reply"
    hand_over: str = ""
    job: str = ""


class ConverseTask(WorkTask):
    """The goal is what the conversation is for, and the instruction is the message with which the rounds begin."""

    answer_type: ClassVar = ReplyAnswer
    summary_heading: ClassVar = "What was said and done before"

    kind: Literal["converse"] = "converse"  # pyright: ignore[reportIncompatibleVariableOverride]  # it tells them apart

    @classmethod
    def answer_type_for(cls, agent: Agent | None) -> type[TurnAnswer]:
        """Every agent talks in the same way."""
        return ReplyAnswer

    @classmethod
    def role(cls, crew: Crew, agent_name: str, setting: Setting) -> str:
        """Render an agent's own prompt, and whom it may hand over to."""
        agent = crew.agent(agent_name)
        if agent is None:
            raise ValueError(f"crew '{crew.name}' has no agent '{agent_name}'")
        others = [each for each in setting.usable_agents(crew) if each.name != agent_name]
        return _INSTRUCTIONS.format(
            name=agent.name,
            prompt=setting.fit(agent.prompt),
            agents="\n".join(f"- {each.name}: {setting.fit(each.description)}" for each in others) or "(no others)",
            **working_rules(agent, setting),
        )

    def data_schema_for(self, agent: Agent | None) -> JsonSchema | None:
        return None

    def sections(self, catalog: Catalog | None) -> list[str]:
        return [*self._before(), said_text(self.instruction), *told_section(self.told)]

    def latest(self) -> WorkTask:
        """Leave only the latest message and the rounds about it, for a model that reads no dialogue."""
        begins = max((at for at, past in enumerate(self.rounds, start=1) if past.said), default=0)
        said = self.rounds[begins - 1].said if begins else self.instruction
        return self.model_copy(update={"instruction": said, "rounds": self.rounds[begins:]})
