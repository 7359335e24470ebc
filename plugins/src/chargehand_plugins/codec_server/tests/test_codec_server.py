"""The codec server over real HTTP, and with the command lines that need it."""

import asyncio
import base64
import json
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from email.message import Message
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf import json_format
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.client import Client

from chargehand.converter import data_converter
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.errors import ProtectionSettingsError
from chargehand.payloads.storage import PayloadDirectory, Storage
from chargehand_plugins.codec_server.server import CodecServerSettings, serving
from tests.conftest import temporal_program
from tests.environment import open_environment
from tests.workflows.test_protected_sessions import CANARY, SINGING, encrypted, everything_stored

TOKEN = "a-token-of-tests"
__all__ = ["encrypted"]
UI = "http://localhost:8233"
EVIL = "http://evil.example"
ENCRYPTION = Encryption({"one": bytes(32)}, "one")
BEARER = {"Authorization": f"Bearer {TOKEN}", "X-Namespace": "default"}


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(PayloadDirectory(tmp_path, "default"), threshold_bytes=1_000)


@pytest.fixture
async def url(storage: Storage) -> AsyncIterator[str]:
    """A codec server's address."""
    converters = {"default": data_converter(ENCRYPTION, storage)}
    async with serving(CodecServerSettings(TOKEN, converters, frozenset({UI}), port=0)) as address:
        yield address


async def _ask(
    url: str, payloads: list[Payload] | bytes, headers: dict[str, str], method: str = "POST"
) -> tuple[int, dict[str, str], Any]:
    """Send a request as a browser or a command would; return the status, headers and body."""
    body = payloads if isinstance(payloads, bytes) else json_format.MessageToJson(Payloads(payloads=payloads)).encode()
    request = urllib.request.Request(
        url, body if method == "POST" else None, {"Content-Type": "application/json", **headers}, method=method
    )

    def send() -> tuple[int, dict[str, str], Any]:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, _lower(answer.headers), json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _lower(error.headers), json.loads(error.read() or b"null")

    return await asyncio.to_thread(send)


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _payloads(body: Any) -> list[Payload]:
    return list(json_format.ParseDict(body, Payloads()).payloads)


async def test_the_web_ui_sees_what_is_encrypted(url: str) -> None:
    """What it sends is answered in clear for its origin; payloads from before encryption are given back as they are."""
    plain = Payload(metadata={"encoding": b"json/plain"}, data=b"1")
    sealed = [plain, *await data_converter(ENCRYPTION).encode([{"goal": "canary"}])]
    preflight = {
        "Origin": UI,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,x-namespace",
    }

    allowed, cors, _ = await _ask(f"{url}/{TOKEN}/decode?preserveStorageRefs=true", b"", preflight, "OPTIONS")
    status, headers, body = await _ask(
        f"{url}/{TOKEN}/decode?preserveStorageRefs=true", sealed, {"Origin": UI, "X-Namespace": "default"}
    )

    assert (allowed, cors["access-control-allow-origin"]) == (204, UI)
    assert {"content-type", "x-namespace"} <= set(cors["access-control-allow-headers"].split(", "))
    assert (status, headers["access-control-allow-origin"]) == (200, UI)
    assert [each.data for each in _payloads(body)] == [b"1", b'{"goal":"canary"}']


async def test_stored_payloads_are_fetched_when_that_is_asked(url: str, storage: Storage) -> None:
    """A reference stays one for the Web UI's overview, and is fetched for its download and for the command line."""
    value = "words " * 10_000
    references = await data_converter(ENCRYPTION, Storage(storage.driver, 1)).encode([value])

    _, _, kept = await _ask(f"{url}/decode?preserveStorageRefs=true", references, BEARER)
    _, _, downloaded = await _ask(f"{url}/download?preserveStorageRefs=true", references, BEARER)
    _, _, decoded = await _ask(f"{url}/decode", references, BEARER)

    assert _payloads(kept) == references
    assert [json.loads(each.data) for each in (*_payloads(downloaded), *_payloads(decoded))] == [value, value]


async def test_strangers_get_nothing(url: str) -> None:
    """Without the token, from another web page or for another namespace, nothing is decoded or encoded."""
    own = {"X-Namespace": "default"}
    cases: list[tuple[str, dict[str, str], int]] = [
        ("/decode", own, 401),
        *(("/decode", own | {"Authorization": each}, 401) for each in ("Bearer wrong", f"Bearer {TOKEN}x", "Bearer ")),
        *((path, own, 401) for path in ("/wrong/decode", f"/decode/{TOKEN}", f"/{TOKEN}/x/decode")),
        (f"/{TOKEN}/keys", own, 404),
        *((f"/{TOKEN}/decode", each, 403) for each in ({}, {"X-Namespace": "other"})),
        *((f"/{TOKEN}/decode", own | {"Origin": each}, 403) for each in ("null", EVIL, UI + ".evil.example")),
    ]
    sealed = await data_converter(ENCRYPTION).encode(["canary"])
    for path, headers, status in cases:
        answered, given, body = await _ask(f"{url}{path}", sealed, headers)
        assert answered == status
        assert "canary" not in json.dumps(body)
        assert given.get("access-control-allow-origin") in (None, UI)
    status, headers, _ = await _ask(f"{url}/{TOKEN}/decode", b"", {"Origin": EVIL}, "OPTIONS")

    assert (status, [name for name in headers if name.startswith("access-control")]) == (403, [])


async def test_rubbish_is_refused(url: str) -> None:
    """A body that is no list of payloads is a bad request; the server goes on."""
    cases = [b"", b"no json", b"[5]", b'{"payloads": 5}', b'{"payloads":[{"words":"x"}]}', b"[" * 100_000, b"\xff"]
    for body in cases:
        status, _, _ = await _ask(f"{url}/decode", body, BEARER)
        assert status == 400
        assert (await _ask(f"{url}/health", b"", {}, "GET"))[0] == 200


async def test_a_missing_key_is_said(url: str) -> None:
    """What was encrypted with a key that the server does not have is refused with the key's name."""
    sealed = await data_converter(Encryption({"lost": bytes(32)}, "lost")).encode(["x"])

    status, _, body = await _ask(f"{url}/decode", sealed, BEARER)

    assert status == 422
    assert "key 'lost'" in body["message"]


async def test_too_much_is_refused_unread(url: str) -> None:
    """A body that is announced as too large is refused before it is sent."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))

    writer.write(
        f"POST /decode HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\nX-Namespace: default\r\n".encode()
    )
    writer.write(b"Content-Length: 99999999999\r\n\r\n")
    status = await asyncio.wait_for(reader.readline(), 10)
    writer.close()
    await writer.wait_closed()

    assert b" 413 " in status


def test_openness_is_refused() -> None:
    """An address that others reach without TLS is refused at the start."""
    cases: list[tuple[dict[str, str], str]] = [
        ({"host": "0.0.0.0"}, "requires TLS"),
        ({"host": "codec.example.com"}, "requires TLS"),
    ]
    for settings, message in cases:
        with pytest.raises(ProtectionSettingsError, match=message):
            CodecServerSettings(**{"token": TOKEN, "converters": {}, **settings})  # pyright: ignore[reportArgumentType]  # one mapping for all cases


async def test_a_taken_port_is_said(url: str) -> None:
    """A port that another program serves is an error that names it."""
    port = int(url.rpartition(":")[2])

    with pytest.raises(ProtectionSettingsError, match=f"cannot listen on 127.0.0.1:{port}"):
        async with serving(CodecServerSettings(TOKEN, {}, port=port)):
            pass


async def _temporal(client: Client, *arguments: str) -> tuple[int | None, str]:
    """Run Temporal's own CLI against a server."""
    process = await asyncio.create_subprocess_exec(
        *(temporal_program(), *arguments, "--address", client.service_client.config.target_host),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, output.decode()


async def test_temporals_own_command_line_takes_part(client: Client, encrypted: Client, tmp_path: Path) -> None:
    """With the codec server a session is started and read in clear by `temporal`, and nothing is in clear between."""
    served = {client.namespace: encrypted.data_converter}
    workflow_id = f"session-{uuid4().hex[:8]}"
    async with (
        serving(CodecServerSettings("a-token-of-tests", served, port=0)) as codec,
        open_environment(encrypted, tmp_path, SINGING) as opened,
    ):
        endpoint = ("--codec-endpoint", codec, "--codec-auth", "Bearer a-token-of-tests")
        start = ("--type", "Supervisor", "--task-queue", opened.chargehand.task_queue, "--workflow-id", workflow_id)
        code, said = await _temporal(
            client, "workflow", "execute", *start, "--input", json.dumps({"goal": f"Find the {CANARY}."}), *endpoint
        )
        _, without = await _temporal(client, "workflow", "result", "--workflow-id", workflow_id)

    assert code == 0
    assert f"The {CANARY} sings" in said
    assert "binary/encrypted" in without
    assert CANARY not in without
    assert CANARY not in await everything_stored(client, workflow_id)


@pytest.mark.slow
async def test_the_codec_server_is_one_command(tmp_path: Path) -> None:
    """`chargehand codec-server` serves until it is ended, says where, and does not tell the token it was given."""
    token = "token-of-the-operator"
    keys = json.dumps({"one": base64.b64encode(bytes(32)).decode()})
    settings = {
        "CHARGEHAND_ENCRYPTION_KEYS": keys,
        "CHARGEHAND_ENCRYPTION_KEY_ID": "one",
        "CHARGEHAND_CODEC_TOKEN": token,
        "CHARGEHAND_STATE_DIR": str(tmp_path),
        "PATH": os.environ["PATH"],
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "chargehand_cli.main", "codec-server", "--port", "0"),
        env=settings,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr
    try:
        first = (await asyncio.wait_for(process.stderr.readline(), 60)).decode()
        sealed = await data_converter(ENCRYPTION).encode(["canary"])
        _, _, body = await _ask(f"{first.split()[3]}/{token}/decode", sealed, {"X-Namespace": "default"})
    finally:
        process.send_signal(signal.SIGINT)
        rest = (await process.stderr.read()).decode()

    assert await process.wait() == 0
    assert [each.data for each in _payloads(body)] == [b'"canary"']
    assert token not in first + rest
