"""The codec server: lets people see encrypted and externally stored payloads in Temporal's Web UI and command line.

Whoever may ask it may read every session of its namespaces, so it asks for a token: as `Authorization: Bearer TOKEN`,
which Temporal's command line can send, or as the first part of the path, since the Web UI of a server without log-in
has no token to send. It listens on loopback, or speaks TLS.
"""

import asyncio
import hmac
import ipaddress
import json
import re
import socket
import ssl
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self, cast
from urllib.parse import parse_qs, urlsplit

from google.protobuf import json_format
from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.sdk.v1.external_storage_pb2 import ExternalStorageReference
from temporalio.converter import DataConverter, StorageDriverClaim, StorageDriverRetrieveContext

from chargehand.payloads.codec import NOT_ENCRYPTED
from chargehand.payloads.errors import ProtectionError, ProtectionSettingsError

LEAST_TOKEN: Final = 16
"""Characters of the shortest token."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]+")
_REFERENCE: Final = ExternalStorageReference.DESCRIPTOR.full_name.encode()
_MOST_BYTES: Final = 32 << 20
_REQUEST_SECONDS: Final = 30
_SILENCE_SECONDS: Final = 10
_MOST_AT_ONCE: Final = 8
_POLL_SECONDS: Final = 0.05
_MOST_UNREAD: Final = 1 << 20
_ALLOWED_HEADERS: Final = "authorization, content-type, x-namespace, authorization-extras"


@dataclass(frozen=True)
class CodecServerSettings:
    """Whom the server answers, and where."""

    token: str
    converters: Mapping[str, DataConverter]
    """What decodes, by namespace; others are refused."""
    origins: frozenset[str] = frozenset()
    """Web pages that may ask: `http://localhost:8233`."""
    host: str = "127.0.0.1"
    port: int = 8081
    certificate: str | None = None
    """PEM files of certificate chain and private key, for TLS."""
    private_key: str | None = None

    def __post_init__(self) -> None:
        """Refuse what would let others in."""
        if len(self.token) < LEAST_TOKEN or not _TOKEN.fullmatch(self.token):
            raise ProtectionSettingsError(
                f"The token of a codec server has at least {LEAST_TOKEN} characters: letters, digits, '-' and '_'."
            )
        if not _is_loopback(self.host) and not (self.certificate and self.private_key):
            raise ProtectionSettingsError(
                f"A codec server shows what is encrypted, so on {self.host} it needs TLS: a certificate and its key. "
                "Without them it listens on 127.0.0.1 only."
            )


class CodecServer:
    """Serves from a thread of its own; payloads are decoded in the event loop that started it."""

    def __init__(self, settings: CodecServerSettings) -> None:
        """Bind the port.

        Raises:
            ProtectionSettingsError: the port is taken, or the certificate cannot be used.
        """
        self._settings = settings
        loop = asyncio.get_running_loop()

        class Bound(_Handler):
            asking = _Asking(settings, loop)

        try:
            self._server = _Server((settings.host, settings.port), Bound)
            if settings.certificate and settings.private_key:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(settings.certificate, settings.private_key)
                self._server.context = context
        except OSError as error:  # SSLError is one
            reason = error.strerror or str(error)
            raise ProtectionSettingsError(
                f"The codec server cannot serve {settings.host}:{settings.port}: {reason}."
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="codec server", daemon=True
        )

    @property
    def url(self) -> str:
        """Where it is, without the token."""
        scheme = "https" if self._settings.certificate else "http"
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        return f"{scheme}://{host}:{self._server.server_address[1]}"

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()


class _Refused(Exception):  # noqa: N818  # reads as a statement
    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Asking:
    """Decides who is answered, and answers."""

    def __init__(self, settings: CodecServerSettings, loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._loop = loop
        self.at_work = threading.BoundedSemaphore(_MOST_AT_ONCE)

    def allowed_origin(self, origin: str | None) -> str | None:
        """Check where a web page is from; None if no web page asks.

        Raises:
            _Refused: pages from there may not ask.
        """
        if origin is not None and origin not in self._settings.origins:
            raise _Refused(HTTPStatus.FORBIDDEN, "web pages of this origin may not ask; name it with --ui-origin")
        return origin

    def verb(self, path: str, authorization: str | None) -> tuple[str, bool]:
        """Check the token and say what is asked, and whether references to stored payloads are to stay."""
        parts = urlsplit(path)
        named = [part for part in parts.path.split("/") if part]
        verb = named[-1] if named else ""
        presented = [authorization.removeprefix("Bearer ")] if authorization else []
        presented += named[:1] if len(named) == 2 else []
        if not any(hmac.compare_digest(each.encode(), self._settings.token.encode()) for each in presented):
            raise _Refused(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        if verb not in ("encode", "decode", "download") or len(named) > 2:
            raise _Refused(HTTPStatus.NOT_FOUND, "there are /encode, /decode and /download")
        return verb, parse_qs(parts.query).get("preserveStorageRefs", [""])[-1].lower() == "true"

    def converter(self, namespace: str | None) -> DataConverter:
        """Find what decodes for a namespace."""
        found = self._settings.converters.get(namespace or "")
        if found is None:
            raise _Refused(HTTPStatus.FORBIDDEN, "this namespace is not served here; X-Namespace names it")
        return found

    def answer(self, verb: str, body: bytes, converter: DataConverter, *, keep_references: bool) -> bytes:
        """Encode or decode the payloads of a body."""
        try:
            payloads = json_format.Parse(body, Payloads()).payloads
        except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, "the body is not a JSON object of payloads") from error
        work = _encode if verb == "encode" else _decode
        waiting = work(converter, payloads, keep_references=keep_references and verb == "decode")
        try:
            done = asyncio.run_coroutine_threadsafe(waiting, self._loop).result(_REQUEST_SECONDS)
        except ProtectionError as error:
            raise _Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        return json_format.MessageToJson(cast("Message", Payloads(payloads=done)), indent=None).encode()


async def _encode(
    converter: DataConverter,
    payloads: Iterable[Payload],
    *,
    keep_references: bool,  # noqa: ARG001  # as for decoding
) -> list[Payload]:
    return await converter.payload_codec.encode(list(payloads)) if converter.payload_codec else list(payloads)


async def _decode(converter: DataConverter, payloads: Sequence[Payload], *, keep_references: bool) -> list[Payload]:
    """Decode what is encrypted and fetch what is stored elsewhere; all else is given back as it came."""
    found = list(payloads)
    if not keep_references and converter.external_storage:
        found = [await _fetched(converter, payload) for payload in found]
    if not converter.payload_codec:
        return found
    opened = await converter.payload_codec.decode(found)
    return [
        before if after.metadata.get("encoding") == NOT_ENCRYPTED else after
        for before, after in zip(found, opened, strict=True)
    ]


async def _fetched(converter: DataConverter, payload: Payload) -> Payload:
    """Fetch what a reference stands for; a payload that is none is given back."""
    if payload.metadata.get("messageType") != _REFERENCE or not converter.external_storage:
        return payload
    try:
        reference = json_format.Parse(payload.data, ExternalStorageReference(), ignore_unknown_fields=True)
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise _Refused(HTTPStatus.BAD_REQUEST, "a reference to a stored payload cannot be read") from error
    for driver in converter.external_storage.drivers:
        if driver.name() == reference.driver_name:
            claim = StorageDriverClaim(claim_data=dict(reference.claim_data))
            return (await driver.retrieve(StorageDriverRetrieveContext(), [claim]))[0]
    raise _Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"the storage '{reference.driver_name}' is not known here")


class _Handler(BaseHTTPRequestHandler):
    """One request; says nothing about it in any log, since paths hold the token."""

    asking: _Asking
    _has_read = False
    timeout = _SILENCE_SECONDS
    server_version = "chargehand"
    sys_version = ""

    def do_OPTIONS(self) -> None:
        """Answer what a browser asks before it sends what it has to send."""
        try:
            origin = self.asking.allowed_origin(self.headers.get("Origin"))
        except _Refused as refusal:
            self._refuse(refusal, None)
            return
        self._reply(HTTPStatus.NO_CONTENT, b"", origin)

    def do_GET(self) -> None:
        """Say that the server is up, and nothing else."""
        if self.path == "/health":
            self._reply(HTTPStatus.OK, b"{}", None)
        else:
            self._refuse(_Refused(HTTPStatus.NOT_FOUND, "there are /encode, /decode and /download, by POST"), None)

    def do_POST(self) -> None:
        """Encode or decode for whoever may ask."""
        origin = None
        try:
            origin = self.asking.allowed_origin(self.headers.get("Origin"))
            verb, keep_references = self.asking.verb(self.path, self.headers.get("Authorization"))
            converter = self.asking.converter(self.headers.get("X-Namespace"))
            with self.asking.at_work:
                answer = self.asking.answer(verb, self._body(), converter, keep_references=keep_references)
        except _Refused as refusal:
            self._take_unread()
            self._refuse(refusal, origin)
        except TimeoutError:
            self._refuse(_Refused(HTTPStatus.SERVICE_UNAVAILABLE, "this took too long"), origin)
        else:
            self._reply(HTTPStatus.OK, answer, origin)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Log nothing."""

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "Content-Length is missing")
        if len(length) > 10 or int(length) > _MOST_BYTES:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {_MOST_BYTES} bytes are taken at once")
        self._has_read = True
        return self.rfile.read(int(length))

    def _take_unread(self) -> None:
        """Read a refused body, if it is small: closing a connection on unread bytes can lose the answer."""
        length = self.headers.get("Content-Length", "")
        if not self._has_read and length.isascii() and length.isdigit() and int(length[:10]) <= _MOST_UNREAD:
            self.rfile.read(int(length))

    def _refuse(self, refusal: _Refused, origin: str | None) -> None:
        self._reply(refusal.status, json.dumps({"message": str(refusal)}).encode(), origin)

    def _reply(self, status: HTTPStatus, body: bytes, origin: str | None) -> None:
        self.send_response(status)
        if origin:
            self.send_header("Access-Control-Allow-Origin", origin)
            self.send_header("Access-Control-Allow-Methods", "POST, OPTIONS")
            self.send_header("Access-Control-Allow-Headers", _ALLOWED_HEADERS)
            self.send_header("Access-Control-Allow-Credentials", "true")
            self.send_header("Access-Control-Allow-Private-Network", "true")
        self.send_header("Vary", "Origin")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext | None = None

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        if self.context is None:
            return connection, address
        # The handshake waits for the other side: that is for the request's own thread.
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet: a connection that broke is nobody's error here."""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
