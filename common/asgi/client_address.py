"""The client's address behind trusted proxies."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from django.conf import settings

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Loopback and private ranges. Proxies at these addresses are trusted unless the installation sets its own networks.
DEFAULT_TRUSTED_NETWORKS: tuple[str, ...] = (
    "127.0.0.0/8",
    "::1/128",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "fc00::/7",
)


def find_source(scope: Mapping[str, Any], forwarded_for: str) -> str:
    """Return the client address of an ASGI request."""
    client = scope.get("client")
    peer = client[0] if client else ""
    return find_client_address(peer=peer, forwarded_for=forwarded_for, proxy_count=settings.TRUSTED_PROXIES)


def find_client_address(*, peer: str, forwarded_for: str, proxy_count: int) -> str:
    """The client's address; an empty string for a Unix socket, and for an invalid address in the header.

    Each proxy appends the address of its peer to `X-Forwarded-For`, so the header is read from the right. An entry
    counts while the address that wrote it is a trusted proxy, and at most `proxy_count` entries count. Entries written
    by the client itself are to the left of these.
    """
    address = _parse_address(peer)
    hops = [hop.strip() for hop in forwarded_for.split(",") if hop.strip()] if proxy_count else []
    is_trusted = is_trusted_proxy(peer)
    for hop in hops[: -proxy_count - 1 : -1]:
        if not is_trusted:
            break
        address = _parse_address(hop)
        if address is None:
            break
        is_trusted = _is_in_networks(address)
    return "" if address is None else str(address)


def is_trusted_proxy(peer: str) -> bool:
    """Whether the peer may be a trusted proxy. An empty peer is a Unix socket, which is protected by its file mode."""
    address = _parse_address(peer)
    return not peer if address is None else _is_in_networks(address)


def _is_in_networks(address: IpAddress) -> bool:
    unmapped_address = getattr(address, "ipv4_mapped", None) or address
    networks: tuple[IpNetwork, ...] = settings.TRUSTED_PROXY_NETWORKS
    return any(unmapped_address in network for network in networks)


def _parse_address(text: str) -> IpAddress | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
