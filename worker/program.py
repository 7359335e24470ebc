"""The worker program: its verbs and error reporting.

`--check-settings` only checks the settings; plug-ins add further verbs, which print JSON.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

from pydantic import ValidationError

from activities.backends import SettingsError, secret
from chargehand.contracts.problems import printable
from chargehand.credentials import credential_keys
from chargehand.environment import BAD_SETTINGS, absent_plugin_settings, describe_unknown
from chargehand.errors import ChargehandError
from chargehand.plugins import installed, require, require_usable
from worker.composition import choose, encryption
from worker.logs import configure_logging, disable_core_dumps, writes_json
from worker.process import announce_polling, run
from worker.process_group import ProcessGroup
from worker.settings import Settings, describe_unusable, read_settings

_logger = logging.getLogger("chargehand.worker")
_LONGEST_PROBLEM: Final = 4_000


def _run_member(settings: Settings, number: int, announce: Callable[[], None]) -> int:
    return _reporting(lambda: _run_loop(run(settings.of_process(number), announce, number)), settings, is_worker=True)


def _run_loop(work: Coroutine[object, object, None]) -> None:
    """Run on uvloop if it is installed, which saves an eighth of the CPU time."""
    uvloop = import_module("uvloop") if find_spec("uvloop") else None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uvloop else None) as runner:
        runner.run(work)


def main(arguments: Sequence[str], settings: Settings | None = None) -> int:
    """Run the worker or the verb in the first argument, with the given settings or the environment's."""
    return _reporting(lambda: _run_verb(settings or _settings(), *arguments), settings, is_worker=not arguments)


def _settings() -> Settings:
    """Read the settings, including those of plug-ins.

    Raises:
        PluginError: a plug-in is unusable.
        SettingsError: a setting belongs to a plug-in that is not installed.
    """
    require_usable(installed())
    if absent := absent_plugin_settings(os.environ):
        raise SettingsError(". ".join(absent) + ".")
    return read_settings()


def _reporting(work: Callable[[], int | None], settings: Settings | None, *, is_worker: bool) -> int:
    """Run the work and report errors, for a worker in the format of its log."""
    try:
        return work() or 0
    except ValidationError as error:
        problem = f"The worker's settings cannot be used: {describe_unusable(error)}"
    except ChargehandError as error:
        problem = f"The worker cannot start: {error}"
    problem = printable(problem, _LONGEST_PROBLEM)
    if is_worker and writes_json(settings.log_format if settings else os.environ.get("CHARGEHAND_LOG_FORMAT", "")):
        configure_logging("INFO", "json")
        _logger.critical(problem)
    else:
        sys.stderr.write(f"{problem}\n")
    return BAD_SETTINGS


def _run_verb(settings: Settings, verb: str = "", file: str = "") -> int:
    if verb == "--check-settings":
        choose(settings)
        encryption(settings)
        credential_keys(secret(settings.credential_keys))
        return 0
    if verb:
        added = {each.name: each for each in installed().worker_verbs}
        if verb not in added:
            raise SettingsError(f"there is no option {verb}; the plug-in that adds it may not be installed")
        logging.basicConfig(level=logging.ERROR)
        with added[verb].calling("option"):
            return require(int, asyncio.run(added[verb].load_function()(settings, Path(file))))
    configure_logging(settings.log_level, settings.log_format, names_process=settings.processes > 1)
    disable_core_dumps()
    for warning in describe_unknown(os.environ):
        _logger.warning(warning)
    announce = partial(announce_polling, settings)
    if settings.processes > 1:
        return ProcessGroup(settings.processes, partial(_run_member, settings), announce).run()
    _run_loop(run(settings, announce))
    return 0


def run_program() -> NoReturn:
    """Run the command line and exit immediately.

    The SDK's threads can abort a process during an orderly shutdown (temporalio/sdk-python#300).
    """
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
