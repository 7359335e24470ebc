"""The verb `clean`: delete what no session needs."""

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from chargehand.payloads.errors import ProtectionSettingsError
from chargehand.payloads.settings import protection_from
from chargehand_cli.connection import Connection
from chargehand_cli.location import Location
from chargehand_cli.terminal import put
from chargehand_cli.verb import verb

app = typer.Typer()

_AGE: Final = re.compile(r"(\d{1,6})([hdw])")
_UNITS: Final[Mapping[str, timedelta]] = {
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


@verb(app)
async def clean(
    connection: Connection,
    *,
    older_than: Annotated[str, typer.Option(help="Minimum age: 12h, 30d or 4w.")] = "30d",
    delete: Annotated[bool, typer.Option("--delete", help="Delete; without it, only print what would be.")] = False,
) -> None:
    """Delete stored payloads, documents and files made by agents that no session on the server needs."""
    from chargehand_plugins.operations.cleaning import clean as clean_folders

    minimum_age = age(older_than)
    await connection.open(worker=False)
    client = connection.chargehand.client
    storage = protection_from(os.environ, client.namespace, usual_storage=connection.location.storage).storage
    folders = _folders_of_files(connection.location, storage.driver if storage else None)
    done = await clean_folders(client, folders, minimum_age, delete=delete)
    verb = "Deleted" if delete else "Would delete"
    put(f"{verb} {done.files} files ({done.bytes:,} bytes) last used before {done.before:%Y-%m-%d %H:%M} UTC.")
    put(f"{done.kept} files remain." if delete else f"{done.kept} files would remain. Delete with --delete.")


def _folders_of_files(location: Location, payloads: object) -> list[Path]:
    """List the folders of this machine that hold payloads, artifacts and crews."""
    from chargehand.bucket import bucket_location
    from chargehand.payloads.storage import PayloadDirectory

    folders = {location.state / "artifacts", location.state / "crews"}
    if isinstance(payloads, PayloadDirectory):
        folders.add(payloads.folder)
    if location.artifacts and bucket_location(location.artifacts) is None:
        folders.add(Path(location.artifacts).absolute())
    return sorted(folders)


def age(text: str) -> timedelta:
    """Read `12h`, `30d` or `4w`.

    Raises:
        ProtectionSettingsError: the text has another format.
    """
    found = _AGE.fullmatch(text)
    if not found:
        raise ProtectionSettingsError("--older-than must be a number of hours, days or weeks: 12h, 30d or 4w.")
    return int(found[1]) * _UNITS[found[2]]
