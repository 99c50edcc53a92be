"""Where a request comes from: the peer of the connection, or the address that a trusted proxy saw."""

import ipaddress

from django.conf import settings

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Loopback and the private ranges: from these addresses a proxy is believed unless the installation names its own.
DEFAULT_TRUSTED_NETWORKS: tuple[str, ...] = (
    "127.0.0.0/8",
    "::1/128",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "fc00::/7",
)


def find_client_address(*, peer: str, forwarded_for: str, proxies: int) -> str:
    """The caller's address; an empty text for a Unix socket, and for an address that a proxy garbled.

    Each proxy appends the address of its own peer to `X-Forwarded-For`. So the header is read from its right end: an
    entry counts while the address that wrote it is a trusted proxy's, and at most `proxies` entries count. What a
    caller wrote itself stands left of these.
    """
    address = _parse_address(peer)
    hops = [hop.strip() for hop in forwarded_for.split(",") if hop.strip()] if proxies else []
    believed = is_trusted_proxy(peer)
    for hop in hops[: -proxies - 1 : -1]:
        if not believed:
            break
        address = _parse_address(hop)
        if address is None:
            break
        believed = _is_in_networks(address)
    return "" if address is None else str(address)


def is_trusted_proxy(peer: str) -> bool:
    """Whether the peer may be a proxy of ours. Whoever connects by a Unix socket was let in by its file's mode."""
    address = _parse_address(peer)
    return not peer if address is None else _is_in_networks(address)


def _is_in_networks(address: IpAddress) -> bool:
    plain = getattr(address, "ipv4_mapped", None) or address
    networks: tuple[IpNetwork, ...] = settings.TRUSTED_PROXY_NETWORKS
    return any(plain in network for network in networks)


def _parse_address(text: str) -> IpAddress | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
