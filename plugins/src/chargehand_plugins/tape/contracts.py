"""The lines of a tape: JSON objects, one a line, the first of which names the version.

A request is identified by what a person would call the same request, never by the words of a prompt: prompts change
while tapes stay, and subtasks side by side ask in any order.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

from pydantic import JsonValue

from activities.contracts.model import ModelCard
from activities.contracts.rounds import InputOutcome, Round, ToolCall
from activities.models.failures import ProviderFault
from activities.models.protocol import ModelCall
from chargehand.contracts import Capability, Contract, Source, Tier, Usage
from chargehand.wire import ErrorType
from chargehand_plugins.tape.format import Taped, TapedPrompt, TurnAsked, Use

_SUBJECTS: Final = ("instruction", "template", "question", "goal")
"""Fields of tasks that state what a turn is about, the most specific first."""
_ATTEMPTS: Final = ("rejected", "problems", "attempts")
_OUTCOMES: Final = ("inputs", "items", "outcomes", "candidates")


class TapedReply(Taped):
    stop: Literal["answer", "tools", "truncated", "refused", "empty", "malformed"] = "answer"
    answer: dict[str, JsonValue] | None = None
    """The reply, if it is a JSON object."""
    text: str = ""
    """The reply, if it is not."""
    problem: str = ""
    tools: tuple[Use, ...] = ()
    model: str
    provider: str
    usage: Usage | None = None


class TapedFailure(Taped):
    message: str
    kind: ErrorType
    fault: ProviderFault


class ToolAsked(Taped):
    agent: str
    tool: str
    arguments: dict[str, JsonValue] = {}


class TapedAnswer(Taped):
    """What a tool answered. A tape holds no files, so the artifacts of a tool are not on it."""

    ok: bool = True
    output: dict[str, JsonValue] = {}
    sources: tuple[Source, ...] = ()


class WorkerFacts(Taped):
    """The settings of the recording worker that decide what a session may do."""

    models: dict[Tier, ModelCard]
    tools: dict[str, tuple[Capability, ...]]
    """What each tool lets an agent do."""
    absent: tuple[str, ...] = ()
    """Tools that the crews name and agents did not have."""
    uses_tools: bool = False
    """Whether the tools are called when the tape is replayed, instead of answered by it."""
    counts_input: bool = False
    """Whether the models' provider counts a prompt before it is sent."""


class Line(Taped):
    """A line of a tape; one of its kinds of content is there."""

    chargehand_tape: int | None = None
    """The version, in the first line."""
    note: str = ""
    """For people, such as who wrote the tape."""
    recorded_at: str = ""
    worker: WorkerFacts | None = None
    request: dict[str, JsonValue] | None = None
    """The session's request without its documents; written and read by the command line."""
    documents: tuple[str, ...] = ()
    """Names of the session's documents."""
    turn: TurnAsked | None = None
    prompt: TapedPrompt | None = None
    reply: TapedReply | None = None
    failure: TapedFailure | str | None = None
    """A provider's failure, or the message of a tool that failed."""
    tool: ToolAsked | None = None
    result: TapedAnswer | None = None


def identify(call: ModelCall) -> TurnAsked:
    """Name the parts of a request that identify it."""
    task = call.task
    subjects = [getattr(task, name) for name in _SUBJECTS if hasattr(task, name)]
    attempts = [getattr(task, name) for name in _ATTEMPTS if hasattr(task, name)]
    rounds = cast("Sequence[Round]", getattr(task, "rounds", ()))
    last = rounds[-1] if rounds else Round()
    return TurnAsked(
        kind=task.kind,
        agent=call.agent,
        about=next((subject for subject in subjects if subject), ""),
        attempt=sum(each if isinstance(each, int) else len(each) for each in attempts),
        of=tuple(outcome.id for name in _OUTCOMES for outcome in _outcomes(getattr(task, name, ()))),
        round=len(rounds),
        after=uses(last.calls),
        is_continued=bool(getattr(task, "summary", "")),
        is_correction=bool(last.correction),
        is_part=getattr(task, "is_part", False),
        must_answer=getattr(task, "must_answer", False),
    )


def _outcomes(value: InputOutcome | Sequence[InputOutcome]) -> Sequence[InputOutcome]:
    return (value,) if isinstance(value, InputOutcome) else value


def uses(calls: Sequence[ToolCall]) -> tuple[Use, ...]:
    return tuple(Use(tool=call.tool, arguments=call.arguments, malformed=call.malformed) for call in calls)


def differences(asked: Contract, other: Contract) -> Mapping[str, tuple[JsonValue, JsonValue]]:
    """Compare two requests: the fields that differ, with what was asked and what the other has."""
    mine, theirs = asked.model_dump(mode="json"), other.model_dump(mode="json")
    names = dict.fromkeys((*mine, *theirs))
    return {name: (mine.get(name), theirs.get(name)) for name in names if mine.get(name) != theirs.get(name)}
