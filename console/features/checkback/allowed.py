"""The addresses that a check-back may lead to: a strict reading of them, and the allow-list of origins and networks.

An address is read by one grammar that has one meaning: what browsers, resolvers and libraries are known to understand
in two ways (user names, numbers as hosts, trailing dots, backslashes, capital letters) is not an address here.

A name on the Internet has no business to lead to a special network: those of IANA's special-purpose registries (RFC
6890 and its updates), the forms of IPv6 that carry an IPv4 address, and the addresses at which clouds tell a machine
its own credentials. Nothing is asked there unless the allow-list names the network.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

LONGEST_ADDRESS = 500
_PORTS = {"https": 443, "http": 80}
_ORIGIN = r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::(?P<port>[1-9][0-9]{0,4}))?"
_PATH = r"(?P<path>/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*)?"
_QUERY = r"(?P<query>\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"
_address = re.compile(_ORIGIN + _PATH + _QUERY, re.ASCII).fullmatch
_origin = re.compile(_ORIGIN, re.ASCII).fullmatch
_label = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII).fullmatch
#: what some readers take for an IPv4 address: the last part of the host is a number, decimal or hexadecimal
_ends_in_number = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)", re.ASCII).fullmatch

#: The only IPv6 addresses that are given to somebody.
_GLOBAL_V6 = ipaddress.ip_network("2000::/3")

SPECIAL: tuple[IPNetwork, ...] = tuple(
    map(
        ipaddress.ip_network,
        (
            # this host, loopback, link-local, multicast, reserved and broadcast
            "0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4",
            # private, shared by a provider's customers
            "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",
            # protocol assignments, documentation, benchmarks, the relays of 6to4
            "192.0.0.0/24", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "198.18.0.0/15", "192.88.99.0/24",
            # instance metadata: of most clouds, Azure, Alibaba, Oracle, Amazon by IPv6
            "169.254.169.254/32", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::254/128",
            # unspecified, loopback, IPv4 inside of IPv6: compatible, mapped, translated (NAT64), 6to4, Teredo
            "::/128", "::1/128", "::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32",
            # protocol assignments, documentation, discard, segment routing
            "2001::/23", "2001:db8::/32", "3fff::/20", "100::/64", "5f00::/16",
            # unique local, link-local, site-local, multicast
            "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
        ),
    )
)  # fmt: skip


class AddressRefused(ValueError):
    """This address is not asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port of an address; `host` is a name, or an IP address without brackets."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")

    @property
    def authority(self) -> str:
        """The host and port as the header Host has them."""
        return str(self).partition("://")[2]

    @property
    def literal(self) -> IPAddress | None:
        """The host as an IP address; None if it is a name."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Address:
    """An address that can be asked: its origin, and path with query as they are sent."""

    origin: Origin
    target: str

    def __str__(self) -> str:
        return f"{self.origin}{self.target}"


class AllowList:
    """Origins that may be asked, and special networks (private ones, say) that their names may lead to."""

    def __init__(
        self, origins: Iterable[str], networks: Iterable[str] = (), *, listed_in: str = "ESCAPEMENT_CHECKBACK_ORIGINS"
    ) -> None:
        """Read both lists; `listed_in` is the setting that a refusal names. Raise AddressRefused for a bad entry."""
        self._listed_in = listed_in
        self._origins = frozenset(read_origin(text) for text in origins)
        try:
            self._networks: tuple[IPNetwork, ...] = tuple(ipaddress.ip_network(text) for text in networks)
        except ValueError as error:
            raise AddressRefused(f"This is no network such as 10.1.0.0/16: {error}") from None

    def check_origin(self, address: Address) -> None:
        """Raise AddressRefused unless its origin is listed, scheme and port included."""
        if address.origin not in self._origins:
            listed = ", ".join(sorted(map(str, self._origins))) or "none"
            raise AddressRefused(
                f"{address.origin} is not allowed; operators list origins in {self._listed_in} ({listed})."
            )

    def check_resolved(self, found: Sequence[IPAddress]) -> None:
        """Raise AddressRefused unless each of these addresses may be connected to."""
        for each in found:
            special = special_network(each)
            if special is not None and not any(_opens(network, each, special) for network in self._networks):
                raise AddressRefused(f"{each} is in {special}, which ESCAPEMENT_CHECKBACK_NETWORKS does not list.")


def read_address(text: str) -> Address:
    """Read an address such as ``https://shop.example/checks``; raises AddressRefused."""
    found = _address(text) if len(text) <= LONGEST_ADDRESS else None
    if found is None:
        raise AddressRefused(
            f"Write it as https://host/path: at most {LONGEST_ADDRESS} characters, scheme and host in small letters, "
            "no user name, no fragment, other characters as %XX, an international name in its xn-- form."
        )
    return Address(_origin_of(found), (found["path"] or "/") + (found["query"] or ""))


def read_origin(text: str) -> Origin:
    """Read an origin such as ``https://shop.example:8443``; raises AddressRefused."""
    found = _origin(text)
    if found is None:
        raise AddressRefused(f"{text[:100]!r} is no origin; write it as https://host or https://host:port.")
    return _origin_of(found)


def _origin_of(found: re.Match[str]) -> Origin:
    scheme, port = found["scheme"], int(found["port"] or _PORTS[found["scheme"]])
    if port > 65535:
        raise AddressRefused(f"{port} is no port; the last one is 65535.")
    return Origin(scheme, _host(found["host"]), port)


def _host(text: str) -> str:
    try:
        if text.startswith("["):
            return str(ipaddress.IPv6Address(text[1:-1]))
        if _ends_in_number(text):
            return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise AddressRefused(f"{text} is no IP address as it is written in one way only.") from None
    if len(text) > 253 or not all(_label(part) for part in text.split(".")):
        raise AddressRefused(f"{text[:100]!r} is no host name.")
    return text


def _opens(listed: IPNetwork, address: IPAddress, special: IPNetwork) -> bool:
    """Tell whether the listed network means this special one; a wide one, such as 0.0.0.0/0, does not."""
    if listed.version != address.version or address not in listed:
        return False
    return listed.prefixlen >= special.prefixlen


def special_network(address: IPAddress) -> IPNetwork | None:
    """Return the narrowest special network that holds the address; None for one of the public Internet."""
    found = [network for network in SPECIAL if address in network]
    if found:
        return max(found, key=lambda network: network.prefixlen)
    if not address.is_global or (address.version == 6 and address not in _GLOBAL_V6):
        return ipaddress.ip_network(address.packed)  # reserved, or special since this was written: to be listed alone
    return None
