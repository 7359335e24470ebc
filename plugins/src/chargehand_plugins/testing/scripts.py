"""Scripts of a model: replies that a test supplies in place of a provider.

    script = (
        Script()
        .plan(subtask("T1", "clerk", "Refund order A-17."))
        .work("A-17", use("refund", order="A-17"), answer("It is refunded."))
        .report("Order A-17 is refunded.")
    )

Defaults for everything else: an agent's turn answers "Known.", the report says "All of it.", and
reviews and critics are satisfied. Plans, routes and other turns without a default must be in the script.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

from pydantic import JsonValue

from chargehand.contracts import ConversationEnd, Report, Severity
from chargehand.contracts import Reply as ConversationReply

ContentStatus = Literal[
    "success", "partial", "no_answer", "ambiguous_input", "out_of_scope", "confidence_too_low", "too_big"
]


@dataclass(frozen=True)
class ToolUse:
    """A tool call requested by an agent."""

    tool: str
    arguments: Mapping[str, JsonValue]


@dataclass(frozen=True)
class Reply:
    """A model's reply: fields of its answer, tool calls, or a raw text."""

    fields: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Fields of the kind of turn; missing ones are empty."""
    tools: tuple[ToolUse, ...] = ()
    text: str = ""
    """Sent unchanged and unchecked, for tests of unusable replies."""


@dataclass(frozen=True)
class Asked:
    """The request of a turn."""

    kind: str
    """`plan`, `work`, `synthesis`, `review`, `critique`, `output`, …"""
    agent: str
    """The agent whose turn it is, or `supervisor`."""
    instruction: str
    """The instruction of an agent's turn; otherwise the goal."""
    prompt: str
    """The complete prompt."""


@dataclass(frozen=True)
class Line:
    """The replies to some turns."""

    kind: str
    words: str
    agent: str
    replies: tuple[Reply, ...]

    def matches(self, asked: Asked) -> bool:
        """Return whether it applies to this turn."""
        return asked.kind == self.kind and self.words in asked.instruction and self.agent in {"", asked.agent}

    def __str__(self) -> str:
        return " ".join([self.kind, *([repr(self.words)] if self.words else []), *filter(None, [self.agent])])


_DEFAULTS: Final[Mapping[str, Mapping[str, JsonValue]]] = {
    "work": {"status": "success", "content": "Known.", "confidence": 80},
    "converse": {"status": "success", "content": "Known.", "confidence": 80},
    "synthesis": {"answer": "All of it.", "confidence": 90},
    "review": {"enough": True},
    "critique": {"acceptable": True},
    "compress": {"content": "In short: so."},
    "compact": {"summary": "So far: so."},
    "refine": {"worthwhile": False},
    "grade": {},
    "judge_claims": {},
    "judge_call": {"is_expected": True},
}


@dataclass(frozen=True)
class Script:
    """The replies of a model; every method returns an extended script. Later lines override earlier ones.

    If a line has several replies, the first is for the first turn, and so on; the last is for all further turns.
    """

    lines: tuple[Line, ...] = ()

    def on(self, kind: str, *replies: Reply, words: str = "", agent: str = "") -> Self:
        """Reply to turns of one kind with these words in the instruction or goal; "" matches every turn."""
        return replace(self, lines=(*self.lines, Line(kind, words, agent, replies)))

    def plan(self, *subtasks: JsonValue, strategy: str = "merge", goal: str = "") -> Self:
        """Plan these subtasks, if the goal contains these words."""
        return self.on("plan", Reply({"subtasks": list(subtasks), "strategy": strategy}), words=goal)

    def work(self, words: str, *replies: Reply, agent: str = "") -> Self:
        """Work on subtasks with these words in their instruction, one reply per round."""
        return self.on("work", *replies, words=words, agent=agent)

    def converse(self, words: str, *replies: Reply, agent: str = "") -> Self:
        """Answer messages of a conversation with these words, one reply per round."""
        return self.on("converse", *replies, words=words, agent=agent)

    def report(self, text: str, *, confidence: int = 90, gaps: tuple[str, ...] = ()) -> Self:
        """Write the report; a session with one subtask does not write one."""
        return self.on("synthesis", Reply({"answer": text, "confidence": confidence, "gaps": list(gaps)}))

    def output(self, data: JsonValue, *, missing: tuple[str, ...] = ()) -> Self:
        """Fill the request's `output_schema`; `missing` names required data that is not available."""
        return self.on("output", Reply({"data": data, "missing": list(missing)}))

    def reply(self, asked: Asked, given: Counter[tuple[int, str, str]]) -> Reply | None:
        """Choose the reply to a turn; None if there is none. `given` counts the earlier replies."""
        default = _DEFAULTS.get(asked.kind)
        for number, line in reversed([*enumerate(self.lines)]):
            if line.matches(asked) and line.replies:
                key = (number, asked.agent, asked.instruction)
                given[key] += 1
                chosen = line.replies[min(given[key], len(line.replies)) - 1]
                is_whole = chosen.tools or chosen.text
                return chosen if is_whole else replace(chosen, fields={**(default or {}), **chosen.fields})
        return None if default is None else Reply(default)


def subtask(
    id: str,  # noqa: A002  # the contract's own name
    agent: str,
    instruction: str,
    *,
    after: tuple[str, ...] = (),
    **fields: JsonValue,
) -> dict[str, JsonValue]:
    """Plan a subtask."""
    return {"id": id, "agent": agent, "instruction": instruction, "depends_on": list(after), **fields}


def use(tool: str, **arguments: Any) -> Reply:
    """Call a tool; see `use_all` for several at once."""
    return Reply(tools=(ToolUse(tool, arguments),))


def use_all(*uses: Reply) -> Reply:
    """Call several tools at once."""
    return Reply(tools=tuple(each for one in uses for each in one.tools))


def finding(claim: str, *refs: str, quote: str = "", confidence: int = 80) -> dict[str, JsonValue]:
    """Make a claim, citing sources returned by tools."""
    return {"claim": claim, "source_refs": list(refs), "quote": quote, "confidence": confidence}


def answer(
    content: str,
    *findings: JsonValue,
    status: ContentStatus = "success",
    confidence: int = 80,
    gaps: tuple[str, ...] = (),
    message: str = "",
    data: JsonValue = None,
    issues: tuple[JsonValue, ...] = (),
) -> Reply:
    """Answer a subtask; `data` is for agents with an `output` schema, `issues` for reviewing ones."""
    fields: dict[str, JsonValue] = {
        "status": status,
        "content": content,
        "findings": list(findings),
        "confidence": confidence,
        "gaps": list(gaps),
        "message": message,
    }
    optional: dict[str, JsonValue] = {"data": data, "issues": list(issues)}
    return Reply(fields | {name: value for name, value in optional.items() if value not in (None, [])})


def issue(
    message: str,
    *,
    severity: Severity = "major",
    location: str = "",
    file: str = "",
    line: int = 0,
    suggestion: str = "",
    confidence: int = 80,
) -> dict[str, JsonValue]:
    """Report an issue, as a reviewing agent."""
    where: dict[str, JsonValue] = {
        "location": location or (f"{file}:{line}" if file else ""),
        "file": file,
        "line": line,
    }
    return {"severity": severity, "message": message, "suggestion": suggestion, "confidence": confidence, **where}


@dataclass(frozen=True, kw_only=True)
class ScriptedTurns:
    """The turns and tool calls of a script."""

    turns: tuple[Asked, ...]
    """The model's turns in order; `prompt` is the complete prompt."""
    tool_calls: tuple[ToolUse, ...]
    """Calls that reached a tool, in order."""
    unused: tuple[str, ...] = ()
    """Lines of the script that matched no turn, such as `work 'A-71'`."""


@dataclass(frozen=True, kw_only=True)
class ScriptedRun(ScriptedTurns):
    """The result of a scripted session."""

    report: Report


@dataclass(frozen=True, kw_only=True)
class ScriptedConversation(ScriptedTurns):
    """A conversation with a scripted model."""

    replies: tuple[ConversationReply, ...]
    """The replies to the messages, in order."""
    end: ConversationEnd
