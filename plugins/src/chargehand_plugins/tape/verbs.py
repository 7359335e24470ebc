"""The verb `tape`: record a session, replay one, and show what its models received."""

import hashlib
import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

import typer

from chargehand_cli.connection import Connection
from chargehand_cli.location import Location
from chargehand_cli.run_options import BadRequest, RequestOptions
from chargehand_cli.terminal import Exit, put, say
from chargehand_cli.verb import FILES, ReportOptions, verb
from chargehand_cli.verbs.run import run_session
from chargehand_plugins.tape.format import VERSION

if TYPE_CHECKING:
    from chargehand import SessionRequest

app = typer.Typer(rich_markup_mode=None)
tapes = typer.Typer(name="tape", help="Record a session to a file, and replay it without a key.", no_args_is_help=True)
app.add_typer(tapes)

_Tape = Annotated[Path, typer.Argument(metavar="FILE", help="The tape.")]
_HEAD_BYTES: Final = 1_000_000
"""The request is within these first bytes of a tape."""


@verb(tapes, location=FILES)
async def record(connection: Connection, file: _Tape, options: RequestOptions, shown: ReportOptions) -> Exit:
    """Run a session, and record its model and tool traffic, without keys, to a new file."""
    file = file.expanduser().absolute()
    connection.location = locate(connection.location, "record", file)
    with new_tape(file) as tape:

        def begin(request: "SessionRequest") -> None:
            tape.keep_request(request)
            if not shown.quiet:
                say(f"Recording to {file}")

        return await run_session(connection, options, shown, before_start=begin)


@verb(tapes, location=FILES)
async def replay(connection: Connection, file: _Tape, options: RequestOptions, shown: ReportOptions) -> Exit:
    """Replay a tape's session: the file answers instead of models and tools."""
    file = file.expanduser().absolute()
    connection.location = locate(connection.location, "replay", file)

    def begin(_: "SessionRequest") -> None:
        if not shown.quiet:
            say(f"No model is called: {file} is replayed.")

    return await run_session(connection, options, shown, base=read_request(file), before_start=begin)


@tapes.command()
def show(file: _Tape) -> None:
    """Print every turn of a recorded session: what was new to the model, and what it replied."""
    from chargehand_plugins.tape.wire import wire_lines

    for line in wire_lines(file):
        put(line)


def locate(location: Location, use: Literal["record", "replay"], file: Path) -> Location:
    """Give the embedded worker the tape, and a task queue without other sessions.

    Raises:
        BadRequest: this command does not start the worker.
    """
    name = f"CHARGEHAND_TAPE_{use.upper()}"
    if not location.is_embedded:
        raise BadRequest(
            f"`tape {use}` needs the embedded server, whose worker this command starts; here {location.configured_by} "
            f"names another one. Start a worker of your own with {name}={file}."
        )
    worker = location.require_worker("record or replay with")
    queue = f"{location.task_queue}-tape-{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    environment = worker.environment | {name: str(file), "CHARGEHAND_TASK_QUEUE": queue}
    return replace(
        location, task_queue=queue, worker=replace(worker, environment=environment, variant=f"{name}={file}")
    )


class Recording:
    def __init__(self, file: Path) -> None:
        """Create the private file.

        Raises:
            BadRequest: it exists, or cannot be written.
        """
        self._file = file
        self.has_request = False
        try:
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as error:
            remedy = " Name another one, or delete it." if isinstance(error, FileExistsError) else ""
            raise BadRequest(f"{file} cannot be recorded to: {error.strerror}.{remedy}") from error
        self._append({"chargehand_tape": VERSION, "recorded_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"})

    def keep_request(self, request: "SessionRequest") -> None:
        """Write the session's request and the names of its documents."""
        fields = request.model_dump(mode="json", exclude={"documents", "delegation"}, exclude_defaults=True)
        self.has_request = True
        names = [uri.rstrip("/").rpartition("/")[2] for uri in request.documents]
        self._append({"request": fields} | ({"documents": names} if names else {}))

    def _append(self, line: dict[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as tape:
            tape.write(json.dumps(line, ensure_ascii=False) + "\n")


@contextmanager
def new_tape(file: Path) -> Generator[Recording]:
    """Create a tape, and delete it if no session was started."""
    tape = Recording(file)
    try:
        yield tape
    finally:
        if not tape.has_request:
            file.unlink(missing_ok=True)


def read_request(file: Path) -> dict[str, Any]:
    """Read the request on a tape; the worker validates the rest.

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
