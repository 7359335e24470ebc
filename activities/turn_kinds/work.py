"""Turns of an agent: rounds of a subtask, or of a conversation with a user."""

import re
from datetime import date
from typing import ClassVar, Final, Literal

from pydantic import JsonValue
from pydantic_core import to_json

from activities.contracts.crew import Agent, Crew
from activities.contracts.quotations import PASSAGE_GAP
from activities.contracts.rounds import InputOutcome, Note, Round, ToolCall, ToolResult
from activities.contracts.setting import Setting
from activities.documents.catalog import Catalog
from activities.turn_kinds.protocol import Message, Prompt, ToolText, TurnAnswer, TurnTask, TypedAnswer
from activities.turn_kinds.rendering import (
    data_block,
    document_sections,
    escape_marks,
    note_lines,
    outcome_section,
    refs_of,
    request_section,
    said_text,
    told_section,
)
from activities.turn_kinds.short_refs import ShortRefs
from chargehand.contracts import Contract, JsonSchema, Severity, Source, left_out
from chargehand.contracts.base import NAME

_WITH_TOOLS: Final = "Use up to 8 tools at once, unless one needs another's result. When you can,"
_WITH_NOTES: Final = """Note each finding in the turn after you read it: your notes stay when a conversation is
shortened. """
_WITHOUT_TOOLS: Final = "You have no tools: work from your task and"
_WITH_REFS: Final = "each statement with its source's ref, such as [p1]"
_WITHOUT_REFS: Final = "ready to send: without [p1], since its sources are in findings"

_ANSWER_AT: Final = 2
"""With this many turns left, an agent is told to answer; the extra turn is for a truncated answer."""
_ABOVE: Final = "(as under [{}])"

_DATA_INSTRUCTIONS: Final = """
- data: your result as JSON, valid against the JSON Schema below, for the agents that use
  it; the same facts as in content, nothing invented. null only if the status is not success.
"""
_REVIEWER_INSTRUCTIONS: Final = """
- issues: each thing that is wrong with the outcomes in your task: severity (critical: the whole is unusable; major: a
  part is wrong; minor: worth fixing), location (id of the subtask, and the words in question), file and line (path and
  line number if it is about a file that you were shown, else empty and 0), message (what is wrong), suggestion (how to
  fix it, or empty), confidence 0-100. Empty if nothing is wrong."""


class FindingDraft(Contract):
    claim: str
    source_refs: list[str] = []
    quote: str = ""
    confidence: int


class IssueDraft(Contract):
    severity: Severity
    location: str
    message: str
    suggestion: str = ""
    file: str = ""
    line: int = 0
    confidence: int


class AgentAnswer(TypedAnswer):
    """An agent's answer to its subtask, not yet validated."""

    status: Literal[
        "success", "partial", "no_answer", "ambiguous_input", "out_of_scope", "confidence_too_low", "too_big"
    ]
    content: str
    findings: list[FindingDraft] = []
    confidence: int
    gaps: list[str] = []
    message: str = ""

    @property
    def requires_data(self) -> bool:
        """Whether it claims to have carried out the instruction."""
        return self.status == "success"


class WorkAnswer(AgentAnswer):
    kind: Literal["work"] = "work"


class WorkWithIssuesAnswer(AgentAnswer):
    """A reviewing agent's answer, together with the issues it found."""

    kind: Literal["work_with_issues"] = "work_with_issues"
    issues: list[IssueDraft] = []


class WorkTask(TurnTask):
    answer_type: ClassVar = WorkAnswer
    text_field: ClassVar = "content"
    last_request: ClassVar[str | Prompt] = (
        "This turn is for your answer: no more tools can be used. Answer from what you have."
    )
    """The final request of a conversation in which the agent must answer."""

    summary_heading: ClassVar = "What you have done so far, in your own words"
    is_of_subtask: ClassVar = True
    """Whether its answer is that of a subtask, with its agent's data or issues."""

    kind: Literal["work"] = "work"
    goal: str
    """The session's goal, for context only; empty for an agent that does not see it."""
    instruction: str
    input: dict[str, JsonValue] | None = left_out(None)
    """Data from the planner, according to the agent's input schema."""
    inputs: tuple[InputOutcome, ...] = ()
    """Outcomes of the subtasks on which this one depends; failures among them are gaps to state."""
    summary: str = left_out("")
    """The agent's summary of its previous conversation."""
    notes: tuple[Note, ...] = left_out(())
    """The agent's notes at the start of this conversation."""
    known: tuple[str, ...] = left_out(())
    """Refs of what was noted or read before this conversation, in order."""
    told: tuple[str, ...] = left_out(())
    """The user's messages to the agent before this conversation."""
    rounds: tuple[Round, ...] = ()
    """The conversation so far, or its new part since `earlier`."""
    earlier: str = ""
    """Digest of the stored conversation continued by `rounds`; all fields except `must_answer` come from there."""
    earlier_rounds: int = left_out(0)
    """Number of rounds in the stored conversation."""
    since: Round | None = left_out(None)
    """What was added to the last stored round since it was stored."""
    final_instruction: str = left_out("")
    """How to write the answer, if the user reads it."""
    length_words: int = left_out(0)
    """Approximate length of that text; 0 for no target."""
    must_answer: bool = False
    """Whether the agent must answer with what is known, without further tool calls."""

    @classmethod
    def answer_type_for(cls, agent: Agent | None) -> type[TurnAnswer]:
        """Return the answer type; a reviewer also lists issues."""
        return WorkWithIssuesAnswer if cls.is_of_subtask and agent is not None and agent.reviews else cls.answer_type

    @classmethod
    def role(cls, crew: Crew, agent_name: str, setting: Setting) -> str:
        """Render an agent's own prompt; it sees the other agents only in a conversation."""
        agent = crew.agent(agent_name)
        if agent is None:
            raise ValueError(f"crew '{crew.name}' has no agent '{agent_name}'")
        others = [each for each in setting.usable_agents(crew) if each.name != agent_name]
        with_tools = f"{_WITH_NOTES if setting.keeps_notes else ''}{_WITH_TOOLS}"
        return cls.instructions.format(
            name=agent.name,
            prompt=setting.fit(agent.prompt),
            working=with_tools if setting.usable_tools(agent) else _WITHOUT_TOOLS,
            words=setting.words(agent),
            refs=_WITH_REFS if agent.cites else _WITHOUT_REFS,
            data="" if agent.output is None else f"{_DATA_INSTRUCTIONS}{to_json(agent.output).decode()}",
            issues=_REVIEWER_INSTRUCTIONS if agent.reviews else "",
            agents="\n".join(f"- {each.name}: {setting.fit(each.description)}" for each in others) or "(no others)",
        )

    def data_schema_for(self, agent: Agent | None) -> JsonSchema | None:
        return agent.output if agent and self.is_of_subtask else None

    @property
    def refs(self) -> ShortRefs:
        noted = (note.source.ref for note in self.notes if note.source)
        read = (source.ref for past in self.rounds for result in past.results for source in result.sources)
        return ShortRefs((*refs_of(self.inputs), *self.known, *noted, *read))

    @property
    def has_siblings(self) -> bool:
        """Whether the same agent may have other subtasks, or later turns that start with this one."""
        return True

    def shared_sections(self, catalog: Catalog | None) -> list[str]:
        refs = self.refs
        return [
            *([request_section(self.goal, context_only=True)] if self.goal else []),
            *document_sections(catalog),
            *(outcome_section(result, refs) for result in self.inputs),
        ]

    def sections(self, catalog: Catalog | None) -> list[str]:
        return [
            f"Instruction:\n{escape_marks(self.instruction)}",
            *([] if self.input is None else [f"Input:\n{data_block(to_json(self.input).decode())}"]),
            *self._shape(),
            *self._before(),
            *told_section(self.told),
        ]

    def _before(self) -> list[str]:
        refs = self.refs
        summary, notes = refs.shorten(self.summary), refs.shorten(note_lines(self.notes))
        titles = {note.source.ref: note.source.title for note in self.notes if note.source}
        legend = refs.legend(f"{summary}\n{notes}", titles)
        headed = {self.summary_heading: summary, "Your notes so far": notes, "Sources of these": legend}
        return [f"{heading}:\n{data_block(text)}" for heading, text in headed.items() if text]

    def _shape(self) -> list[str]:
        """Render the rules for writing the text for the user."""
        if not self.final_instruction and not self.length_words:
            return []
        length = f" About {self.length_words} words." if self.length_words else ""
        return [f"The user reads your content as it is. {escape_marks(self.final_instruction)}{length}"]

    def messages(self, catalog: Catalog | None, today: date) -> tuple[Message, ...]:
        (first,) = super().messages(catalog, today)
        shown = ShownText(self.refs, first.text)
        conversation = [message for past in self.rounds for message in _round_messages(past, shown)]
        if self.must_answer and self.rounds:
            conversation.append(Message(role="user", text=self.last_request))
        elif self.must_answer:
            first = first.replace(text=f"{first.text}\n\n{self.last_request}")
        return (first, *conversation)


class ShownText:
    """What a conversation has shown so far: each text, title and full ref of tool results is shown once.

    Rendering depends only on earlier results, so that a rendered round never changes.
    """

    def __init__(self, refs: ShortRefs, first: str) -> None:
        """Start with the first message, which also introduces sources."""
        self.refs = refs
        self._introduced = refs.introduced(first)
        self._titles: set[tuple[str, str]] = set()
        self._texts: dict[str, dict[str, str]] = {}
        """Shown texts by `ref`, for each document or page."""

    def render(self, result: ToolResult, call: ToolCall | None = None) -> str:
        # Search results follow below, in full and with the refs to cite.
        output = {name: value for name, value in result.output.items() if (result.tool, name) != ("search", "results")}
        parts = [to_json(output, inf_nan_mode="null").decode()] if output else []
        argument_texts = set(map(str, call.arguments.values())) if call else set[str]()
        parts += [self._source(source, argument_texts) for source in result.sources]
        # Never echo an unknown tool name: the model wrote it.
        name = result.tool if re.fullmatch(NAME, result.tool) else "that tool"
        return f"From {name}:\n" + data_block("\n\n".join(parts))

    def _source(self, source: Source, said: set[str]) -> str:
        title = "" if source.title in said or (source.ref, source.title) in self._titles else source.title
        heading = self.refs.entry(source.ref, title, is_known=source.ref in self._introduced)
        self._introduced.add(source.ref)
        self._titles.add((source.ref, source.title))
        return f"{heading}\n{self._text(source)}"

    def _text(self, source: Source) -> str:
        texts = self._texts.setdefault(source.ref.partition("#")[0], {})
        passages = [self._passage(passage, texts) for passage in source.quote.split(PASSAGE_GAP)]
        texts[source.ref] = PASSAGE_GAP.join(filter(None, (texts.get(source.ref), source.quote)))
        return PASSAGE_GAP.join(dict.fromkeys(passages))

    def _passage(self, passage: str, texts: dict[str, str]) -> str:
        above = next((_ABOVE.format(self.refs.name(ref)) for ref, text in texts.items() if passage in text), passage)
        # Never longer than the text itself, which bounds the turn's cost.
        return min(above, passage, key=len)


def _turns_left(past: Round) -> str:
    more = f", and up to {past.spare_turns} more if other agents leave them" if past.spare_turns else ""
    advice = (
        "" if past.turns_left + past.spare_turns > _ANSWER_AT else "; answer now unless something essential is missing"
    )
    return f"turns left: {past.turns_left}{more}{advice}"


def _round_messages(past: Round, shown: ShownText) -> list[Message]:
    notices, answer = told_section(past.told), shown.refs.shorten(past.answer)
    if past.said or (past.answer and not past.correction):
        prompt = [said_text(past.said), *notices] if past.said else [*notices, "Answer again, as a whole."]
        return [
            Message(role="assistant", text=answer or "(no reply)", provider_items=past.provider_items),
            Message(role="user", text="\n\n".join(prompt)),
        ]
    if past.correction:
        problem = f"Your reply could not be used:\n{data_block(past.correction)}\nFix that and answer again."
        return [
            Message(role="assistant", text=answer or "(a reply that could not be used)"),
            Message(role="user", text="\n\n".join([problem, *notices])),
        ]
    calls = {call.id: call for call in past.calls}
    results = [result.make(ToolText, text=shown.render(result, calls.get(result.call_id))) for result in past.results]
    if results and past.turns_left:
        # In the last result, so that messages alternate for every provider.
        results[-1] = results[-1].replace(text=f"{results[-1].text}\n({_turns_left(past)})")
    return [
        Message(role="assistant", calls=past.calls, provider_items=past.provider_items),
        Message(role="tools", results=tuple(results)),
        *(Message(role="user", text=text) for text in notices),
    ]


class ReplyAnswer(AgentAnswer):
    kind: Literal["reply"] = "reply"
    status: Literal["success", "partial", "no_answer"]  # pyright: ignore[reportIncompatibleVariableOverride]  # a user cannot split or pass on
    hand_over: str = ""
    job: str = ""


class ConverseTask(WorkTask):
    """A turn of a conversation: `goal` is its purpose, `instruction` the message that starts the rounds."""

    answer_type: ClassVar = ReplyAnswer
    written_like: ClassVar = "user"
    summary_heading: ClassVar = "What was said and done before"
    is_of_subtask: ClassVar = False

    kind: Literal["converse"] = "converse"  # pyright: ignore[reportIncompatibleVariableOverride]  # it tells them apart

    def sections(self, catalog: Catalog | None) -> list[str]:
        return [*self._before(), said_text(self.instruction), *told_section(self.told)]

    def latest(self) -> WorkTask:
        """Keep only the latest message and its rounds, for a model that does not read dialogues."""
        begins = max((at for at, past in enumerate(self.rounds, start=1) if past.said), default=0)
        message = self.rounds[begins - 1].said if begins else self.instruction
        return self.replace(instruction=message, rounds=self.rounds[begins:])


class NoteDraft(Contract):
    claim: str
    ref: str = ""
    quote: str = ""


class CompactAnswer(TurnAnswer):
    kind: Literal["compact"] = "compact"
    summary: str
    notes: list[NoteDraft] = []


class CompactTask(WorkTask):
    """Summarise a conversation and continue in a new one, since it cannot be shortened below the model's thoughts."""

    answer_type: ClassVar = CompactAnswer
    instructions: ClassVar = Prompt("work")
    last_request: ClassVar = Prompt("compact")
    text_field: ClassVar = ""
    is_of_subtask: ClassVar = False

    kind: Literal["compact"] = "compact"  # pyright: ignore[reportIncompatibleVariableOverride]  # it tells them apart
    must_answer: bool = True
