"""Rules for network addresses that may be read from. Pure: no resolution, no connections."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final


class AddressRefusedError(Exception):
    """The address must not be read from; the message says why, for the agent."""


# The standard library's `is_private` and `is_global` differ between Python versions and miss several of these.
_REFUSED_V4: Final = {
    IPv4Network(network): why
    for network, why in (
        ("0.0.0.0/8", "this machine"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "a carrier's private network"),
        ("127.0.0.0/8", "this machine"),
        ("168.63.129.16/32", "a cloud platform's own service"),
        ("169.254.0.0/16", "the local link, where cloud platforms keep credentials"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "reserved for documentation"),
        ("192.88.99.0/24", "a relay for 6to4"),
        ("192.168.0.0/16", "a private network"),
        ("198.18.0.0/15", "reserved for benchmarks"),
        ("198.51.100.0/24", "reserved for documentation"),
        ("203.0.113.0/24", "reserved for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
}
_REFUSED_V6: Final = {
    IPv6Network(network): why
    for network, why in (
        ("2001::/23", "reserved for protocols such as Teredo"),
        ("2001:db8::/32", "reserved for documentation"),
        ("2002::/16", "6to4, which hides an IPv4 address"),
        ("3fff::/20", "reserved for documentation"),
    )
}
_GLOBAL_V6: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)


def reason_to_refuse(address: str) -> str | None:
    """Return why an IP address must not be read from; None if it is public."""
    try:
        parsed = _unwrap(ip_address(address))
    except ValueError:
        return "not an address"
    if isinstance(parsed, IPv4Address):
        return next((why for network, why in _REFUSED_V4.items() if parsed in network), None)
    if parsed not in _GLOBAL_V6:
        return "not a public address"
    if int(parsed) >> 32 & 0xFFFF_FFFF in _ISATAP:
        return "ISATAP, which hides an IPv4 address"
    return next((why for network, why in _REFUSED_V6.items() if parsed in network), None)


def _unwrap(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Extract the IPv4 address from the two IPv6 forms that legitimately carry public ones."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
