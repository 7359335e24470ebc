"""Certificates of servers on loopback, right ones and wrong ones."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Issued(NamedTuple):
    """A certificate with its key."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def issue(name: str, days: tuple[int, int], by: Issued | None = None) -> Issued:
    """Certify a name or the loopback address from one day to another, by an authority or by itself."""
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
    """Make the context of a server that shows this certificate."""
    private = issued.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / f"{issued.certificate.serial_number}.pem"
    path.write_bytes(private + issued.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
