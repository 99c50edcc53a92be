"""Which addresses belong to the public internet. The list is our own: `ipaddress.is_private` of any version misses
some of these, and a patch of the interpreter must not change what Gatehouse calls.
"""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

NON_PUBLIC_IPV4_NETWORKS = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier NAT; some clouds keep their metadata here
            "127.0.0.0/8",
            "168.63.129.16/32",  # a cloud's own service to its machines, on an address that looks public
            "169.254.0.0/16",  # link-local, and the metadata of most clouds
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
#: Of IPv6 only the part given out so far is public; the rest (::, ::1, ULA, link- and site-local, multicast,
#: IPv4-compatible, local NAT64 and what is not yet assigned) never was.
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
#: Their last 32 bits are the IPv4 address that is really called.
IPV4_IN_IPV6_NETWORKS = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
#: The same in an ISATAP interface identifier, below any prefix.
ISATAP_IDENTIFIERS = (0x00005EFE, 0x02005EFE)


@lru_cache(maxsize=4096)
def is_public_address(text: str) -> bool:
    """Whether `text`, an address as the system prints it, may be called. What cannot be read may not."""
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
    """Whether only this machine reaches a server that listens there."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
