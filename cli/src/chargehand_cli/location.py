"""Decide where a command works: on which server, with which worker, in which directories. Standard library only."""

import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from chargehand.errors import NotReachable
from chargehand.wire import TASK_QUEUE
from chargehand_cli.embedded import WorkerCommand, find_temporal

NAME_WHAT_IS_SHARED: Final = (
    "say which directory, s3://BUCKET or gs://BUCKET they share with this machine, with --artifacts or "
    "CHARGEHAND_ARTIFACTS."
)
_WORKER_FILE: Final = "worker_main.py"
_INSTALLED_IN: Final = Path(__file__).resolve().parent


class NothingToRunOn(NotReachable):
    """Neither a server is configured nor an application is here that an embedded one could run."""

    def __init__(self) -> None:
        super().__init__(
            f"No Temporal server is configured, and there is no {_WORKER_FILE} here to run an embedded one with. "
            "Either name a server: --address HOST:PORT, TEMPORAL_ADDRESS or a profile in Temporal's own settings. "
            "Or name a checkout of Chargehand: --application DIR or CHARGEHAND_APPLICATION."
        )


@dataclass(frozen=True)
class Wishes:
    """What the user said on the command line; whatever is absent is decided by the environment."""

    address: str | None = None
    application: Path | None = None
    state: Path | None = None
    artifacts: Path | None = None
    task_queue: str | None = None


@dataclass(frozen=True)
class Place:
    """Where a command works."""

    configured_by: str
    """What names a server, in words; empty for the embedded one."""
    address: str | None
    """The server's address, if it is not left to Temporal's own settings."""
    application: Path | None
    state: Path
    artifacts: Path | None
    """Where documents are uploaded to; None if no worker is known to read them."""
    task_queue: str
    worker: WorkerCommand | None = None
    temporal: Path | None = None
    ui_url: str | None = None
    worker_log: Path = field(default=Path())
    storage: str | None = None
    """Where large payloads go, unless CHARGEHAND_STORAGE says otherwise."""

    @property
    def is_embedded(self) -> bool:
        return not self.configured_by


def decide_place(
    wishes: Wishes,
    environment: Mapping[str, str],
    directory: Path,
    home: Path,
    *,
    installed_in: Path = _INSTALLED_IN,
) -> Place:
    """Prefer a server that is named anywhere; else run one with the application that is here.

    An editable installation lies in its checkout, and so `installed_in` is where one is looked for last.

    Raises:
        NothingToRunOn: there is neither.
        EmbeddedServerFailed: the embedded server's program is missing.
    """
    application = _application(wishes, environment, (directory, installed_in))
    state = _state(wishes, environment, application, home)
    named_artifacts = wishes.artifacts or _path(environment, "CHARGEHAND_ARTIFACTS")
    task_queue = wishes.task_queue or environment.get("CHARGEHAND_TASK_QUEUE") or TASK_QUEUE
    if configured_by := _configured_by(wishes, environment, home):
        return Place(
            configured_by=configured_by,
            address=wishes.address,
            application=application,
            state=state,
            artifacts=named_artifacts,
            task_queue=task_queue,
            ui_url=environment.get("CHARGEHAND_UI_URL"),
        )
    if application is None:
        raise NothingToRunOn
    python = _python(application)
    artifacts = named_artifacts or state / "artifacts"
    storage = environment.get("CHARGEHAND_STORAGE") or str(state / "payloads")
    worker = WorkerCommand(
        command=(str(python), _WORKER_FILE),
        directory=application,
        environment={
            "CHARGEHAND_STATE_DIR": str(state),
            "CHARGEHAND_ARTIFACTS": str(artifacts),
            "CHARGEHAND_TASK_QUEUE": task_queue,
            "CHARGEHAND_STORAGE": storage,
        },
    )
    return Place(
        configured_by="",
        address=None,
        application=application,
        state=state,
        artifacts=artifacts,
        task_queue=task_queue,
        worker=worker,
        temporal=find_temporal(python),
        worker_log=state / "worker.log",
        storage=storage,
    )


def application_command(application: Path, *arguments: str) -> tuple[str, ...]:
    """Build the command that asks something of the application's own program, to be run in its folder."""
    return (str(_python(application)), _WORKER_FILE, *arguments)


def _application(wishes: Wishes, environment: Mapping[str, str], near: tuple[Path, ...]) -> Path | None:
    named = wishes.application or _path(environment, "CHARGEHAND_APPLICATION")
    if named:
        if not (named / _WORKER_FILE).is_file():
            raise NotReachable(f"{named} is not a checkout of Chargehand: it holds no {_WORKER_FILE}.")
        return named.resolve()
    for candidate in (folder for start in near for folder in (start, *start.parents)):
        if (candidate / _WORKER_FILE).is_file() and (candidate / "workflows").is_dir():
            return candidate.resolve()
    return None


def _state(wishes: Wishes, environment: Mapping[str, str], application: Path | None, home: Path) -> Path:
    if named := wishes.state or _path(environment, "CHARGEHAND_STATE_DIR"):
        return named.absolute()
    if application:
        return application / ".chargehand"
    return (_path(environment, "XDG_STATE_HOME") or home / ".local" / "state") / "chargehand"


def _configured_by(wishes: Wishes, environment: Mapping[str, str], home: Path) -> str:
    if wishes.address:
        return "--address"
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE"):
        if environment.get(name):
            return name
    file = _config_folder(environment, home) / "temporalio" / "temporal.toml"
    with suppress(OSError, ValueError, AttributeError):
        profiles = cast("dict[str, dict[str, Any]]", tomllib.loads(file.read_text()).get("profile", {}))
        if profiles.get("default", {}).get("address"):
            return str(file)
    return ""


def _config_folder(environment: Mapping[str, str], home: Path) -> Path:
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    return _path(environment, "XDG_CONFIG_HOME") or home / ".config"


def _python(application: Path) -> Path:
    own = application / ".venv" / "bin" / "python"
    return own if own.exists() else Path(sys.executable)


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    value = environment.get(name)
    return Path(value).expanduser() if value else None
