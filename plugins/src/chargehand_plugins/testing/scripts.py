"""What a scripted model says: the replies that a test gives instead of a provider.

    script = (
        Script()
        .plan(subtask("T1", "clerk", "Refund order A-17."))
        .work("A-17", use("refund", order="A-17"), answer("It is refunded."))
        .report("Order A-17 is refunded.")
    )

What a script does not say is said by default: a turn of an agent answers "Known.", the report says "All of it.", and
reviews and critics are content. Plans, routes and other turns without such a reply have to be in the script.
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
    """A tool that an agent asks for."""

    tool: str
    arguments: Mapping[str, JsonValue]


@dataclass(frozen=True)
class Reply:
    """A reply of a model: fields of its answer, tools to be used, or a text as it is."""

    fields: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """As the kind of turn has them; those that are left out are empty."""
    tools: tuple[ToolUse, ...] = ()
    text: str = ""
    """Sent as it is, and not checked: for tests of what happens to a reply that cannot be used."""


@dataclass(frozen=True)
class Asked:
    """What a model is asked for in a turn."""

    kind: str
    """`plan`, `work`, `synthesis`, `review`, `critique`, `output`, …"""
    agent: str
    """The agent whose turn it is, or `supervisor`."""
    instruction: str
    """Of an agent's turn; else the goal."""
    prompt: str
    """All that the model is told."""


@dataclass(frozen=True)
class Line:
    """The replies to some turns."""

    kind: str
    words: str
    agent: str
    replies: tuple[Reply, ...]

    def matches(self, asked: Asked) -> bool:
        """Whether it is for this turn."""
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
    """What a model replies; every method returns a longer script. What comes later overrides what came before.

    Of several replies in one line the first is for the first turn, and so on; the last is for all that follow.
    """

    lines: tuple[Line, ...] = ()

    def on(self, kind: str, *replies: Reply, words: str = "", agent: str = "") -> Self:
        """Reply to turns of one kind, if these words are in the instruction or goal; "" is for every turn."""
        return replace(self, lines=(*self.lines, Line(kind, words, agent, replies)))

    def plan(self, *subtasks: JsonValue, strategy: str = "merge", goal: str = "") -> Self:
        """Plan these subtasks, if the goal contains these words."""
        return self.on("plan", Reply({"subtasks": list(subtasks), "strategy": strategy}), words=goal)

    def work(self, words: str, *replies: Reply, agent: str = "") -> Self:
        """Work on subtasks with these words in their instruction, a reply each round."""
        return self.on("work", *replies, words=words, agent=agent)

    def converse(self, words: str, *replies: Reply, agent: str = "") -> Self:
        """Answer messages of a conversation with these words, a reply each round."""
        return self.on("converse", *replies, words=words, agent=agent)

    def report(self, text: str, *, confidence: int = 90, gaps: tuple[str, ...] = ()) -> Self:
        """Write the report; a session of one subtask has none to write."""
        return self.on("synthesis", Reply({"answer": text, "confidence": confidence, "gaps": list(gaps)}))

    def output(self, data: JsonValue, *, missing: tuple[str, ...] = ()) -> Self:
        """Put the report into the shape of the request's `output_schema`; `missing` is what it requires and lacks."""
        return self.on("output", Reply({"data": data, "missing": list(missing)}))

    def reply(self, asked: Asked, given: Counter[tuple[int, str, str]]) -> Reply | None:
        """Choose the reply to a turn, None if there is none; `given` counts the earlier ones."""
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
    """Ask for a tool; by `use_all` for several at once."""
    return Reply(tools=(ToolUse(tool, arguments),))


def use_all(*uses: Reply) -> Reply:
    """Ask for several tools at once."""
    return Reply(tools=tuple(each for one in uses for each in one.tools))


def finding(claim: str, *refs: str, quote: str = "", confidence: int = 80) -> dict[str, JsonValue]:
    """Claim something, by sources that tools returned."""
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
    """Answer a subtask; `data` is for agents with an `output` schema, `issues` for those that review."""
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
    """Find something wrong, as an agent that reviews."""
    where: dict[str, JsonValue] = {
        "location": location or (f"{file}:{line}" if file else ""),
        "file": file,
        "line": line,
    }
    return {"severity": severity, "message": message, "suggestion": suggestion, "confidence": confidence, **where}


@dataclass(frozen=True, kw_only=True)
class ScriptedTurns:
    """What was done with a script."""

    turns: tuple[Asked, ...]
    """What the model was asked for, in order; `prompt` is all that it was told."""
    tool_calls: tuple[ToolUse, ...]
    """The calls that reached a tool, in order."""
    unused: tuple[str, ...] = ()
    """Lines of the script that matched no turn, such as `work 'A-71'`."""


@dataclass(frozen=True, kw_only=True)
class ScriptedRun(ScriptedTurns):
    """A session that was run with a script."""

    report: Report


@dataclass(frozen=True, kw_only=True)
class ScriptedConversation(ScriptedTurns):
    """A conversation that was held with a script."""

    replies: tuple[ConversationReply, ...]
    """To the messages, in their order."""
    end: ConversationEnd
