"""The settings of tapes, and their wrappers of a worker's models and tools."""

from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import FilePath
from pydantic_settings import BaseSettings

from activities.backends import Choice, SettingsError, secret_values
from activities.contracts.tool import tool_capabilities
from activities.models.protocol import CountsInput
from activities.models.tiers import Models
from chargehand_plugins.tape.contracts import WorkerFacts
from chargehand_plugins.tape.player import CountingReplayedModel, ReplayedModel, ReplayedTool, read_tape
from chargehand_plugins.tape.recorder import Recorder, RecordingTool, TapeFile, recording
from worker.parts import Traffic, WorkerParts
from worker.settings import PartSettings, settings_of


class TapeSettings(PartSettings):
    """The settings of tapes; `chargehand tape` sets them for the worker that it starts."""

    tape_record: Path | None = None
    """A file to which the traffic of models and tools is appended."""
    tape_replay: FilePath | None = None
    """A recorded file that answers instead of models and tools."""


def choose(settings: BaseSettings) -> tuple[Choice, ...]:
    """Report which tape is used, if any.

    Raises:
        SettingsError: there are two.
    """
    tape = settings_of(settings, TapeSettings)
    if tape.tape_replay and tape.tape_record:
        raise SettingsError("CHARGEHAND_TAPE_RECORD and CHARGEHAND_TAPE_REPLAY are both set; unset one of them.")
    if tape.tape_replay:
        why = f"CHARGEHAND_TAPE_REPLAY is {tape.tape_replay}: no model is called"
        return (Choice("tape", "replay", why, replaces_all=True),)
    if tape.tape_record:
        return (Choice("tape", "record", f"CHARGEHAND_TAPE_RECORD is {tape.tape_record}"),)
    return ()


async def add_parts(parts: WorkerParts) -> None:
    """Record or replay traffic between activities and adapters, if configured."""
    tape = settings_of(parts.settings, TapeSettings)
    if tape.tape_replay:
        parts.traffic_wrappers.append(partial(replayed, tape.tape_replay))
    elif tape.tape_record:
        parts.traffic_wrappers.append(partial(with_recorder, parts.settings, tape.tape_record, parts.closing))


def with_recorder(settings: BaseSettings, path: Path, closing: AsyncExitStack, traffic: Traffic) -> Traffic:
    """Record traffic to a file.

    Raises:
        SettingsError: the file cannot be written.
    """
    try:
        tape = TapeFile(path, secret_values(settings), _facts(traffic))
    except OSError as error:
        raise SettingsError(f"CHARGEHAND_TAPE_RECORD: {path} cannot be written: {error.strerror}.") from error
    closing.callback(tape.close)
    return recorded(tape, traffic)


def recorded(tape: Recorder, traffic: Traffic) -> Traffic:
    models = replace(traffic.models, adapter=recording(traffic.models.adapter, tape))
    if fallback := models.fallback:
        models = replace(models, fallback=replace(fallback, adapter=recording(fallback.adapter, tape)))
    tools = {name: RecordingTool(tool, tape) for name, tool in traffic.tools.items()}
    return Traffic(models, tools, traffic.absent)


def replayed(path: Path, traffic: Traffic) -> Traffic:
    """Answer from a tape, with the models, tools and capabilities of the recording worker.

    Raises:
        SettingsError: the tape is unreadable or names unknown tools.
    """
    tape = read_tape(path)
    if unknown := [name for name in tape.facts.tools if name not in traffic.tools]:
        raise SettingsError(f"CHARGEHAND_TAPE_REPLAY: {path} has tools that this worker does not: {', '.join(unknown)}")
    if tape.facts.uses_tools:
        return replace(traffic, models=Models(ReplayedModel(tape), tape.facts.models))
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
