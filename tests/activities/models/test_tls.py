"""A provider whose certificate is wrong, or that does not speak TLS, on every wire: it never sees the key."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final, Literal

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from activities.models.anthropic_messages import AnthropicModel
from activities.models.failures import ProviderError
from activities.models.openai_chat import OpenAIChatModel
from activities.models.openai_responses import OpenAIResponsesModel
from chargehand.wire import ErrorType
from tests.activities.models.calls import KEY, WIRES, AnyModel, Wire, a_call

Fault = Literal["unknown authority", "another name", "expired", "not yet valid", "no TLS", "hangs up"]
_FAULTS: Final[tuple[Fault, ...]] = (
    "unknown authority", "another name", "expired", "not yet valid", "no TLS", "hangs up",
)  # fmt: skip
_DAY: Final = timedelta(days=1)


@dataclass
class Peer:
    """Who listens, and all that it was sent beyond the handshake."""

    port: int = 0
    received: list[bytes] = field(default_factory=list[bytes])
    connections: int = 0


def _certificate(folder: Path, fault: Fault) -> tuple[Path, ssl.SSLContext]:
    """Write a certificate with its key into one file; give the context of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "provider.example")])
    now = datetime.now(UTC)
    begins, ends = {"expired": (-3 * _DAY, -_DAY), "not yet valid": (_DAY, 2 * _DAY)}.get(fault, (-_DAY, _DAY))
    address = IPv4Address("192.0.2.1" if fault == "another name" else "127.0.0.1")
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now + begins, now + ends)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(address)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "peer.pem"
    path.write_bytes(public + private)
    trusted = ssl.create_default_context(cadata=None if fault == "unknown authority" else public.decode())
    return path, trusted


@asynccontextmanager
async def _peer(certificate: Path, fault: Fault) -> AsyncGenerator[Peer]:
    peer = Peer()
    context: ssl.SSLContext | None = None
    if fault not in {"no TLS", "hangs up"}:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer.connections += 1
        if fault == "no TLS":
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        if context is not None or fault == "no TLS":
            peer.received.append(await reader.read(65_536))
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context) as server:
        peer.port = server.sockets[0].getsockname()[1]
        yield peer


def _adapter(wire: Wire, port: int, trusted: ssl.SSLContext) -> AnyModel:
    network = httpx2.AsyncClient(trust_env=False, verify=trusted)
    url = f"https://127.0.0.1:{port}"
    match wire:
        case "anthropic":
            return AnthropicModel(api_key=KEY, base_url=url, http_client=network)
        case "responses":
            return OpenAIResponsesModel(api_key=KEY, base_url=f"{url}/v1", http_client=network)
        case "chat":
            return OpenAIChatModel(api_key=KEY, base_url=f"{url}/v1", http_client=network)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", _FAULTS)
async def test_a_provider_that_cannot_prove_itself_never_sees_the_key(tmp_path: Path, wire: Wire, fault: Fault) -> None:
    """The call fails, costs nothing, and no byte of the request leaves in the clear."""
    certificate, trusted = await asyncio.to_thread(_certificate, tmp_path, fault)
    async with _peer(certificate, fault) as peer:
        model = _adapter(wire, peer.port, trusted)
        with pytest.raises(ProviderError) as caught:
            await model.complete(a_call(wire))
        await model.aclose()

    error = caught.value
    assert not error.fault.possibly_billed
    if fault == "hangs up":
        # A connection that breaks off can be made later.
        assert (error.kind, error.is_final) == (ErrorType.PROVIDER_UNAVAILABLE, False)
    else:
        assert (error.kind, error.is_final) == (ErrorType.PROVIDER_REFUSED, True)
        assert " cannot be used: " in error.message
    assert not any(KEY.encode() in data or b"ferry" in data for data in peer.received)
    assert KEY not in str(caught.value)
