"""Guarded gRPC channels: host names are resolved here, and only checked addresses are connected to.

The package does not import this module: the gRPC library is large, and few processes need it.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import grpc
from django.conf import settings
from yarl import URL

from common.egress import resolver, urls
from common.egress.urls import EgressBlocked

CONNECT_TIMEOUT_SECONDS = 10
MAX_METADATA_BYTES = 64 << 10
#: No proxy from the environment, no service configuration from DNS, and no automatic retries.
BASE_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.enable_retries", 0),
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
]


@asynccontextmanager
async def open_channel(url: str, *, max_message_bytes: int) -> AsyncIterator[grpc.aio.Channel]:
    """Open a channel to the host and port of `url`, with TLS if its scheme is `https`.

    Received messages have at most `max_message_bytes` bytes.

    Raises EgressBlocked, TimeoutError, or OSError if the connection fails.
    """
    if problem := urls.find_url_problem(url):
        raise EgressBlocked(problem)
    parsed_url = URL(url)
    host, port = parsed_url.raw_host or "", parsed_url.port or 0
    async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
        targets = _address_targets(await resolver.resolve_host(host, port), port)
        user_agent: tuple[str, int | str] = ("grpc.primary_user_agent", f"Gatehouse/{settings.VERSION}")
        options = [
            *BASE_OPTIONS,
            user_agent,
            ("grpc.max_receive_message_length", max_message_bytes),
            *_host_options(host, port),
        ]
        channel = await _open_first_reachable(targets, options, secure=parsed_url.scheme == "https")
    try:
        yield channel
    finally:
        await channel.close(None)


async def _open_first_reachable(
    targets: list[str], options: list[tuple[str, int | str]], *, secure: bool
) -> grpc.aio.Channel:
    """Connect to the first target that answers."""
    for target in targets:
        channel = _create_channel(target, options, secure=secure)
        try:
            await _wait_until_ready(channel)
        except BaseException as error:
            await channel.close(None)
            if not isinstance(error, ConnectionError) or target == targets[-1]:
                raise
        else:
            return channel
    raise ConnectionRefusedError("The name has no address.")


def _create_channel(target: str, options: list[tuple[str, int | str]], *, secure: bool) -> grpc.aio.Channel:
    if not secure:
        return grpc.aio.insecure_channel(target, options=options)
    return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(_read_root_certificates()), options=options)


def _host_options(host: str, port: int) -> list[tuple[str, int | str]]:
    """The host for the request and for the certificate check: the targets hold only addresses."""
    bracketed = f"[{host}]" if ":" in host else host
    return [("grpc.default_authority", f"{bracketed}:{port}"), ("grpc.ssl_target_name_override", host)]


def _address_targets(addresses: list[str], port: int) -> list[str]:
    """One target per address family: a channel accepts addresses of one family only."""
    ipv4_endpoints = [f"{address}:{port}" for address in addresses if ":" not in address]
    ipv6_endpoints = [f"[{address}]:{port}" for address in addresses if ":" in address]
    return [
        f"{family}:{','.join(endpoints)}"
        for family, endpoints in (("ipv4", ipv4_endpoints), ("ipv6", ipv6_endpoints))
        if endpoints
    ]


async def _wait_until_ready(channel: grpc.aio.Channel) -> None:
    """Wait for the connection; fail at the first error, because the caller decides about retries."""
    state = channel.get_state(try_to_connect=True)
    while state != grpc.ChannelConnectivity.READY:
        if state == grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            raise ConnectionRefusedError("Nothing answers, or not by a certificate that is trusted.")
        await channel.wait_for_state_change(state)
        state = channel.get_state(try_to_connect=True)


@cache
def _read_root_certificates() -> bytes | None:
    """The system's root certificates, as the rest of Gatehouse trusts them; None selects those of the gRPC library."""
    verify_paths = ssl.get_default_verify_paths()
    files = [verify_paths.cafile, verify_paths.capath and f"{verify_paths.capath}/ca-certificates.crt"]
    certificate_file = next((Path(file) for file in files if file and Path(file).is_file()), None)
    return certificate_file.read_bytes() if certificate_file else None
