"""A search service whose certificate is not to be trusted is named, and is not asked again and again."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from temporalio.exceptions import ApplicationError

from activities.tools.search.searxng import SearxngSearch


class Authority(NamedTuple):
    """A certificate authority."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def _issue(name: str, days: tuple[int, int], by: Authority | None) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    alternative = x509.IPAddress(IPv4Address("127.0.0.1")) if name == "127.0.0.1" else x509.DNSName(name)
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    return Authority(key, builder.sign(by.key if by else key, hashes.SHA256()))


def _context(issued: Authority, folder: Path) -> ssl.SSLContext:
    private = issued.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / f"{x509.random_serial_number()}.pem"
    path.write_bytes(private + issued.certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, ssl.SSLContext | None]]:
    """Make a certificate for each fault, by an authority that the clients trust."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = _issue("authority", (-9, 9), None)
    trusted = folder / "authority.pem"
    trusted.write_bytes(authority.certificate.public_bytes(serialization.Encoding.PEM))
    with patch.dict("os.environ", {"SSL_CERT_FILE": str(trusted), "NO_PROXY": "127.0.0.1"}):
        yield {
            "self-signed": _context(_issue("127.0.0.1", (-1, 9), None), folder),
            "another host": _context(_issue("elsewhere.example", (-1, 9), authority), folder),
            "expired": _context(_issue("127.0.0.1", (-9, -1), authority), folder),
            "no TLS": None,
        }


@asynccontextmanager
async def serve(context: ssl.SSLContext | None) -> AsyncGenerator[str]:
    """Serve at a port; yields the address."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    accept = server.sockets[0].getsockname()[1]
    async with server:
        yield f"https://127.0.0.1:{accept}"


@pytest.mark.parametrize("fault", ["self-signed", "another host", "expired", "no TLS"])
async def test_a_server_that_cannot_be_trusted_is_named(contexts: dict[str, ssl.SSLContext | None], fault: str) -> None:
    """The failure names the host and the reason, and is not retried."""
    says = "does not speak TLS" if fault == "no TLS" else "its certificate is not trusted"
    async with serve(contexts[fault]) as url:
        search = SearxngSearch(url)
        with pytest.raises(ApplicationError) as refused:
            await search.search("q", 3, ())
        await search.close()

        assert refused.value.non_retryable
        assert "SearXNG at 127.0.0.1 cannot be used" in refused.value.message
        assert says in refused.value.message
