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

SECONDS_TO_CHECK = 5
#: Threads of their own: name servers that never answer hold up other names, at worst, and no other work.
THREADS = 16


class _Threads:
    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(THREADS, "names")
        # A fork copies the pool without its threads.
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self.pool = ThreadPoolExecutor(THREADS, "names")


_threads = _Threads()


async def check(url: str) -> None:
    """Refuse what `problem` refuses, and a name that leads to an address that is not public.

    A name that cannot be resolved now is not refused: it has no address to judge, and the session judges it again.
    """
    if said := urls.problem(url):
        raise EgressBlocked(said)
    read = URL(url)
    host, port = read.raw_host or "", read.port or 0
    if not urls.is_address(host):
        with suppress(OSError):
            async with asyncio.timeout(SECONDS_TO_CHECK):
                await resolve(host, port)


async def resolve(host: str, port: int, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[str]:
    """All addresses of a name, in the system's order, when each of them may be called."""
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(_threads.pool, _ask, host, port, family)
    refuse_private(host, port, found)
    return found


def refuse_private(host: str, port: int, found: Sequence[str]) -> None:
    if not urls.is_allowed(host, port) and not all(map(addresses.is_public, found)):
        raise EgressBlocked(urls.not_public(f"{host} leads to an address that is", host, port))


class Resolver(AbstractResolver):
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
            for address in await resolve(host, port, family)
        ]

    async def close(self) -> None:
        """The threads are every loop's."""


def _ask(host: str, port: int, family: socket.AddressFamily) -> list[str]:
    answers = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in answers))
