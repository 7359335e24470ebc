"""The lines of a tape: JSON objects, one per line, the first of which states the version.

A request is identified by its meaning for a person, never by the wording of the prompt: prompts change
while tapes stay the same, and parallel subtasks send requests in any order.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from pydantic import JsonValue

from activities.contracts.cards import ModelCard
from activities.contracts.rounds import InputOutcome, Round, ToolCall, TurnStop
from activities.models.failures import ProviderFault
from activities.models.protocol import ModelCall
from chargehand.contracts import Capability, Contract, Source, Tier, Usage
from chargehand.wire import ErrorType
from chargehand_plugins.tape.format import Taped, TapedPrompt, TurnAsked, Use

_SUBJECTS: Final = ("instruction", "template", "question", "goal")
"""Fields of tasks that state a turn's subject, from the most specific one."""
_ATTEMPTS: Final = ("rejected", "problems", "attempts")
_OUTCOMES: Final = ("inputs", "items", "outcomes", "candidates")


class TapedReply(Taped):
    stop: TurnStop = "answer"
    answer: dict[str, JsonValue] | None = None
    """The reply, if it is a JSON object."""
    text: str = ""
    """The reply, if it is not a JSON object."""
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
    """A tool's answer. A tape contains no files, and therefore no tool's artifacts."""

    ok: bool = True
    output: dict[str, JsonValue] = {}
    sources: tuple[Source, ...] = ()


class WorkerFacts(Taped):
    """Settings of the recording worker that affect what a session can do."""

    models: dict[Tier, ModelCard]
    tools: dict[str, tuple[Capability, ...]]
    """Capabilities of each tool."""
    absent: tuple[str, ...] = ()
    """Tools named by crews that agents did not get."""
    uses_tools: bool = False
    """Whether tools are called during a replay, instead of being answered from the tape."""
    counts_input: bool = False
    """Whether the models' provider counts prompts before the call."""


class Line(Taped):
    """A line of a tape, with one kind of content."""

    chargehand_tape: int | None = None
    """The version, in the first line."""
    note: str = ""
    """A note for people, such as the tape's author."""
    recorded_at: str = ""
    worker: WorkerFacts | None = None
    request: dict[str, JsonValue] | None = None
    """The session's request without documents; written and read by the command line."""
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
    """Return the parts of a request that identify it."""
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
    """Return the differing fields of two requests, with both values."""
    values, others = asked.model_dump(mode="json"), other.model_dump(mode="json")
    names = dict.fromkeys((*values, *others))
    return {name: (values.get(name), others.get(name)) for name in names if values.get(name) != others.get(name)}
