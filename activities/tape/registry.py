"""The settings of tapes, and what a worker wraps around its models and tools because of them."""

from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import FilePath
from pydantic_settings import BaseSettings, SettingsConfigDict

from activities.backends import Choice, SettingsError, secret_values
from activities.contracts.tool import Tool, tool_capabilities
from activities.models.protocol import CountsInput
from activities.models.registry import Models
from activities.tape.contracts import WorkerFacts
from activities.tape.player import CountingReplayedModel, ReplayedModel, ReplayedTool, read_tape
from activities.tape.recorder import Recorder, TapeFile, recording, recording_tool


class TapeSettings(BaseSettings):
    """The settings of tapes; `chargehand run` sets them for the worker that it starts."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True)

    tape_record: Path | None = None
    """A file to which the traffic of models and tools is appended."""
    tape_replay: FilePath | None = None
    """A recorded file that answers instead of models and tools."""


@dataclass(frozen=True)
class Traffic:
    """What a session's questions go to."""

    models: Models
    tools: Mapping[str, Tool]
    absent: Collection[str]
    """Tools that crews may mention and agents do not get."""


def choose_tape(settings: TapeSettings) -> tuple[Choice, ...]:
    """Say which tape is used, if one is."""
    if settings.tape_replay:
        return (Choice("tape", "replay", f"CHARGEHAND_TAPE_REPLAY is {settings.tape_replay}: no model is called"),)
    if settings.tape_record:
        return (Choice("tape", "record", f"CHARGEHAND_TAPE_RECORD is {settings.tape_record}"),)
    return ()


def with_tape(settings: TapeSettings, traffic: Traffic, closing: AsyncExitStack) -> Traffic:
    """Record or replay the traffic, if the settings say so.

    Raises:
        SettingsError: both are set, or the file cannot be used.
    """
    if settings.tape_replay and settings.tape_record:
        raise SettingsError("CHARGEHAND_TAPE_RECORD and CHARGEHAND_TAPE_REPLAY are both set; unset one of them.")
    if settings.tape_replay:
        return replayed(settings.tape_replay, traffic)
    if not settings.tape_record:
        return traffic
    try:
        tape = TapeFile(settings.tape_record, secret_values(settings), _facts(traffic))
    except OSError as error:
        raise SettingsError(
            f"CHARGEHAND_TAPE_RECORD: {settings.tape_record} cannot be written: {error.strerror}."
        ) from error
    closing.callback(tape.close)
    return recorded(tape, traffic)


def recorded(tape: Recorder, traffic: Traffic) -> Traffic:
    """Record what passes."""
    models = replace(traffic.models, adapter=recording(traffic.models.adapter, tape))
    if fallback := models.fallback:
        models = replace(models, fallback=replace(fallback, adapter=recording(fallback.adapter, tape)))
    tools = {name: recording_tool(tool, tape) for name, tool in traffic.tools.items()}
    return Traffic(models, tools, traffic.absent)


def replayed(path: Path, traffic: Traffic) -> Traffic:
    """Answer from a tape, with the models, tools and capabilities of the worker that recorded it.

    Raises:
        SettingsError: the tape cannot be read, or names tools that there are not.
    """
    tape = read_tape(path)
    if unknown := [name for name in tape.facts.tools if name not in traffic.tools]:
        raise SettingsError(f"CHARGEHAND_TAPE_REPLAY: {path} has tools that this worker does not: {', '.join(unknown)}")
    tools = {name: ReplayedTool(tool.spec, tape) for name, tool in traffic.tools.items()}
    model = CountingReplayedModel(tape) if tape.facts.counts_input else ReplayedModel(tape)
    return Traffic(Models(model, tape.facts.models), tools, tape.facts.absent)


def _facts(traffic: Traffic) -> WorkerFacts:
    capabilities = tool_capabilities(traffic.tools)
    return WorkerFacts(
        models=dict(traffic.models.cards),
        tools={name: tuple(sorted(allowed)) for name, allowed in capabilities.items()},
        absent=tuple(sorted(traffic.absent)),
        counts_input=isinstance(traffic.models.adapter, CountsInput),
    )
