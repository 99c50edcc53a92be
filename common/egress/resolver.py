"""From names to addresses: asked once for each connection, and only answers that are public throughout are used.

One private address among public ones closes the whole name. Which one it was is never told: the answer would map a
network for whoever can type a URL.
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
#: Threads of their own: name servers that never answer hold up other names, at worst, and no other work.
MAX_THREADS = 16


class _ResolverThreads:
    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(MAX_THREADS, "names")
        # A fork copies the pool without its threads.
        os.register_at_fork(after_in_child=self._renew_after_fork)

    def _renew_after_fork(self) -> None:
        self.pool = ThreadPoolExecutor(MAX_THREADS, "names")


_threads = _ResolverThreads()


async def check_url(url: str) -> None:
    """Refuse what `problem` refuses, and a name that leads to an address that is not public.

    A name that cannot be resolved now is not refused: it has no address to judge, and the session judges it again.
    """
    if said := urls.find_url_problem(url):
        raise EgressBlocked(said)
    read = URL(url)
    host, port = read.raw_host or "", read.port or 0
    if not urls.is_numeric_host(host):
        with suppress(OSError):
            async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                await resolve_host(host, port)


async def resolve_host(host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[str]:
    """All addresses of a name, in the system's order, when each of them may be called."""
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(_threads.pool, _query_system_resolver, host, port, family)
    refuse_non_public(host, port, found)
    return found


def refuse_non_public(host: str, port: int, found: Sequence[str]) -> None:
    if not urls.is_allowlisted(host, port) and not all(map(addresses.is_public_address, found)):
        raise EgressBlocked(urls.find_non_public_problem(f"{host} leads to an address that is", host, port))


class GuardedResolver(AbstractResolver):
    """aiohttp's way to ask."""

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
        """The threads are every loop's."""


def _query_system_resolver(host: str, port: int, family: socket.AddressFamily) -> list[str]:
    answers = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in answers))
