"""Resolves host names and refuses non-public addresses.

A name is resolved once per connection. One private address among public ones blocks the whole name. Error messages
never contain the address: otherwise anybody who can enter a URL could map the network.
"""

import asyncio
import os
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from common.egress import addresses, urls
from common.egress.urls import EgressBlocked

CHECK_TIMEOUT_SECONDS = 5
#: Separate threads: name servers that never answer can delay other names, but no other work.
MAX_THREADS = 16


class _ResolverThreads:
    """The thread pool for name lookups. A forked child gets a new pool."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(MAX_THREADS, "names")
        # A forked child inherits the pool without its threads.
        os.register_at_fork(after_in_child=self._renew_after_fork)

    def _renew_after_fork(self) -> None:
        self.pool = ThreadPoolExecutor(MAX_THREADS, "names")


_threads = _ResolverThreads()


async def check_url(url: str) -> None:
    """Refuse a URL that `find_url_problem` refuses, and a host name with an address that is not public.

    A name that cannot be resolved now is accepted: it has no address to check, and the session checks it again.
    """
    if problem := urls.find_url_problem(url):
        raise EgressBlocked(problem)
    parsed_url = URL(url)
    host, port = parsed_url.raw_host or "", parsed_url.port or 0
    if not urls.is_numeric_host(host):
        with suppress(OSError):
            async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                await resolve_host(host, port)


async def resolve_host(host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[str]:
    """Resolve a name to all its addresses, in the system's order. Raises EgressBlocked if one must not be called."""
    loop = asyncio.get_running_loop()
    ip_addresses = await loop.run_in_executor(_threads.pool, _query_system_resolver, host, port, family)
    refuse_non_public(host, port, ip_addresses)
    return ip_addresses


def refuse_non_public(host: str, port: int, ip_addresses: Sequence[str]) -> None:
    if not urls.is_allowlisted(host, port) and not all(map(addresses.is_public_address, ip_addresses)):
        raise EgressBlocked(urls.find_non_public_problem(f"{host} leads to an address that is", host, port))


class GuardedResolver(AbstractResolver):
    """aiohttp's resolver for outgoing requests. It refuses names with an address that is not public or allowlisted."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in await resolve_host(host, port, family)
        ]

    async def close(self) -> None:
        """Nothing to close: all event loops share the threads."""


def _query_system_resolver(host: str, port: int, family: socket.AddressFamily) -> list[str]:
    answers = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in answers))
