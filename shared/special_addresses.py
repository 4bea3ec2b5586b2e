"""The IP addresses outside the public Internet (RFC 6890; the special-purpose registries of IANA).

The list is written out because ``ipaddress.is_global`` differs between releases of Python. Of IPv6, only
2000::/3 is in public use, so everything outside it is special: loopback, link-local, unique local, site-local
and multicast addresses, IPv4 in IPv6 (::ffff:0:0/96) and NAT64 (64:ff9b::/96, 64:ff9b:1::/48).
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

SPECIAL_IPV4: Final = tuple(
    IPv4Network(each)
    for each in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # between a provider and its customers
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, where clouds have their metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # automatic multicast tunnels
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
PUBLIC_IPV6: Final = IPv6Network("2000::/3")
SPECIAL_IPV6: Final = tuple(
    IPv6Network(each)
    for each in (
        "2001::/23",  # protocol assignments, among them Teredo, which has an IPv4 address in it
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which has an IPv4 address in it
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
"""The special networks within 2000::/3."""


def is_special(address: Address) -> bool:
    """Whether an address is none of the public Internet."""
    if isinstance(address, IPv4Address):
        return any(address in network for network in SPECIAL_IPV4)
    # An address with a zone is on a link of this machine.
    is_public = address in PUBLIC_IPV6 and address.scope_id is None
    return not is_public or any(address in network for network in SPECIAL_IPV6)
