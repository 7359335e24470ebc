"""The codec server: decodes encrypted and externally stored payloads for Temporal's Web UI and command line.

A client can read every session of the served namespaces, so each request needs a token: as `Authorization: Bearer
TOKEN`, which Temporal's command line can send, or as the first part of the path, since the Web UI of a server without
login sends no token. The server listens on loopback, or uses TLS.
"""

import asyncio
import hmac
import json
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

from chargehand.payloads.errors import ProtectionError, ProtectionSettingsError
from chargehand.payloads.tolerance import UNREADABLE
from chargehand_plugins.access import MIN_TOKEN_LENGTH, is_loopback, is_token

_REFERENCE: Final = ExternalStorageReference.DESCRIPTOR.full_name.encode()
_MAX_BYTES: Final = 32 << 20
_REQUEST_SECONDS: Final = 30
_IDLE_SECONDS: Final = 10
_CONCURRENCY: Final = 8
_POLL_SECONDS: Final = 0.05
_MAX_UNREAD_BYTES: Final = 1 << 20
_ALLOWED_HEADERS: Final = "authorization, content-type, x-namespace, authorization-extras"


@dataclass(frozen=True)
class CodecServerSettings:
    """What the server decodes, for whom, and where it listens."""

    token: str
    converters: Mapping[str, DataConverter]
    """Converters by namespace; other namespaces are refused."""
    origins: frozenset[str] = frozenset()
    """Origins of web pages that may send requests, such as `http://localhost:8233`."""
    host: str = "127.0.0.1"
    port: int = 8081
    certificate: str | None = None
    """Path of the PEM certificate chain, for TLS; `private_key` is its key."""
    private_key: str | None = None

    def __post_init__(self) -> None:
        """Refuse insecure settings."""
        if not is_token(self.token):
            raise ProtectionSettingsError(
                f"The token must have at least {MIN_TOKEN_LENGTH} characters: letters, digits, '-' and '_'."
            )
        if not is_loopback(self.host) and not (self.certificate and self.private_key):
            raise ProtectionSettingsError(
                f"A codec server decrypts payloads, so listening on {self.host} requires TLS: --certificate and "
                "--private-key. Without them it only listens on 127.0.0.1."
            )


class CodecServer:
    """Serves from its own thread; payloads are decoded in the event loop that started it."""

    def __init__(self, settings: CodecServerSettings) -> None:
        """Bind the port.

        Raises:
            ProtectionSettingsError: the port is taken, or the certificate is invalid.
        """
        self._settings = settings
        handler = type("_BoundHandler", (_Handler,), {"settings": settings, "loop": asyncio.get_running_loop()})
        try:
            self._server = _Server((settings.host, settings.port), handler)
            if settings.certificate and settings.private_key:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(settings.certificate, settings.private_key)
                self._server.context = context
        except OSError as error:  # SSLError is one
            reason = error.strerror or str(error)
            raise ProtectionSettingsError(
                f"The codec server cannot listen on {settings.host}:{settings.port}: {reason}."
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="codec server", daemon=True
        )

    @property
    def url(self) -> str:
        """Its address, without the token."""
        scheme = "https" if self._settings.certificate else "http"
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        return f"{scheme}://{host}:{self._server.server_address[1]}"

    async def __aenter__(self) -> Self:
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()


class _Refused(Exception):  # noqa: N818  # reads as a statement: `except _Refused`
    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


async def _encode(converter: DataConverter, payloads: Iterable[Payload]) -> list[Payload]:
    return await converter.payload_codec.encode(list(payloads)) if converter.payload_codec else list(payloads)


async def _decode(converter: DataConverter, payloads: Sequence[Payload], *, keep_references: bool) -> list[Payload]:
    """Decrypt encrypted payloads and fetch stored ones; return others unchanged."""
    found = list(payloads)
    if not keep_references and converter.external_storage:
        found = [await _fetch(converter, payload) for payload in found]
    if not converter.payload_codec:
        return found
    opened = await converter.payload_codec.decode(found)
    return [
        before if after.metadata.get("encoding") == UNREADABLE else after
        for before, after in zip(found, opened, strict=True)
    ]


async def _fetch(converter: DataConverter, payload: Payload) -> Payload:
    """Fetch the payload that a reference points to; return other payloads unchanged."""
    if payload.metadata.get("messageType") != _REFERENCE or not converter.external_storage:
        return payload
    try:
        reference = json_format.Parse(payload.data, ExternalStorageReference(), ignore_unknown_fields=True)
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise _Refused(HTTPStatus.BAD_REQUEST, "invalid reference to a stored payload") from error
    for driver in converter.external_storage.drivers:
        if driver.name() == reference.driver_name:
            claim = StorageDriverClaim(claim_data=dict(reference.claim_data))
            return (await driver.retrieve(StorageDriverRetrieveContext(), [claim]))[0]
    raise _Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"unknown storage '{reference.driver_name}'")


class _Handler(BaseHTTPRequestHandler):
    """One request; never logged, since its path may contain the token."""

    settings: CodecServerSettings
    loop: asyncio.AbstractEventLoop
    slots = threading.BoundedSemaphore(_CONCURRENCY)
    _has_read = False
    timeout = _IDLE_SECONDS
    server_version = "chargehand"
    sys_version = ""

    def do_OPTIONS(self) -> None:
        """Answer a browser's preflight request."""
        try:
            self._reply(HTTPStatus.NO_CONTENT, b"", self._allowed_origin())
        except _Refused as refusal:
            self._refuse(refusal, None)

    def do_GET(self) -> None:
        """Answer health checks."""
        if self.path == "/health":
            self._reply(HTTPStatus.OK, b"{}", None)
        else:
            self._refuse(_Refused(HTTPStatus.NOT_FOUND, "the paths are /encode, /decode and /download, by POST"), None)

    def do_POST(self) -> None:
        """Encode or decode payloads for an authorised client."""
        origin = None
        try:
            origin = self._allowed_origin()
            verb, keep_references = self._verb()
            converter = self._converter()
            with self.slots:
                answer = self._answer(verb, self._body(), converter, keep_references=keep_references)
        except _Refused as refusal:
            self._read_rest()
            self._refuse(refusal, origin)
        except TimeoutError:
            self._refuse(_Refused(HTTPStatus.SERVICE_UNAVAILABLE, "timed out"), origin)
        else:
            self._reply(HTTPStatus.OK, answer, origin)

    def _allowed_origin(self) -> str | None:
        """Check the origin of the request; None if it does not come from a web page."""
        origin = self.headers.get("Origin")
        if origin is not None and origin not in self.settings.origins:
            raise _Refused(HTTPStatus.FORBIDDEN, "requests from this origin are not allowed; allow it with --ui-origin")
        return origin

    def _verb(self) -> tuple[str, bool]:
        """Check the token; return the verb, and whether to keep references to stored payloads."""
        parts = urlsplit(self.path)
        named = [part for part in parts.path.split("/") if part]
        verb = named[-1] if named else ""
        presented = [
            self.headers.get("Authorization", "").removeprefix("Bearer "),
            *(named[:1] if len(named) == 2 else []),
        ]
        if not any(hmac.compare_digest(each.encode(), self.settings.token.encode()) for each in presented):
            raise _Refused(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        if verb not in ("encode", "decode", "download") or len(named) > 2:
            raise _Refused(HTTPStatus.NOT_FOUND, "the paths are /encode, /decode and /download")
        return verb, parse_qs(parts.query).get("preserveStorageRefs", [""])[-1].lower() == "true"

    def _converter(self) -> DataConverter:
        found = self.settings.converters.get(self.headers.get("X-Namespace", ""))
        if found is None:
            raise _Refused(HTTPStatus.FORBIDDEN, "this namespace (X-Namespace) is not served here")
        return found

    def _answer(self, verb: str, body: bytes, converter: DataConverter, *, keep_references: bool) -> bytes:
        """Encode or decode the payloads of a body."""
        try:
            payloads = json_format.Parse(body, Payloads()).payloads
        except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, "the body is not a JSON object of payloads") from error
        if verb == "encode":
            work = _encode(converter, payloads)
        else:
            work = _decode(converter, payloads, keep_references=keep_references and verb == "decode")
        try:
            done = asyncio.run_coroutine_threadsafe(work, self.loop).result(_REQUEST_SECONDS)
        except ProtectionError as error:
            raise _Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        return json_format.MessageToJson(cast("Message", Payloads(payloads=done)), indent=None).encode()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Log nothing."""

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            raise _Refused(HTTPStatus.LENGTH_REQUIRED, "Content-Length is missing")
        if len(length) > 10 or int(length) > _MAX_BYTES:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the limit is {_MAX_BYTES} bytes")
        self._has_read = True
        return self.rfile.read(int(length))

    def _read_rest(self) -> None:
        """Read the body of a refused request if it is small: closing on unread bytes can lose the answer."""
        length = self.headers.get("Content-Length", "")
        if not self._has_read and length.isascii() and length.isdigit() and int(length[:10]) <= _MAX_UNREAD_BYTES:
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
        # The handshake waits for the client, so it runs in the request's own thread.
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore broken connections."""
