"""Networks that a name on the Internet has no business to lead to.

From the special-purpose registries of IANA (RFC 6890 and its updates), the forms of IPv6 that carry an IPv4 address,
and the addresses at which clouds tell a machine its own credentials.
"""

from __future__ import annotations

import ipaddress

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

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


def special_network(address: IPAddress) -> IPNetwork | None:
    """The narrowest special network that holds the address; None for one that belongs to somebody on the Internet."""
    found = [network for network in SPECIAL if address in network]
    if found:
        return max(found, key=lambda network: network.prefixlen)
    if address.version == 6 and address not in _GLOBAL_V6:
        return ipaddress.ip_network(int(address).to_bytes(16, "big"))  # reserved: to be listed alone
    return None
