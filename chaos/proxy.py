"""A TCP proxy on loopback that can simulate a bad network."""

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

_PIECE: Final = 64 * 1024
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""Closing without lingering resets the connection."""


class Proxy:
    """Forwards connections to one address, with the currently configured faults."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._answers = asyncio.Event()
        self._answers.set()
        self.latency = 0.0
        """Seconds by which each chunk is delayed."""
        self.bytes_per_second: int | None = None
        self.refuses = False
        self.connections = 0
        """Connections so far."""

    @property
    def address(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Close all connections and accept no new ones."""
        self.refuses = True
        self.reset()

    def reset(self) -> None:
        """Reset every connection, even in the middle of a transfer."""
        for writer in tuple(self._open):
            connected: socket.socket = writer.get_extra_info("socket")
            with suppress(OSError):
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()

    def hold(self, *, answers_only: bool = False) -> None:
        """Keep connections open and accept new ones, but forward nothing, or no answers: half open."""
        (self._answers if answers_only else self._flows).clear()

    def heal(self) -> None:
        """Restore the network; held data is forwarded."""
        self.refuses = False
        self.latency = 0.0
        self.bytes_per_second = None
        self._flows.set()
        self._answers.set()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)

    async def stop(self) -> None:
        """Close everything."""
        assert self._server is not None
        self._server.close()
        self.reset()
        for task in tuple(self._carrying):
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        try:
            if self.refuses:
                writer.transport.abort()
                return
            self.connections += 1
            there, back = await asyncio.open_connection(*self._target)
            self._open |= {writer, back}
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pump(reader, back, self._flows))
                    both.create_task(self._pump(there, writer, self._flows, self._answers))
            finally:
                self._open -= {writer, back}
                writer.transport.abort()
                back.transport.abort()
        except* (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._carrying.discard(task)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *flows: asyncio.Event) -> None:
        while piece := await source.read(_PIECE):
            for each in flows:
                await each.wait()
            if self.latency:
                await asyncio.sleep(self.latency)
            if self.bytes_per_second:
                await asyncio.sleep(len(piece) / self.bytes_per_second)
            sink.write(piece)
            await sink.drain()
        raise ConnectionResetError("one side has closed")


@asynccontextmanager
async def open_proxy(address: str) -> AsyncGenerator[Proxy]:
    """Run a proxy in front of an address."""
    host, _, port = address.rpartition(":")
    proxy = Proxy(host, int(port))
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
