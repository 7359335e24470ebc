"""The codec server over real HTTP, and with the command lines that need it."""

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf import json_format
from httpx2 import AsyncClient, Headers
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
) -> tuple[int, Headers, Any]:
    """Send a request as a browser or a command would; return the status, headers and body."""
    body = payloads if isinstance(payloads, bytes) else json_format.MessageToJson(Payloads(payloads=payloads)).encode()
    async with AsyncClient(headers={"Content-Type": "application/json"}, timeout=10, trust_env=False) as http:
        answer = await http.request(method, url, content=body, headers=headers)
    return answer.status_code, answer.headers, json.loads(answer.content or b"null")


def _payloads(body: Any) -> list[Payload]:
    return list(json_format.ParseDict(body, Payloads()).payloads)


async def test_the_web_ui_can_decode_encrypted_payloads(url: str) -> None:
    """Its origin gets decoded payloads; payloads from before encryption are returned as they are."""
    plain = Payload(metadata={"encoding": b"json/plain"}, data=b"1")
    sealed = [plain, *await data_converter(ENCRYPTION).encode([{"goal": "canary"}])]
    preflight = {"Method": "POST", "Headers": "content-type,x-namespace"}
    preflight = {"Origin": UI, **{f"Access-Control-Request-{name}": value for name, value in preflight.items()}}
    decode = f"{url}/{TOKEN}/decode?preserveStorageRefs=true"

    allowed, cors, _ = await _ask(decode, b"", preflight, "OPTIONS")
    status, headers, body = await _ask(decode, sealed, {"Origin": UI, "X-Namespace": "default"})

    assert (allowed, cors["access-control-allow-origin"]) == (204, UI)
    assert {"content-type", "x-namespace"} <= set(cors["access-control-allow-headers"].split(", "))
    assert (status, headers["access-control-allow-origin"]) == (200, UI)
    assert [each.data for each in _payloads(body)] == [b"1", b'{"goal":"canary"}']


async def test_stored_payloads_are_fetched_on_request(url: str, storage: Storage) -> None:
    """The Web UI's overview keeps references; its download and the command line get the content."""
    value = "words " * 10_000
    references = await data_converter(ENCRYPTION, Storage(storage.driver, 1)).encode([value])

    _, _, kept = await _ask(f"{url}/decode?preserveStorageRefs=true", references, BEARER)
    _, _, downloaded = await _ask(f"{url}/download?preserveStorageRefs=true", references, BEARER)
    _, _, decoded = await _ask(f"{url}/decode", references, BEARER)

    assert _payloads(kept) == references
    assert [json.loads(each.data) for each in (*_payloads(downloaded), *_payloads(decoded))] == [value, value]


async def test_unauthorized_requests_are_refused(url: str) -> None:
    """Nothing is decoded without the token, for another origin or for another namespace."""
    own = {"X-Namespace": "default"}
    cases: list[tuple[str, dict[str, str], int]] = [
        ("/decode", own, 401),
        *(("/decode", own | {"Authorization": each}, 401) for each in ("Bearer wrong", f"Bearer {TOKEN}x", "Bearer")),
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


async def test_an_invalid_body_is_a_bad_request(url: str) -> None:
    """A body that is not a list of payloads gets 400, and the server keeps running."""
    cases = [b"", b"no json", b"[5]", b'{"payloads": 5}', b'{"payloads":[{"words":"x"}]}', b"[" * 100_000, b"\xff"]
    for body in cases:
        status, _, _ = await _ask(f"{url}/decode", body, BEARER)
        assert status == 400
        assert (await _ask(f"{url}/health", b"", {}, "GET"))[0] == 200


async def test_a_missing_encryption_key_is_named(url: str) -> None:
    """A payload encrypted with a key that the server lacks gets 422 with the key's name."""
    sealed = await data_converter(Encryption({"lost": bytes(32)}, "lost")).encode(["x"])

    status, _, body = await _ask(f"{url}/decode", sealed, BEARER)

    assert status == 422
    assert "key 'lost'" in body["message"]


async def test_an_oversized_body_is_refused_before_it_is_read(url: str) -> None:
    """The announced length alone is answered with 413."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))

    writer.write(
        f"POST /decode HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\nX-Namespace: default\r\n".encode()
    )
    writer.write(b"Content-Length: 99999999999\r\n\r\n")
    status = await reader.readline()
    writer.close()
    await writer.wait_closed()

    assert b" 413 " in status


@pytest.mark.parametrize("host", ["0.0.0.0", "codec.example.com"])
def test_a_public_address_without_tls_is_refused(host: str) -> None:
    """A host that others can reach without TLS is refused at startup."""
    with pytest.raises(ProtectionSettingsError, match="requires TLS"):
        CodecServerSettings(TOKEN, {}, host=host)


async def test_a_port_in_use_is_named(url: str) -> None:
    """The error gives the address on which it cannot listen."""
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
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_the_temporal_cli_works_through_the_codec_server(
    client: Client, encrypted: Client, tmp_path: Path
) -> None:
    """`temporal` starts a session and reads its result in clear; everything stored is encrypted."""
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
async def test_the_codec_server_command_runs_until_interrupted(tmp_path: Path) -> None:
    """`chargehand codec-server` prints its address, never the token, and exits with 0 on SIGINT."""
    token = "token-of-the-operator"
    keys = json.dumps({"one": base64.b64encode(bytes(32)).decode()})
    settings = {"ENCRYPTION_KEYS": keys, "ENCRYPTION_KEY_ID": "one", "CODEC_TOKEN": token, "STATE_DIR": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "chargehand_cli.main", "codec-server", "--port", "0"),
        env={"PATH": os.environ["PATH"], **{f"CHARGEHAND_{name}": value for name, value in settings.items()}},
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr
    try:
        first = (await process.stderr.readline()).decode()
        sealed = await data_converter(ENCRYPTION).encode(["canary"])
        _, _, body = await _ask(f"{first.split()[3]}/{token}/decode", sealed, {"X-Namespace": "default"})
    finally:
        process.send_signal(signal.SIGINT)
        rest = (await process.stderr.read()).decode()

    assert await process.wait() == 0
    assert [each.data for each in _payloads(body)] == [b'"canary"']
    assert token not in first + rest
