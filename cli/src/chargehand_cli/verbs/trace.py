"""Export every step of a session: `trace`."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chargehand_cli.connection import Connection
from chargehand_cli.request import BadRequest
from chargehand_cli.terminal import put, put_json, say
from chargehand_cli.verb import SessionId, verb

if TYPE_CHECKING:
    from chargehand import Trace

app = typer.Typer()


class Format(StrEnum):
    """The formats of a trace."""

    JSON = "json"
    HTML = "html"
    OTLP = "otlp"


@verb(app)
async def trace(
    connection: Connection,
    session: SessionId,
    *,
    form: Annotated[
        Format, typer.Option("--format", help="otlp is OTLP/JSON, as OpenTelemetry collectors take it.")
    ] = Format.JSON,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write; - is standard output. Default: -.")
    ] = None,
) -> None:
    """Export every step of a session. Needs no worker, and includes running and failed sessions."""
    from chargehand_cli.session_files import open_trace

    text = _write(await open_trace(connection, session), form)
    if to is None or to == Path("-"):
        put(text) if form is Format.HTML else put_json(text)
        return
    try:
        await asyncio.to_thread(to.write_text, text, encoding="utf-8")
    except OSError as error:
        raise BadRequest(f"{to} cannot be written: {error.strerror}. Name another file: --to FILE.") from error
    say(f"Trace: {to}")


def _write(steps: "Trace", form: Format) -> str:
    match form:
        case Format.JSON:
            return steps.model_dump_json(indent=2)
        case Format.HTML:
            from chargehand_cli.rendering.trace_page import trace_page

            return trace_page(steps)
        case Format.OTLP:
            from chargehand_cli.rendering.otlp import otlp

            return otlp(steps)
