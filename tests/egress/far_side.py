"""What is around the client: a network that notes who was connected to, name servers with a script, a listener that
counts, and a web server.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from aiohttp import web

from common import egress

T = TypeVar("T")
PUBLIC, OTHER_PUBLIC = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"


class Wire(asyncio.SelectorEventLoop):
    """An event loop that notes each address connected to. What is not on this machine is out of reach, unless it has
    a route.
    """

    def __init__(self) -> None:
        super().__init__()
        self.connected: list[str] = []
        self.routes: dict[str, tuple[str, int]] = {}
        self.silent: set[str] = set()
        self.connects_then: Callable[[], None] = lambda: None

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        self.connected.append(address[0])
        if address[0] in self.silent:
            await asyncio.Event().wait()
        if address[0] not in ("127.0.0.1", "::1", *self.routes):
            raise ConnectionRefusedError(111, "Connection refused")
        await super().sock_connect(sock, self.routes.get(address[0], address))
        self.connects_then()


def run(main: Callable[[Wire], Coroutine[Any, Any, T]]) -> T:
    """Run `main` on a wire of its own, and end the client's session after it."""

    async def whole() -> T:
        try:
            return await main(wire)
        finally:
            await egress.close_session()

    wire = Wire()
    with asyncio.Runner(loop_factory=lambda: wire) as runner:
        return runner.run(whole())


class NameServers:
    """In place of `socket.getaddrinfo`: answers by name, one after the other; the last one stays."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []

    def __call__(self, host: str, port: int, family: int = 0, kind: int = 0, *rest: int) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        left = self.answers.get(host)
        if left is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [_info(address, port) for address in (left.pop(0) if len(left) > 1 else left[0])]


def _info(address: str, port: int) -> tuple[Any, ...]:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)


class Listener:
    """A port of 127.0.0.1, and of ::1, that counts who connects."""

    def __init__(self) -> None:
        first = socket.create_server(("127.0.0.1", 0))
        self.port = int(first.getsockname()[1])
        self.sockets = [first]
        # Where ::1 is missing or the port taken there, the wire's notes have to do.
        with suppress(OSError):
            self.sockets.append(socket.create_server(("::1", self.port), family=socket.AF_INET6))
        for one in self.sockets:
            one.setblocking(False)

    def count(self) -> int:
        """How many connected since the last count. The kernel completes a connection before anyone accepts it."""
        return sum(1 for one in self.sockets for _ in _waiting(one))

    def close(self) -> None:
        for one in self.sockets:
            one.close()


def _waiting(listening: socket.socket) -> Iterator[None]:
    while True:
        try:
            connection, _ = listening.accept()
        except BlockingIOError:
            return
        connection.close()
        yield


@asynccontextmanager
async def serving(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """A web server on 127.0.0.1; its port."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, handler_cancellation=True, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await egress.close_session()
        await runner.cleanup()
