"""Which addresses count as public, and that neither a name nor a spelling leads to another."""

import ipaddress
import socket
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from page_server import PUBLIC, PageServer, answer, serve_pages

from activities.http.addresses import reason_to_refuse
from activities.http.guarded_get import GuardedBackend
from activities.http.page import FetchError, FetchLimits
from activities.tools.pages.fetch import Fetcher
from tests.simulation.budget import settings_for

_NOT_PUBLIC = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
    "168.63.129.16", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.0.192",
    "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.250", "240.0.0.1", "255.255.255.255", "::", "::1", "::7f00:1", "::ffff:127.0.0.1",
    "::ffff:169.254.169.254", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe",
    "100::1", "100:64::1", "100:0:0:1::1", "2001::1", "2001:0:7f00:1::", "2001:db8::1", "2001:10::1", "2002:7f00:1::",
    "2002:a9fe:a9fe::1", "2002:5db8:d822::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254",
    "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "2606:2800:220:1:0:5efe:7f00:1",
    "2606:2800:220:1:200:5efe:a00:1", "example.org", "127.1", "2130706433",
]  # fmt: skip
_PUBLIC = [
    "1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.255.255", "172.32.0.1", "168.63.129.17",
    "223.255.255.254", "2606:2800:220:1:248:1893:25c8:1946", "2001:4860:4860::8888", "::ffff:93.184.216.34",
    "64:ff9b::5db8:d822",
]  # fmt: skip


def _wrapped(address: IPv4Address, public: int) -> dict[str, IPv6Address]:
    """Write an IPv4 address in each form in which IPv6 networks embed one."""
    number = int(address)
    return {
        "mapped": IPv6Address((0xFFFF << 32) | number),
        "compatible": IPv6Address(number),
        "translated": IPv6Address((0xFFFF << 48) | number),
        "NAT64": IPv6Address(0x0064_FF9B << 96 | number),
        "local NAT64": IPv6Address(0x0064_FF9B_0001 << 80 | number),
        "6to4": IPv6Address(0x2002 << 112 | number << 80 | public),
        "Teredo server": IPv6Address(0x2001_0000 << 96 | number << 64 | public),
        "Teredo client": IPv6Address(0x2001_0000 << 96 | public << 32 | number ^ 0xFFFF_FFFF),
        "ISATAP": IPv6Address(0x2606_2800_0220_0001 << 64 | 0x5EFE << 32 | number),
    }


@given(st.ip_addresses(v=4), st.integers(0, 0xFFFF_FFFF))
def test_private_ipv4_addresses_are_refused_in_every_ipv6_form(address: IPv4Address, public: int) -> None:
    """No way to embed an IPv4 address in an IPv6 one makes a private address public."""
    wrapped = _wrapped(address, public)

    refused = {name for name, wrapping in wrapped.items() if reason_to_refuse(str(wrapping))}

    expected = set(wrapped) if reason_to_refuse(str(address)) else set(wrapped) - {"mapped", "NAT64"}
    assert refused == expected


@given(st.ip_addresses())
def test_addresses_private_to_the_standard_library_are_refused(address: IPv4Address | IPv6Address) -> None:
    """The list includes whatever `ipaddress` calls private, in every Python version."""
    if not address.is_global or address.is_multicast:
        assert reason_to_refuse(str(address))


def test_only_public_addresses_are_allowed() -> None:
    """Local and reserved ranges, and those that embed other addresses, are refused; mapped public ones are not."""
    assert [address for address in ("", *_NOT_PUBLIC) if not reason_to_refuse(address)] == []
    assert [address for address in _PUBLIC if reason_to_refuse(address)] == []


_PRIVATE: Final = (
    "127.0.0.1", "169.254.169.254", "10.0.0.7", "192.168.1.1", "172.16.0.9", "0.0.0.0", "100.64.0.1", "::1", "::",
    "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "64:ff9b::7f00:1", "fd00:ec2::254", "fe80::1", "2002:7f00:1::",
)  # fmt: skip
_NAMES: Final = ("localhost", "localhost.", "LOCALHOST", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "www.example@127.0.0.1")
_ANOTHER: Final = "2606:2800:220:1:248:1893:25c8:1946"
_ANSWER: Final = st.lists(st.sampled_from((PUBLIC, _ANOTHER, PUBLIC, *_PRIVATE)), min_size=1, max_size=5)
_TRIES: Final = settings(
    settings_for(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@dataclass
class Network:
    """A resolver with a new answer per look-up, like a server with a time to live of 0, and a watched `connect`."""

    server: PageServer
    fetcher: Fetcher = field(default_factory=lambda: Fetcher(GuardedBackend(), FetchLimits()))
    answers: list[Sequence[str]] = field(default_factory=list[Sequence[str]])
    asked: list[str] = field(default_factory=list[str])
    dialled: list[str] = field(default_factory=list[str])

    def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        name = host.decode() if isinstance(host, bytes) else str(host)
        try:  # numeric addresses in every notation that the C library knows
            addresses: Sequence[str] = [socket.inet_ntoa(socket.inet_aton(name))]
        except OSError:
            try:
                addresses = [str(ipaddress.ip_address(name))]
            except ValueError:
                self.asked.append(name)
                addresses = ["127.0.0.1"] if name.startswith("localhost") else self._next()
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]

    def _next(self) -> Sequence[str]:
        if not self.answers:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def reset(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked.clear()
        self.dialled.clear()


@pytest.fixture
async def network(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Network]:
    async with serve_pages() as server:
        network = Network(server)
        connect = BaseSelectorEventLoop.sock_connect

        async def sock_connect(loop: BaseSelectorEventLoop, sock: socket.socket, address: Any) -> None:
            network.dialled.append(address[0])
            if reason_to_refuse(address[0]) or sock.family == socket.AF_INET6:
                raise ConnectionRefusedError
            await connect(loop, sock, ("127.0.0.1", server.port))

        monkeypatch.setattr(socket, "getaddrinfo", network.getaddrinfo)
        monkeypatch.setattr(BaseSelectorEventLoop, "sock_connect", sock_connect)
        yield network


@_TRIES
@given(answers=st.lists(_ANSWER, min_size=1, max_size=6), hops=st.integers(0, 6))
async def test_no_dns_answer_leads_to_a_private_address(network: Network, answers: list[list[str]], hops: int) -> None:
    """There is one lookup per connection, at every redirect, and no private address is ever dialled."""
    network.reset(*answers)
    network.server.requests.clear()
    for hop in range(hops):
        network.server.pages[f"/{hop}"] = answer(status="302 Found", Location=f"http://n{hop}.example/{hop + 1}")
    network.server.pages[f"/{hops}"] = answer(b"read")

    read = b""
    with suppress(FetchError):
        read = (await network.fetcher.fetch("http://first.example/0")).body

    assert [address for address in network.dialled if reason_to_refuse(address)] == []
    steps = [answers[min(at, len(answers) - 1)] for at in range(hops + 1)]
    allowed = [all(reason_to_refuse(address) is None for address in step) for step in steps]
    first_refused = allowed.index(False) if False in allowed else len(steps)
    assert len(network.asked) <= first_refused + 1
    assert not read or first_refused > hops


_DIGITS: Final = ("0123456789", "０１２３４５６７８９", "⓪①②③④⑤⑥⑦⑧⑨", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗")
_DOTS: Final = (".", "。", "．", "｡", "%2e", "%2E")


@st.composite
def _spellings(draw: st.DrawFn) -> str:
    """Write a private address in one of the ways that some parser reads as that address."""
    if (chosen := draw(st.sampled_from((*_PRIVATE, *_NAMES)))) in _NAMES:
        return chosen
    address = ipaddress.ip_address(chosen)
    if isinstance(address, ipaddress.IPv6Address):
        written = draw(st.sampled_from((address.compressed, address.exploded, address.exploded.upper())))
        if address.ipv4_mapped and draw(st.booleans()):
            written = f"::ffff:{address.ipv4_mapped}"
        return f"[{written}{draw(st.sampled_from(('', '%251', '%25lo', '%00')))}]"
    number, count = int(address), draw(st.integers(1, 4))
    parts = [number >> (24 - 8 * at) & 0xFF for at in range(count - 1)]
    parts.append(number & (1 << (8 * (5 - count))) - 1)
    kinds = st.sampled_from(("{}", "0x{:x}", "0X{:X}", "0{:o}", "000{:o}", "0x{:08x}"))
    written = [draw(kinds).format(part) for part in parts]
    text = draw(st.sampled_from(_DOTS)).join(written)
    digits = draw(st.sampled_from(_DIGITS))
    if digits != _DIGITS[0]:
        text = "".join(digits[int(letter)] if letter in _DIGITS[0] else letter for letter in text)
    elif draw(st.booleans()):
        text = "".join(quote(letter) if letter != "." else letter for letter in text)
    return text + draw(st.sampled_from(("", ".", ":80", ":080")))


@_TRIES
@given(spelling=_spellings(), scheme=st.sampled_from(("http", "https", "HTTP")), redirected=st.booleans())
async def test_no_spelling_of_an_address_reaches_a_private_host(
    network: Network, spelling: str, scheme: str, *, redirected: bool
) -> None:
    """As a first URL or a redirect, in any radix, with any number of parts, dots and digits."""
    network.reset(*([[PUBLIC]] if redirected else []))
    url = f"{scheme}://{spelling}/latest/meta-data/"
    try:
        url.encode("latin-1")
    except UnicodeEncodeError:
        redirected = False
    network.server.pages["/"] = answer(status="302 Found", Location=url)

    with pytest.raises(FetchError):
        await network.fetcher.fetch("http://public.example/" if redirected else url)

    assert [address for address in network.dialled if reason_to_refuse(address)] == []
