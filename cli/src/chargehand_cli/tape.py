"""The tape of a run: the worker records to it, or answers from it; the session's request is on it too."""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from chargehand_cli.embedded.state import TAPE_SETTINGS
from chargehand_cli.location import Location
from chargehand_cli.request import BadRequest

if TYPE_CHECKING:
    from chargehand import SessionRequest

_VERSION: Final = 1
_HEAD_BYTES: Final = 1_000_000
"""The request is within the first of a tape."""


@dataclass(frozen=True)
class TapeOptions:
    """Whether a run is recorded, or replayed; at most one of both."""

    record: Annotated[
        Path | None,
        typer.Option(
            "--record", metavar="FILE", help="Record the model and tool traffic, without keys, to a new file."
        ),
    ] = None
    replay: Annotated[
        Path | None,
        typer.Option("--replay-tape", metavar="FILE", help="Answer from a recorded file instead of models and tools."),
    ] = None

    @property
    def option(self) -> str:
        return "--record" if self.record else "--replay-tape"

    @property
    def file(self) -> Path | None:
        """The tape, if there is one.

        Raises:
            typer.BadParameter: there are two.
        """
        if self.record and self.replay:
            raise typer.BadParameter("Give either --record or --replay-tape.")
        file = self.record or self.replay
        return file.expanduser().absolute() if file else None


def locate(location: Location, tape: TapeOptions) -> Location:
    """Give the embedded worker the tape, and a task queue that no other session waits on.

    Raises:
        BadRequest: this command does not start the worker.
    """
    file = tape.file
    if file is None:
        return location
    name = TAPE_SETTINGS[0 if tape.record else 1]
    if not location.is_embedded:
        raise BadRequest(
            f"{tape.option} needs the embedded server, whose worker this command starts; here {location.configured_by} "
            f"names another one. Start a worker of your own with {name}={file}."
        )
    worker = location.require_worker("record or replay with")
    queue = f"{location.task_queue}-tape-{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    environment = worker.environment | {name: str(file), "CHARGEHAND_TASK_QUEUE": queue}
    return replace(location, task_queue=queue, worker=replace(worker, environment=environment))


def check_running_worker(running: str, location: Location) -> None:
    """Compare the tape of the worker that runs with the one that this command needs.

    Raises:
        BadRequest: they differ.
    """
    needed = location.worker.tape if location.worker else ""
    if running == needed:
        return
    if not needed:
        raise BadRequest(
            f"The embedded worker serves another command with {running}. Run this again when it has ended."
        )
    raise BadRequest(
        f"The embedded worker was started without {needed} and serves another command, such as `chargehand up`. "
        "End that first, or name another --state-dir."
    )


class Recording:
    """A new tape."""

    def __init__(self, file: Path) -> None:
        """Create the file, readable by its owner only.

        Raises:
            BadRequest: it exists, or cannot be written.
        """
        self._file = file
        try:
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as error:
            remedy = " Name another one, or delete it." if isinstance(error, FileExistsError) else ""
            raise BadRequest(f"{file} cannot be recorded to: {error.strerror}.{remedy}") from error
        self._append({"chargehand_tape": _VERSION, "recorded_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"})

    def keep_request(self, request: "SessionRequest") -> None:
        """Write the session's request, and the names of its documents."""
        fields = request.model_dump(mode="json", exclude={"documents", "delegation"}, exclude_defaults=True)
        names = [uri.rstrip("/").rpartition("/")[2] for uri in request.documents]
        self._append({"request": fields} | ({"documents": names} if names else {}))

    def discard(self) -> None:
        """Delete the file: there was no session."""
        self._file.unlink(missing_ok=True)

    def _append(self, line: dict[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as tape:
            tape.write(json.dumps(line, ensure_ascii=False) + "\n")


def read_request(file: Path) -> dict[str, Any]:
    """Read the fields of the request on a tape; the worker checks the rest of it.

    Raises:
        BadRequest: there is none.
    """
    try:
        with file.open("rb") as tape:
            head = tape.read(_HEAD_BYTES).splitlines()
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}.") from error
    for line in head:
        with suppress(ValueError, AttributeError, RecursionError):
            request = cast("dict[str, Any]", json.loads(line)).get("request")
            if isinstance(request, dict):
                return cast("dict[str, Any]", request)
    raise BadRequest(f"{file} is not a tape: it has no request in its first {_HEAD_BYTES:,} bytes.")
