"""Connection errors name the wrong setting in plain words."""

import asyncio
import os
import socket
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import GrpcCompression

from chargehand import AccessDenied, Chargehand, ChargehandError, NoNamespace, NotReachable, UnusableSettings
from chargehand.connect import grpc_compression
from worker import process
from worker.settings import Settings


@pytest.fixture
def address(client: Client) -> str:
    """The address of a real server without TLS."""
    return client.service_client.config.target_host


async def _refused(monkeypatch: pytest.MonkeyPatch, **settings: str) -> ChargehandError:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ChargehandError) as refused:
        await Chargehand.connect()
    return refused.value


@pytest.mark.parametrize(
    ("settings", "kind", "words"),
    [
        ({"TEMPORAL_PROFILE": "nowhere"}, UnusableSettings, "Profile 'nowhere' not found"),
        ({"TEMPORAL_CONFIG_FILE": "/no/temporal.toml"}, UnusableSettings, "TEMPORAL_CONFIG_FILE: there is no file"),
        ({"TEMPORAL_TLS_SERVER_CA_CERT_PATH": "/no.pem"}, UnusableSettings, "/no.pem, which a TEMPORAL_TLS_"),
        ({"TEMPORAL_TLS_CLIENT_CERT_DATA": "x"}, UnusableSettings, "belong together: set both, or neither"),
        ({"TEMPORAL_TLS_CLIENT_CERT_DATA": "x", "TEMPORAL_TLS_CLIENT_KEY_DATA": "x"}, UnusableSettings, "is not PEM"),
        ({"TEMPORAL_API_KEY": "key"}, UnusableSettings, "has no TLS, and this client uses it"),
        ({"TEMPORAL_NAMESPACE": "nowhere"}, NoNamespace, "Namespace nowhere is not found"),
        ({"TEMPORAL_ADDRESS": "localhost:99999"}, UnusableSettings, "write HOST:PORT"),
        ({"TEMPORAL_ADDRESS": "http://localhost:7233"}, UnusableSettings, "write HOST:PORT"),
        ({"TEMPORAL_ADDRESS": "localhost:1"}, NotReachable, "No Temporal server answers at localhost:1"),
    ],
)
async def test_a_wrong_connection_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, address: str, settings: dict[str, str], kind: type, words: str
) -> None:
    """The error class tells programs what to do; the SDK's own message is only the cause."""
    error = await _refused(monkeypatch, **{"TEMPORAL_ADDRESS": address} | settings)

    assert (type(error), words in str(error)) == (kind, True), str(error)
    assert "transport" not in str(error)


@pytest.mark.parametrize(
    "name", ["CONFIG_FILE", "TLS_CLIENT_CERT_PATH", "TLS_CLIENT_KEY_PATH", "TLS_SERVER_CA_CERT_PATH"]
)
def test_named_pipes_in_connection_settings_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Otherwise a client or worker would wait for a writer; the message names the pipe."""
    os.mkfifo(file := tmp_path / "pipe")
    monkeypatch.setenv(f"TEMPORAL_{name}", str(file))
    monkeypatch.setenv("OPENAI_API_KEY", "unused")

    for run in (Chargehand.connect(), process.run(Settings(state_dir=tmp_path), lambda: None)):
        with pytest.raises(UnusableSettings, match="/pipe"):
            asyncio.run(run)


async def test_a_wrong_api_key_is_reported_as_access_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    async with await asyncio.start_server(_deny, "localhost", 0) as server:
        port = server.sockets[0].getsockname()[1]
        settings = {"TEMPORAL_ADDRESS": f"localhost:{port}", "TEMPORAL_API_KEY": "key", "TEMPORAL_TLS": "false"}
        error = await _refused(monkeypatch, **settings)

    assert isinstance(error, AccessDenied)
    assert "Request unauthorized. Check TEMPORAL_API_KEY" in str(error)


@pytest.mark.slow
async def test_a_silent_server_is_reported_as_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = f"127.0.0.1:{server.getsockname()[1]}"
        error = await _refused(monkeypatch, TEMPORAL_ADDRESS=silent)

    assert (type(error), f"{silent} takes connections and answers too slowly" in str(error)) == (NotReachable, True)


async def test_profile_settings_are_used_to_connect(
    monkeypatch: pytest.MonkeyPatch, address: str, tmp_path: Path
) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text(f'[profile.ours]\naddress = "{address}"\nnamespace = "default"\n', encoding="utf-8")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    monkeypatch.setenv("TEMPORAL_PROFILE", "ours")
    chargehand = await Chargehand.connect()

    assert chargehand.client.service_client.config.target_host == address


async def _deny(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every call over HTTP/2 as a server of Temporal Cloud answers one with a wrong key."""
    try:
        await reader.readexactly(24)  # the preface
        writer.write(_frame(4, 0, b"\0\0\0\0", b""))
        while True:
            head = await reader.readexactly(9)
            await reader.readexactly(int.from_bytes(head[:3], "big"))
            if head[3] == 4 and not head[4] & 1:
                writer.write(_frame(4, 1, head[5:], b""))
            if head[3] == 1:
                told = {
                    "content-type": "application/grpc",
                    "grpc-status": "16",
                    "grpc-message": "Request unauthorized.",
                }
                block = b"\x88" + b"".join(b"\0" + _text(name) + _text(value) for name, value in told.items())
                writer.write(_frame(1, 5, head[5:], block))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _frame(kind: int, flags: int, stream: bytes, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream + payload


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def test_only_traffic_to_other_hosts_is_compressed() -> None:
    """Within a host, compression costs more than it saves."""
    within = ("localhost:7233", "127.0.0.1:1", "127.9.9.9:80", "[::1]:7233", None, "")
    across = ("ns.acct.tmprl.cloud:7233", "10.0.0.7:7233", "[fe80::1]:7233", "localhost.example:1")

    assert {grpc_compression(address) for address in within} == {GrpcCompression.NONE}
    assert {grpc_compression(address) for address in across} == {GrpcCompression.GZIP}
