"""Decide which server, worker and directories a command uses."""

import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from chargehand import NotReachable
from chargehand.errors import UploadRefused
from chargehand.local_server import state_directory
from chargehand.toml_file import UnusableToml, read_toml
from chargehand.wire import TASK_QUEUE
from chargehand_cli.embedded.program import find_temporal
from chargehand_cli.embedded.state import WorkerCommand

NAME_SHARED_FILES: Final = (
    "name the directory, s3://BUCKET or gs://BUCKET that they share with this machine: --artifacts or "
    "CHARGEHAND_ARTIFACTS."
)
_NAME_A_SERVER: Final = (
    " Or name a Temporal server: --address HOST:PORT, TEMPORAL_ADDRESS or a profile in Temporal's settings."
)
_WORKER_FILE: Final = "worker_main.py"
_WORKER_PACKAGE: Final = "chargehand_worker"
_NO_HOME: Final = Path("/nonexistent")
_PROJECT: Final = Path(sys.prefix).parent
"""The folder of this command's virtual environment: a checkout of Chargehand, if it contains the worker."""


class NoWorkerProgram(NotReachable):
    """This machine has no worker program."""

    def __init__(self, purpose: str, alternative: str = "") -> None:
        super().__init__(
            f"There is no worker to {purpose}: pip install 'chargehand[worker]', or set CHARGEHAND_WORKER to the "
            f"command line of one that is elsewhere, such as '/path/to/python -m {_WORKER_PACKAGE}'.{alternative}"
        )


@dataclass(frozen=True)
class LocationOptions:
    """Location options from the command line; the environment decides those that are None."""

    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Temporal server. Default: TEMPORAL_ADDRESS, Temporal's profiles, or an embedded server.",
        ),
    ] = None
    artifacts: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Directory, s3://BUCKET or gs://BUCKET shared with the workers (CHARGEHAND_ARTIFACTS).",
        ),
    ] = None
    state: Annotated[
        Path | None, typer.Option("--state-dir", help="Directory of sessions and files (CHARGEHAND_STATE_DIR).")
    ] = None
    task_queue: Annotated[str | None, typer.Option(help="Task queue of the workers (CHARGEHAND_TASK_QUEUE).")] = None


@dataclass(frozen=True)
class Location:
    """The server, worker and directories that a command uses."""

    configured_by: str
    """The option, setting or file that names the server; empty for the embedded server."""
    address: str | None
    """The server's address, unless Temporal's own settings determine it."""
    state: Path
    artifacts: str | None
    """Where documents are uploaded; None if the workers' location is unknown."""
    task_queue: str
    worker: WorkerCommand | None
    """The worker program of this machine."""
    temporal: Path | None = None
    """The `temporal` program of the embedded server."""
    ui_url: str | None = None
    storage: str | None = None
    """Where large payloads are stored; None if only the configured server's clients know."""

    @property
    def is_embedded(self) -> bool:
        return not self.configured_by

    @property
    def worker_log(self) -> Path:
        return self.state / "worker.log"

    def require_artifacts(self, problem: str) -> str:
        """Return the location of files shared with the workers; raises `UploadRefused` if it is unknown."""
        if self.artifacts is None:
            raise UploadRefused(f"{problem}: {NAME_SHARED_FILES}")
        return self.artifacts

    def require_worker(self, purpose: str) -> WorkerCommand:
        """Return the worker program.

        Raises:
            NoWorkerProgram: this machine has none.
        """
        if self.worker is None:
            raise NoWorkerProgram(purpose)
        return self.worker


def find_location(
    options: LocationOptions,
    environment: Mapping[str, str],
    home: Path,
    *,
    here: Path,
    project: Path = _PROJECT,
    has_package: bool | None = None,
) -> Location:
    """Prefer a configured server; otherwise use an embedded one with this machine's worker program.

    The state is in the nearest `.chargehand` at or above `here`, the working directory, if there is one. A checkout of
    Chargehand would be in `project`; `has_package` says whether the worker's package is installed, if that is known.

    Raises:
        NoWorkerProgram: no server is configured, and there is no worker program.
        EmbeddedServerFailed: the embedded server's program is missing.
    """
    state = (options.state or state_directory(environment, home, here, project)).absolute()
    artifacts = options.artifacts or environment.get("CHARGEHAND_ARTIFACTS") or None
    task_queue = options.task_queue or environment.get("CHARGEHAND_TASK_QUEUE") or TASK_QUEUE
    configured_by = _setting_in_use(options, environment, home)
    storage = None
    if not configured_by:
        artifacts = artifacts or str(state / "artifacts")
        storage = environment.get("CHARGEHAND_STORAGE") or str(state / "payloads")
    chosen = {"STATE_DIR": str(state), "ARTIFACTS": artifacts, "TASK_QUEUE": task_queue, "STORAGE": storage}
    settings = {f"CHARGEHAND_{name}": value for name, value in chosen.items() if value}
    worker = None
    if command := _worker_command(environment, project, has_package=has_package):
        worker = WorkerCommand(command, here, settings)
    elif not configured_by:
        raise NoWorkerProgram("run an embedded server with", _NAME_A_SERVER)
    return Location(
        configured_by=configured_by,
        address=options.address,
        state=state,
        artifacts=artifacts,
        task_queue=task_queue,
        worker=worker,
        temporal=None if configured_by else find_temporal(),
        ui_url=environment.get("CHARGEHAND_UI_URL"),
        storage=storage,
    )


def find_own_location(options: LocationOptions) -> Location:
    """Find the location from this process's environment.

    Raises:
        NotReachable: the working directory is gone.
    """
    try:
        here = Path.cwd()
    except OSError as error:
        raise NotReachable(f"The working directory cannot be used: {error.strerror}. Change to another one.") from error
    try:
        home = Path.home()
    except RuntimeError:  # this user has no home
        home = _NO_HOME
    return find_location(options, os.environ, home, here=here)


def _worker_command(environment: Mapping[str, str], project: Path, *, has_package: bool | None) -> tuple[str, ...]:
    if named := environment.get("CHARGEHAND_WORKER"):
        try:
            return tuple(shlex.split(named))
        except ValueError as error:
            raise NotReachable(f"CHARGEHAND_WORKER is not a command line: {error}.") from error
    if (project / _WORKER_FILE).is_file():
        return (sys.executable, str(project / _WORKER_FILE))
    if find_spec(_WORKER_PACKAGE) if has_package is None else has_package:
        # Without -P, a file in the working directory could shadow a module of the standard library.
        return (sys.executable, "-P", "-m", _WORKER_PACKAGE)
    return ()


def _setting_in_use(options: LocationOptions, environment: Mapping[str, str], home: Path) -> str:
    if options.address:
        return "--address"
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE"):
        if environment.get(name):
            return name
    if sys.platform == "darwin":
        settings = home / "Library" / "Application Support"
    else:
        settings = Path(environment.get("XDG_CONFIG_HOME") or home / ".config").expanduser()
    file = settings / "temporalio" / "temporal.toml"
    with suppress(UnusableToml, AttributeError):
        profiles = cast("dict[str, dict[str, Any]]", read_toml(file).get("profile", {}))
        if profiles.get("default", {}).get("address"):
            return str(file)
    return ""
