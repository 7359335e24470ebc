"""The verb `memory`: list, edit, confirm and forget what agents have recorded."""

import asyncio
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from chargehand_cli.connection import Connection
from chargehand_cli.location import NAME_SHARED_FILES
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.run_options import BadRequest
from chargehand_cli.terminal import put, put_json, say
from chargehand_cli.verb import FILES, AsJson, verb

if TYPE_CHECKING:
    from chargehand_plugins.memory.facts import Fact, Memory

app = typer.Typer(rich_markup_mode=None)
_memory = typer.Typer(name="memory", help="List, edit and forget the facts that agents recorded.", no_args_is_help=True)
app.add_typer(_memory)

_Tenant = Annotated[str, typer.Option(help="Tenant of the facts.")]
_Id = Annotated[str, typer.Argument(metavar="FACT", help="Id of the fact, as `list` shows it.")]
_Ids = Annotated[list[str], typer.Argument(metavar="FACT", help="Ids of the facts, as `list` shows them.")]


@verb(_memory, "list", location=FILES)
async def list_facts(connection: Connection, *, tenant: _Tenant = "default", as_json: AsJson = False) -> None:
    """List the facts of a tenant, the newest first."""
    facts = await asyncio.to_thread(_open(connection).facts, tenant)
    if as_json:
        put_json("[" + ",\n ".join(fact.model_dump_json() for fact in facts) + "]")
    elif facts:
        _put_facts(facts)
    else:
        say(f"No facts of tenant '{one_safe_line(tenant)}'.")


@verb(_memory, location=FILES)
async def edit(
    connection: Connection,
    fact: _Id,
    text: Annotated[str, typer.Argument(help="New text of the fact.")],
    *,
    tenant: _Tenant = "default",
) -> None:
    """Replace and confirm the text of a fact."""
    change = partial(_open(connection).confirm, at=datetime.now(UTC), text=text)
    await _change([fact], tenant, change, "edited")


@verb(_memory, location=FILES)
async def confirm(connection: Connection, facts: _Ids, *, tenant: _Tenant = "default") -> None:
    """Mark facts as confirmed."""
    await _change(facts, tenant, partial(_open(connection).confirm, at=datetime.now(UTC)), "confirmed")


@verb(_memory, location=FILES)
async def forget(connection: Connection, facts: _Ids, *, tenant: _Tenant = "default") -> None:
    """Delete facts permanently."""
    await _change(facts, tenant, _open(connection).forget, "forgotten")


async def _change(facts: Sequence[str], tenant: str, change: Callable[[str, str], object], done: str) -> None:
    from chargehand_plugins.memory.facts import MemoryRefusal

    for each in facts:
        try:
            await asyncio.to_thread(change, tenant, each)
        except MemoryRefusal as error:
            raise BadRequest(str(error)) from error
        put(f"{each} {done}.")


def _open(connection: Connection) -> "Memory":
    from chargehand.payloads.settings import encryption_of
    from chargehand_plugins.memory.facts import FOLDER, Memory

    location = connection.location
    place = location.artifacts or location.state
    if not location.artifacts and not (location.state / FOLDER).is_dir():
        raise BadRequest(f"There are no facts in {place}: {NAME_SHARED_FILES}")
    return Memory(place, encryption_of(os.environ))


def _put_facts(facts: "Sequence[Fact]") -> None:
    from chargehand_plugins.memory.facts import superseded

    outdated = superseded(facts)
    for fact in facts:
        marks = [
            "confirmed" if fact.confirmed_at else "",
            "rests on untrusted text" if "reads_untrusted" in fact.reads else "",
            "rests on private text" if "reads_private" in fact.reads else "",
            f"superseded by {outdated[fact.id]}" if fact.id in outdated else "",
        ]
        origin = f"{fact.recorded_at.astimezone():%Y-%m-%d %H:%M}  {fact.agent} in {fact.session}, from {fact.source}"
        put(f"{fact.id}  {fact.text}")
        put(f"    {one_safe_line(origin, 400)}  ({', '.join(filter(None, marks)) or 'not confirmed'})")
