"""A provider with a wrong certificate, or without TLS, on every wire: it never sees the key."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import BaseModel
from temporalio.exceptions import ApplicationError

from activities.models.failures import ProviderError
from activities.tools.search.engine import JsonEngine
from chargehand.wire import ErrorType
from tests.activities.models.calls import KEY, WIRES, Wire, a_call, an_adapter

Fault = Literal["unknown authority", "another name", "expired", "not yet valid", "no TLS", "hangs up"]


@dataclass
class Peer:
    """A listener, and everything that it was sent after the handshake."""

    port: int = 0
    received: list[bytes] = field(default_factory=list[bytes])


@asynccontextmanager
async def _peer(context: ssl.SSLContext, fault: Fault) -> AsyncGenerator[Peer]:
    peer = Peer()
    speaks = fault not in {"no TLS", "hangs up"}

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if fault == "no TLS":
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        if fault != "hangs up":
            peer.received.append(await reader.read(65_536))
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context if speaks else None) as server:
        peer.port = server.sockets[0].getsockname()[1]
        yield peer


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", get_args(Fault))
async def test_an_untrusted_provider_never_receives_the_key(tmp_path: Path, wire: Wire, fault: Fault) -> None:
    """The call fails, costs nothing, and sends no byte of the request unencrypted."""
    context, trusted = await asyncio.to_thread(_contexts, tmp_path, fault)
    async with _peer(context, fault) as peer:
        model = an_adapter(wire, f"https://127.0.0.1:{peer.port}", verify=trusted)
        with pytest.raises(ProviderError) as caught:
            await model.complete(a_call(wire))
        await model.aclose()

    error = caught.value
    assert not error.fault.possibly_billed
    if fault == "hangs up":
        # A connection that breaks off can be retried later.
        assert (error.kind, error.is_final) == (ErrorType.PROVIDER_UNAVAILABLE, False)
    else:
        assert (error.kind, error.is_final) == (ErrorType.PROVIDER_REFUSED, True)
        assert " cannot be used: " in error.message
    assert not any(KEY.encode() in data or b"ferry" in data for data in peer.received)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("fault", ["unknown authority", "no TLS"])
async def test_an_untrusted_search_engine_is_named_in_the_error(tmp_path: Path, fault: Fault) -> None:
    """The error names the host and the reason, and is not retried."""
    says = "does not speak TLS" if fault == "no TLS" else "its certificate is not trusted"
    context, _ = await asyncio.to_thread(_contexts, tmp_path, fault)
    async with _peer(context, fault) as peer:
        engine = JsonEngine("SearXNG", {}, trust_env=False)
        with pytest.raises(ApplicationError, match=rf"SearXNG at 127\.0\.0\.1 cannot be used: .*{says}") as refused:
            await engine.ask(BaseModel, f"https://127.0.0.1:{peer.port}")
        await engine.close()

    assert refused.value.non_retryable


def _contexts(folder: Path, fault: Fault) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Make contexts for a server with this fault and for a client that trusts its authority, if known."""
    days = {"expired": (-3, -1), "not yet valid": (1, 2)}.get(fault, (-1, 1))
    issued = issue("provider.example" if fault == "another name" else "127.0.0.1", days)
    trusted = ssl.create_default_context(cadata=None if fault == "unknown authority" else issued.pem.decode())
    return server_context(issued, folder), trusted


class Issued(NamedTuple):
    """A certificate with its key."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def issue(name: str, days: tuple[int, int], by: Issued | None = None) -> Issued:
    """Issue a certificate for a name or the loopback address between two days; self-signed without `by`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    alternative = x509.IPAddress(IPv4Address(name)) if name == "127.0.0.1" else x509.DNSName(name)
    begins, ends = (datetime.now(UTC) + timedelta(days=day) for day in days)
    issuer = by.certificate.subject if by else subject
    builder = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number(), begins, ends)
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    return Issued(key, builder.sign(by.key if by else key, hashes.SHA256()))


def server_context(issued: Issued, folder: Path) -> ssl.SSLContext:
    private = issued.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / f"{issued.certificate.serial_number}.pem"
    path.write_bytes(private + issued.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
