"""`codec-server` and `clean`: what operators do about encrypted and stored payloads."""

import asyncio
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from chargehand.payloads.errors import ProtectionSettingsError
from chargehand.payloads.settings import protection_from
from chargehand_cli.connection import Connection, decide
from chargehand_cli.embedded.state import StateDirectory
from chargehand_cli.exit_codes import Exit
from chargehand_cli.location import NothingToRunOn, Wishes
from chargehand_cli.terminal import put, say

TOKEN: Final = "CHARGEHAND_CODEC_TOKEN"  # noqa: S105  # the name of a setting
_UI_ORIGINS: Final = ("http://localhost:8233", "http://127.0.0.1:8233")
_AGE: Final = re.compile(r"(\d{1,6})([hdw])")
_UNITS: Final[Mapping[str, timedelta]] = {
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


@dataclass(frozen=True)
class CodecServerWishes:
    """What the user said on the command line."""

    host: str
    port: int
    namespaces: Sequence[str]
    origins: Sequence[str]
    certificate: Path | None
    private_key: Path | None


async def serve_codec(wishes: CodecServerWishes) -> Exit:
    """Run a codec server until interrupted."""
    from chargehand.converter import data_converter  # noqa: PLC0415  # slow to load
    from chargehand_cli.codec_server import CodecServer, CodecServerSettings  # noqa: PLC0415  # as above

    storage, usual_origins = _embedded()
    namespaces = wishes.namespaces or [os.environ.get("TEMPORAL_NAMESPACE") or "default"]
    protections = {each: protection_from(os.environ, each, usual_storage=storage) for each in namespaces}
    if not any(each.encryption or each.storage for each in protections.values()):
        raise ProtectionSettingsError(
            "There is nothing to decode: neither CHARGEHAND_ENCRYPTION_KEYS and CHARGEHAND_ENCRYPTION_KEY_ID nor "
            "CHARGEHAND_STORAGE are set."
        )
    given = os.environ.get(TOKEN)
    token = given or secrets.token_urlsafe(24)
    settings = CodecServerSettings(
        token=token,
        converters={name: data_converter(each.encryption, each.storage) for name, each in protections.items()},
        origins=frozenset(_origin(each) for each in wishes.origins or usual_origins),
        host=wishes.host,
        port=wishes.port,
        certificate=str(wishes.certificate) if wishes.certificate else None,
        private_key=str(wishes.private_key) if wishes.private_key else None,
    )
    async with CodecServer(settings) as server:
        shown = f"${TOKEN}" if given else token
        say(f"Codec server at {server.url} for {', '.join(namespaces)}. Ctrl-C ends it.")
        say(f"  temporal … --codec-endpoint {server.url} --codec-auth 'Bearer {shown}'")
        say(f"  Web UI, under the glasses at the top, as the setting of your browser: {server.url}/{shown}")
        say("Whoever knows the token can read every session there.")
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    return Exit.DONE


def age(text: str) -> timedelta:
    """Read `12h`, `30d` or `4w`.

    Raises:
        ProtectionSettingsError: it is none of them.
    """
    found = _AGE.fullmatch(text)
    if not found:
        raise ProtectionSettingsError("--older-than is a number of hours, days or weeks: 12h, 30d or 4w.")
    return int(found[1]) * _UNITS[found[2]]


async def clean(connection: Connection, older_than: timedelta, *, delete: bool) -> Exit:
    """Say which stored payloads no session needs any more, and delete them if told to."""
    from chargehand.payloads.cleaning import clean as clean_directory  # noqa: PLC0415  # slow to load
    from chargehand.payloads.storage import PayloadDirectory  # noqa: PLC0415  # as above

    await connection.open()
    client = connection.chargehand.client
    storage = protection_from(os.environ, client.namespace, usual_storage=connection.place.storage).storage
    if storage is None:
        raise ProtectionSettingsError("CHARGEHAND_STORAGE is not set, so nothing is stored outside of Temporal.")
    if not isinstance(storage.driver, PayloadDirectory):
        raise ProtectionSettingsError(
            "Only a directory is cleaned. In S3 a lifecycle rule of the bucket does it: make it longer than the "
            "namespace's retention and the longest session together."
        )
    done = await clean_directory(client, storage.driver, older_than, delete=delete)
    verb = "Deleted" if delete else "Would delete"
    put(f"{verb} {done.files} payloads, {done.bytes:,} bytes, last stored before {done.before:%Y-%m-%d %H:%M} UTC.")
    put(f"{done.kept} stay." if delete else f"{done.kept} stay. --delete deletes.")
    return Exit.DONE


def _embedded() -> tuple[str | None, tuple[str, ...]]:
    """Find where the embedded server's payloads are, and which pages its Web UI is made of."""
    try:
        place = decide(Wishes())
    except NothingToRunOn:
        return None, _UI_ORIGINS
    note = StateDirectory(place.state).read_note() if place.is_embedded else None
    named = [note.ui_url] if note else [place.ui_url] if place.ui_url else []
    origins = {_origin(each) for each in named}
    on_localhost = {each.replace("//127.0.0.1", "//localhost") for each in origins}
    return place.storage, tuple({*_UI_ORIGINS, *origins, *on_localhost})


def _origin(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ProtectionSettingsError(f"{address} is not the address of a Web UI, such as http://localhost:8233.")
    return f"{parts.scheme}://{parts.netloc}".lower()
