"""Where connections go, with a hook in place of the network."""

import pytest
from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream, ConnectError
from page_server import PUBLIC, Dial, Names, serve_pages

from activities.pages.addresses import AddressRefusedError
from activities.pages.guarded_get import GuardedBackend, resolve_by_system


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "0",
        "0.0.0.0",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "①②⑦.⓪.⓪.①",
        "１２７．０．０．１",
        "::1",
        "::ffff:7f00:1",
        "::ffff:127.0.0.1",
        "localhost",
        "LOCALHOST",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "100.64.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "fe80::1",
        "10.0.0.1",
        "192.168.0.1",
        "224.0.0.1",
    ],
)
async def test_no_spelling_of_a_local_address_is_dialled(host: str) -> None:
    """The system's own resolver reads the spelling, and what it reads is refused before anything is connected."""
    dial = Dial()

    with pytest.raises((AddressRefusedError, ConnectError)):
        await GuardedBackend(resolve=resolve_by_system, dial=dial).connect_tcp(host, 80)

    assert dial.dialled == []


@pytest.mark.parametrize("port", [0, 22, 25, 81, 444, 2019, 7233, 8080, 8233, 9090, 65535])
async def test_other_ports_are_not_dialled(port: int) -> None:
    """Temporal, its UI, metrics and mail are not web pages, wherever they are."""
    names, dial = Names((PUBLIC,)), Dial()

    with pytest.raises(AddressRefusedError, match=f"port {port}"):
        await GuardedBackend(resolve=names.resolve, dial=dial).connect_tcp("public.example", port)

    assert (names.asked, dial.dialled) == ([], [])


async def test_a_name_is_resolved_once_and_the_checked_address_is_dialled() -> None:
    """A name that changes its address after the check (DNS rebinding) changes nothing."""
    names = Names((PUBLIC,), ("127.0.0.1",))

    async with serve_pages() as server:
        dial = Dial(server.port)
        stream = await GuardedBackend(resolve=names.resolve, dial=dial).connect_tcp("rebinding.example", 80)
        await stream.aclose()

    assert (names.asked, dial.dialled) == ([("rebinding.example", 80)], [(PUBLIC, 80)])


@pytest.mark.parametrize(
    "addresses", [(PUBLIC, "127.0.0.1"), ("127.0.0.1", PUBLIC), (PUBLIC, "::1"), (PUBLIC, "fe80::1%lo")]
)
async def test_a_name_with_one_local_address_is_refused(addresses: tuple[str, ...]) -> None:
    """All of a name's addresses must be public, in whichever order they come."""
    dial = Dial()

    with pytest.raises(AddressRefusedError):
        await GuardedBackend(resolve=Names(addresses).resolve, dial=dial).connect_tcp("mixed.example", 443)

    assert dial.dialled == []


async def test_an_allowed_host_may_be_local_and_on_any_port() -> None:
    """What the operator opens is open: that host on that port, and nothing else."""
    async with serve_pages() as server:
        dial = Dial(server.port)
        backend = GuardedBackend(frozenset({"wiki.internal:8080"}), Names(("10.0.0.7",)).resolve, dial)
        stream = await backend.connect_tcp("wiki.internal", 8080)
        await stream.aclose()
        for host, port in (("wiki.internal", 80), ("wiki.internal", 8081), ("other.internal", 8080)):
            with pytest.raises(AddressRefusedError):
                await backend.connect_tcp(host, port)

    assert dial.dialled == [("10.0.0.7", 8080)]


async def test_the_next_address_is_tried() -> None:
    """A host of which one address does not answer is reached at another."""

    class FirstIsDown(AsyncNetworkBackend):
        def __init__(self, up: Dial) -> None:
            self.tried: list[str] = []
            self._up = up

        async def connect_tcp(self, host: str, port: int, *_rest: object) -> AsyncNetworkStream:  # pyright: ignore[reportIncompatibleMethodOverride]  # takes what it is given
            self.tried.append(host)
            if len(self.tried) == 1:
                raise ConnectError("down")
            return await self._up.connect_tcp(host, port)

    async with serve_pages() as server:
        dial = FirstIsDown(Dial(server.port))
        backend = GuardedBackend(resolve=Names(("2606:2800:220:1::1", PUBLIC)).resolve, dial=dial)
        stream = await backend.connect_tcp("both.example", 80)
        await stream.aclose()

    assert dial.tried == ["2606:2800:220:1::1", PUBLIC]


async def test_files_are_not_dialled() -> None:
    """There is no way to a socket in the file system."""
    with pytest.raises(AddressRefusedError):
        await GuardedBackend().connect_unix_socket("/var/run/docker.sock")
