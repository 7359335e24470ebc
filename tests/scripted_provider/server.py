"""The scripted provider's HTTP server: loopback only, one event loop, keep-alive."""

import asyncio
import inspect
import json
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from tests.scripted_provider import streams, wires
from tests.scripted_provider.exchange import Exchange, Respond, ScriptedReply, ScriptedRequest, Wire
from tests.scripted_provider.jobs import BATCHES, Jobs
from tests.scripted_provider.session import canned_session


class ScriptedProvider:
    """A provider on loopback that does what `respond` says.

    Use it as an async context manager. A script that raises is a 500 to the client, and raises again when the block
    is left, so that a mistake in a script is never taken for a provider's failure.
    """

    def __init__(self, respond: Respond | None = None, *, port: int = 0, streams: bool = True) -> None:
        self.respond = respond or canned_session()
        """May be replaced while the server runs."""
        self.streams = streams
        """Whether it streams replies on request; some servers never do."""
        self.exchanges: list[Exchange] = []
        """Every request, in the order of arrival."""
        self.count: Callable[[ScriptedRequest], int] = lambda request: len(request.text) // 4
        """Returns the token count that it reports for a prompt."""
        self.counted: list[ScriptedRequest] = []
        """Every request to count a prompt."""
        self._port = port
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self.connections: set[_Connection] = set()
        """Open ones."""
        self.jobs = Jobs(self.decide, self.changed)
        """Batches and background responses."""
        self.script_errors: list[BaseException] = []
        """Exceptions raised by the script or by the server itself."""

    @property
    def base_url(self) -> str:
        """The address without `/v1`, as the Anthropic SDK needs it; the OpenAI SDK needs `/v1` appended."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        """The address as the OpenAI SDK wants it."""
        return f"{self.base_url}/v1"

    @property
    def requests(self) -> list[ScriptedRequest]:
        """Every request, in the order of arrival."""
        return [exchange.request for exchange in self.exchanges]

    @property
    def charges(self) -> int:
        """How many requests a real provider would bill: all it began to answer, whether the client waited or not."""
        return sum(exchange.reply is not None and exchange.reply.charged for exchange in self.exchanges)

    async def until(self, holds: Callable[[], bool], timeout_seconds: float = 60.0) -> None:
        """Wait until a condition on the exchanges holds, such as `lambda: len(server.requests) == 2`."""
        async with asyncio.timeout(timeout_seconds):
            while not holds():
                await self._changed.wait()

    def changed(self) -> None:
        """Wake the callers of `until`."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def start(self) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close every connection and stop listening; raise the errors of the script."""
        assert self._server is not None
        self._server.close()
        await self.jobs.close()
        for connection in tuple(self.connections):
            await connection.close()
        await self._server.wait_closed()
        if self.script_errors:
            raise BaseExceptionGroup("the script of the provider failed", self.script_errors)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def decide(self, exchange: Exchange) -> ScriptedReply:
        try:
            decided = self.respond(exchange.request)
            exchange.reply = await decided if inspect.isawaitable(decided) else decided
        except Exception as error:  # noqa: BLE001  # raised again by stop()
            self.script_errors.append(error)
            exchange.reply = ScriptedReply("error", status=500)
        self.changed()
        return exchange.reply


_DRIP_SECONDS = 0.02


def _begin(reply: ScriptedReply) -> None:
    if reply.on_first_token:
        reply.on_first_token()


class _Connection(asyncio.Protocol):
    """One connection: a request at a time."""

    def __init__(self, provider: ScriptedProvider) -> None:
        self._provider = provider
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._answering: asyncio.Task[None] | None = None
        self._exchange: Exchange | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._provider.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        self._provider.connections.discard(self)
        if self._exchange and self._exchange.answered_at is None:
            self._exchange.hung_up = True
            self._provider.changed()
        if self._answering:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._next()

    async def close(self) -> None:
        self._exchange = None
        if self._transport:
            self._transport.abort()
        if self._answering:
            self._answering.cancel()
            await asyncio.gather(self._answering, return_exceptions=True)

    def _next(self) -> None:
        if self._answering and not self._answering.done():
            return
        head, separator, rest = bytes(self._received).partition(b"\r\n\r\n")
        if not separator:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return
        self._received = bytearray(rest[length:])
        method, path, _ = first.split(" ")
        self._answering = asyncio.get_running_loop().create_task(self._answer(method, path, headers, rest[:length]))
        self._answering.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        if error := task.exception():
            self._provider.script_errors.append(error)
            assert self._transport is not None
            self._transport.abort()
        else:
            self._next()

    async def _answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        arrived_at = time.time()
        path = wires.own_path(path.partition("?")[0])
        if method == "POST" and (counted := wires.COUNTERS.get(path)):
            request = wires.read(counted, json.loads(body), headers, 0, arrived_at)
            self._provider.counted.append(request)
            return self._write(
                200, {}, {"object": "response.input_tokens", "input_tokens": self._provider.count(request)}
            )
        if told := self._provider.jobs.answer(method, path):
            return self._write(told[0], {}, told[1])
        if method == "POST" and path == BATCHES:
            return self._begin_batch(json.loads(body), headers, arrived_at)
        wire = wires.PATHS.get(path)
        if method != "POST" or wire is None:
            return self._write(404, {}, {"error": {"message": f"no {method} {path} here", "type": "not_found_error"}})
        exchange = self._enter(wire, json.loads(body), headers, arrived_at)
        if exchange.request.body.get("background"):
            job = self._provider.jobs.begin(f"resp_{exchange.request.sequence}", exchange)
            return self._write(200, {}, self._provider.jobs.describe(job))
        self._exchange = exchange
        reply = await self._provider.decide(exchange)
        if reply.delay:
            await asyncio.sleep(reply.delay)
        await self._carry_out(exchange, reply)
        return None

    def _enter(self, wire: Wire, body: dict[str, Any], headers: Mapping[str, str], arrived_at: float) -> Exchange:
        """Add a request to the list of all exchanges."""
        sequence = len(self._provider.exchanges) + 1
        exchange = Exchange(wires.read(wire, body, headers, sequence, arrived_at))
        self._provider.exchanges.append(exchange)
        self._provider.changed()
        return exchange

    def _begin_batch(self, body: dict[str, Any], headers: Mapping[str, str], arrived_at: float) -> None:
        (asked,) = body["requests"]
        exchange = self._enter("anthropic", asked["params"], headers, arrived_at)
        identity = f"msgbatch_{exchange.request.sequence}"
        job = self._provider.jobs.begin(identity, exchange, asked["custom_id"])
        self._write(200, {}, self._provider.jobs.describe(job))

    async def _carry_out(self, exchange: Exchange, reply: ScriptedReply) -> None:
        request = exchange.request
        is_streamed = bool(request.body.get("stream")) and self._provider.streams
        match reply.kind:
            case "hang":
                await asyncio.Event().wait()
            case "stall":
                self._begin_stream(request)
                # All but the last three events: the text remains without its end.
                self._write_events(streams.events(request, replace(reply, kind="text"))[:-3])
                await asyncio.Event().wait()
            case "drip":
                self._begin_stream(request)
                while True:
                    self._write_events([b"d"])
                    await asyncio.sleep(_DRIP_SECONDS)
            case "drop" | "reset":
                self._drop(request, is_streamed=is_streamed, by_reset=reply.kind == "reset")
            case "error":
                usual = wires.write_error(request.wire, reply.status) if reply.body is None else reply.body
                self._write(reply.status, reply.headers, usual, request)
            case "raw" if reply.pieces != "whole" and isinstance(reply.body, bytes):
                self._begin_stream(request)
                for start in range(len(reply.body)) if reply.pieces == "bytes" else [0]:
                    self._write_events([reply.body[start : start + 1] if reply.pieces == "bytes" else reply.body])
                    await asyncio.sleep(0)
                if reply.pieces == "endless":
                    await asyncio.Event().wait()
                self._end_stream()
            case "raw":
                self._write(reply.status, reply.headers, reply.body or b"", request)
            case _ if is_streamed:
                await self._stream(request, reply)
            case _:
                _begin(reply)
                self._write(reply.status, reply.headers, wires.write(request, reply), request)
        exchange.answered_at = time.time()
        self._provider.changed()

    async def _stream(self, request: ScriptedRequest, reply: ScriptedReply) -> None:
        self._begin_stream(request)
        written = streams.events(request, reply)
        if reply.gap:
            for event in written:
                if streams.has_token(event):
                    _begin(reply)
                self._write_events([event])
                await asyncio.sleep(reply.gap)
        else:
            _begin(reply)
            self._write_events(written)
        self._end_stream()

    def _end_stream(self) -> None:
        assert self._transport is not None
        self._transport.write(b"0\r\n\r\n")

    def _drop(self, request: ScriptedRequest, *, is_streamed: bool, by_reset: bool) -> None:
        assert self._transport is not None
        if is_streamed:
            self._begin_stream(request)
            self._write_events(streams.events(request, ScriptedReply("text", "And so"))[:2])
        else:
            self._transport.write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{"')
        self._exchange = None
        if by_reset:
            # Without lingering, closing sends a reset.
            connected: socket.socket = self._transport.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()

    def _begin_stream(self, request: ScriptedRequest) -> None:
        assert self._transport is not None
        number = request.sequence
        self._transport.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n"
            f"request-id: req_{number}\r\nx-request-id: req_{number}\r\n\r\n".encode()
        )

    def _write_events(self, written: Sequence[bytes]) -> None:
        assert self._transport is not None
        # In a single write: since Python 3.12 each write counts all pending ones, which takes minutes for many.
        self._transport.write(b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in written))

    def _write(
        self,
        status: int,
        headers: Mapping[str, str],
        body: bytes | Mapping[str, Any] | Sequence[Any],
        request: ScriptedRequest | None = None,
    ) -> None:
        assert self._transport is not None
        written = body if isinstance(body, bytes) else json.dumps(body).encode()
        number = request.sequence if request else 0
        sent = {
            "content-type": "application/json",
            "content-length": str(len(written)),
            "request-id": f"req_{number}",
            "x-request-id": f"req_{number}",
            **{name.lower(): value for name, value in headers.items()},
        }
        phrase = HTTPStatus(status).phrase if status in {*HTTPStatus} else "Scripted"
        head = f"HTTP/1.1 {status} {phrase}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        self._transport.write(head.encode("latin-1") + b"\r\n" + written)
