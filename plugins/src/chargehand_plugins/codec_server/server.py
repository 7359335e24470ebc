"""The codec server: decodes encrypted and externally stored payloads for Temporal's Web UI and command line.

A client can read every session of the served namespaces, so each request needs a token: as `Authorization: Bearer
TOKEN`, which Temporal's command line can send, or as the first part of the path, since the Web UI of a server without
login sends no token. The server listens on loopback, or uses TLS.
"""

import asyncio
import hmac
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, cast

from google.protobuf import json_format
from google.protobuf.message import Message
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.sdk.v1.external_storage_pb2 import ExternalStorageReference
from temporalio.converter import DataConverter, StorageDriverClaim, StorageDriverRetrieveContext

from chargehand.converter import UNREADABLE
from chargehand.local_server import is_loopback
from chargehand.payloads.errors import ProtectionError, ProtectionSettingsError
from chargehand_plugins.http_server import build_server, listen, running

_REFERENCE: Final = ExternalStorageReference.DESCRIPTOR.full_name.encode()
_MAX_BYTES: Final = 32 << 20
_REQUEST_SECONDS: Final = 30
_CONCURRENCY: Final = 8
_MAX_UNREAD_BYTES: Final = 1 << 20
_HEADERS: Final = {"Vary": "Origin", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_TO_WEB_UIS: Final = {
    "Access-Control-Allow-Methods": "POST, OPTIONS",
    "Access-Control-Allow-Headers": "authorization, content-type, x-namespace, authorization-extras",
    "Access-Control-Allow-Credentials": "true",
    "Access-Control-Allow-Private-Network": "true",
}


@dataclass(frozen=True)
class CodecServerSettings:
    token: str
    converters: Mapping[str, DataConverter]
    """Converters by namespace; other namespaces are refused."""
    origins: frozenset[str] = frozenset()
    """Origins of web pages that may send requests, such as `http://localhost:8233`."""
    host: str = "127.0.0.1"
    port: int = 0
    certificate: str | None = None
    """Path of the PEM certificate chain, for TLS; `private_key` is its key."""
    private_key: str | None = None

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and not (self.certificate and self.private_key):
            raise ProtectionSettingsError(
                f"A codec server decrypts payloads, so listening on {self.host} requires TLS: --certificate and "
                "--private-key. Without them it only listens on 127.0.0.1."
            )


@asynccontextmanager
async def serving(settings: CodecServerSettings) -> AsyncGenerator[str]:
    """Serve while the context is entered; yield the server's address, without the token.

    Raises:
        ProtectionSettingsError: the port is taken, or the certificate is invalid.
    """
    try:
        server = build_server(_Codec(settings).app(), settings.certificate, settings.private_key)
        listening = listen(settings.host, settings.port)
    except OSError as error:  # SSLError is one
        raise ProtectionSettingsError(
            f"The codec server cannot listen on {settings.host}:{settings.port}: {error.strerror or error}."
        ) from error
    scheme = "https" if settings.certificate else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    async with running(server, listening):
        yield f"{scheme}://{host}:{listening.getsockname()[1]}"


class _Codec:
    """Answers requests without logging them, since a path may contain the token."""

    def __init__(self, settings: CodecServerSettings) -> None:
        self._settings = settings
        self._slots = asyncio.Semaphore(_CONCURRENCY)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/health", self._health),
                Route("/{path:path}", self._preflight, methods=["OPTIONS"]),
                Route("/{path:path}", self._transform, methods=["POST"]),
            ],
            exception_handlers={HTTPException: self._refuse},
        )

    async def _health(self, request: Request) -> Response:
        return self._reply(request, b"{}")

    async def _preflight(self, request: Request) -> Response:
        self._check_origin(request)
        return self._reply(request, b"", HTTPStatus.NO_CONTENT)

    async def _transform(self, request: Request) -> Response:
        """Encode or decode payloads for an authorised client."""
        self._check_origin(request)
        verb = self._verb(request)
        converter = self._settings.converters.get(request.headers.get("x-namespace", ""))
        if converter is None:
            raise HTTPException(HTTPStatus.FORBIDDEN, "this namespace (X-Namespace) is not served here")
        try:
            async with self._slots, asyncio.timeout(_REQUEST_SECONDS):
                payloads = await asyncio.to_thread(_parse, await _body(request))
                if verb == "encode":
                    codec = converter.payload_codec
                    done = await codec.encode(list(payloads)) if codec else list(payloads)
                else:
                    wants_references = request.query_params.get("preserveStorageRefs", "").lower() == "true"
                    keep = wants_references and verb == "decode"
                    done = await _decode(converter, payloads, keep_references=keep)
        except ProtectionError as error:
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        except TimeoutError as error:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "timed out") from error
        message = cast("Message", Payloads(payloads=done))
        return self._reply(request, await asyncio.to_thread(json_format.MessageToJson, message, indent=None))

    def _check_origin(self, request: Request) -> None:
        origin = request.headers.get("origin")
        if origin is not None and origin not in self._settings.origins:
            raise HTTPException(
                HTTPStatus.FORBIDDEN, "requests from this origin are not allowed; allow it with --ui-origin"
            )

    def _verb(self, request: Request) -> str:
        """Check the token, and return the verb."""
        path = [part for part in request.url.path.split("/") if part]
        presented = [request.headers.get("authorization", "").removeprefix("Bearer "), *path[: len(path) == 2]]
        if not any(hmac.compare_digest(each.encode(), self._settings.token.encode()) for each in presented):
            raise HTTPException(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        if not path or path[-1] not in ("encode", "decode", "download") or len(path) > 2:
            raise HTTPException(HTTPStatus.NOT_FOUND, "the paths are /encode, /decode and /download")
        return path[-1]

    async def _refuse(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        stated = request.headers.get("content-length", "0")
        if request.method == "POST" and int(stated) <= _MAX_UNREAD_BYTES:
            # Closing with unread bytes can lose the response.
            with suppress(TimeoutError, ClientDisconnect):
                async with asyncio.timeout(_REQUEST_SECONDS):
                    await request.body()
        return self._reply(request, to_json({"message": error.detail}), HTTPStatus(error.status_code))

    def _reply(self, request: Request, body: bytes | str, status: HTTPStatus = HTTPStatus.OK) -> Response:
        origin = request.headers.get("origin")
        to_origin = {"Access-Control-Allow-Origin": origin, **_TO_WEB_UIS} if origin in self._settings.origins else {}
        return Response(body, status, {**_HEADERS, **to_origin}, "application/json")


async def _body(request: Request) -> bytes:
    length = request.headers.get("content-length")
    if length is None:
        raise HTTPException(HTTPStatus.LENGTH_REQUIRED, "Content-Length is missing")
    if int(length) > _MAX_BYTES:  # the server has refused non-numbers
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the limit is {_MAX_BYTES} bytes")
    return await request.body()


def _parse(body: bytes) -> Sequence[Payload]:
    try:
        return json_format.Parse(body, Payloads()).payloads
    except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "the body is not a JSON object of payloads") from error


async def _decode(converter: DataConverter, payloads: Sequence[Payload], *, keep_references: bool) -> list[Payload]:
    """Decrypt encrypted payloads and fetch stored ones; return others unchanged."""
    encoded = list(payloads)
    if not keep_references and converter.external_storage:
        encoded = [await _fetch(converter, payload) for payload in encoded]
    if not converter.payload_codec:
        return encoded
    opened = await converter.payload_codec.decode(encoded)
    return [
        before if after.metadata.get("encoding") == UNREADABLE else after
        for before, after in zip(encoded, opened, strict=True)
    ]


async def _fetch(converter: DataConverter, payload: Payload) -> Payload:
    """Fetch the payload that a reference points to; return other payloads unchanged."""
    if payload.metadata.get("messageType") != _REFERENCE or not converter.external_storage:
        return payload
    try:
        reference = json_format.Parse(payload.data, ExternalStorageReference(), ignore_unknown_fields=True)
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "invalid reference to a stored payload") from error
    for driver in converter.external_storage.drivers:
        if driver.name() == reference.driver_name:
            claim = StorageDriverClaim(claim_data=dict(reference.claim_data))
            return (await driver.retrieve(StorageDriverRetrieveContext(), [claim]))[0]
    raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, f"unknown storage '{reference.driver_name}'")
