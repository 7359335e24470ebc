"""Which addresses count as public."""

from ipaddress import IPv4Address, IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from activities.http.addresses import reason_to_refuse

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
    """Write an IPv4 address in each of the ways in which IPv6 networks hide one."""
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
def test_what_is_refused_is_refused_however_it_is_wrapped(address: IPv4Address, public: int) -> None:
    """No way to write an IPv4 address in an IPv6 one makes a private address public."""
    wrapped = _wrapped(address, public)

    refused = {name for name, wrapping in wrapped.items() if reason_to_refuse(str(wrapping))}

    expected = set(wrapped) if reason_to_refuse(str(address)) else set(wrapped) - {"mapped", "NAT64"}
    assert refused == expected


@given(st.ip_addresses())
def test_what_the_standard_library_calls_private_is_refused(address: IPv4Address | IPv6Address) -> None:
    """Our list holds all that the library's does, in every version of it."""
    if not address.is_global or address.is_multicast:
        assert reason_to_refuse(str(address))


def test_only_what_is_public_is_allowed() -> None:
    """Every range that is local, reserved, or hides another address is refused; public ones, also wrapped, are not."""
    assert [address for address in ("", *_NOT_PUBLIC) if not reason_to_refuse(address)] == []
    assert [address for address in _PUBLIC if reason_to_refuse(address)] == []
