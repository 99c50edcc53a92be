"""Which IP addresses are public. The list is Gatehouse's own: every version of `ipaddress.is_private` misses some of
these networks, and an update of the interpreter must not change which addresses Gatehouse calls.
"""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

NON_PUBLIC_IPV4_NETWORKS = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier NAT; also the metadata service of some clouds
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's service for its virtual machines, at an address in a public range
            "169.254.0.0/16",  # link-local, and the metadata service of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
#: The only IPv6 range assigned for public use so far. All other ranges (::, ::1, ULA, link- and site-local, multicast,
#: IPv4-compatible, local NAT64 and unassigned ones) are not public.
PUBLIC_IPV6_NETWORK = IPv6Network("2000::/3")
NON_PUBLIC_IPV6_NETWORKS = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)
#: Networks whose last 32 bits are the IPv4 address that is actually called.
IPV4_IN_IPV6_NETWORKS = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
#: ISATAP interface identifiers, whose last 32 bits are an IPv4 address, with any network prefix.
ISATAP_IDENTIFIERS = (0x00005EFE, 0x02005EFE)


@lru_cache(maxsize=4096)
def is_public_address(text: str) -> bool:
    """Whether `text`, an address as the system formats it, is public. A text that cannot be parsed is not."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return _is_public_ipv4(address) if isinstance(address, IPv4Address) else _is_public_ipv6(address)


def _is_public_ipv4(address: IPv4Address) -> bool:
    return not any(address in network for network in NON_PUBLIC_IPV4_NETWORKS)


def _is_public_ipv6(address: IPv6Address) -> bool:
    low = IPv4Address(int(address) & 0xFFFFFFFF)
    if any(address in network for network in IPV4_IN_IPV6_NETWORKS):
        return _is_public_ipv4(low)
    if (int(address) >> 32) & 0xFFFFFFFF in ISATAP_IDENTIFIERS and not _is_public_ipv4(low):
        return False
    return address in PUBLIC_IPV6_NETWORK and not any(address in network for network in NON_PUBLIC_IPV6_NETWORKS)


def is_loopback_host(host: str) -> bool:
    """Whether a server that listens on this host is reachable only from this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
