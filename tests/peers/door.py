"""A door on the loopback that adds a bearer token to what passes, for clients that cannot send one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, web
from yarl import URL

#: They belong to one connection, and each side of the door has its own.
OWN = {"connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer", "content-length"}


@asynccontextmanager
async def door(url: str, token: str) -> AsyncIterator[str]:
    """The URL to use instead of `url`; Host and Origin pass unchanged but for the port that the client dialled."""
    target = URL(url)
    async with ClientSession(
        cookie_jar=DummyCookieJar(), timeout=ClientTimeout(total=None), auto_decompress=False
    ) as session:

        async def passed(request: web.Request) -> web.StreamResponse:
            headers = [(name, value) for name, value in request.headers.items() if name.lower() not in OWN]
            headers.append(("Authorization", f"Bearer {token}"))
            where = target.origin().join(request.rel_url)
            body = await request.read()
            async with session.request(
                request.method, where, headers=headers, data=body or None, allow_redirects=False
            ) as reply:
                return await answered(request, reply.status, reply.raw_headers, reply.content.iter_any())

        runner = web.AppRunner(application(passed), handler_cancellation=True, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            port = runner.addresses[0][1]
            yield str(target.with_port(port))
        finally:
            await runner.cleanup()


def application(passed: object) -> web.Application:
    made = web.Application(client_max_size=64 * 2**20)
    made.router.add_route("*", "/{rest:.*}", passed)  # type: ignore[arg-type]
    return made


async def answered(
    request: web.Request, status: int, raw: tuple[tuple[bytes, bytes], ...], chunks: AsyncIterator[bytes]
) -> web.StreamResponse:
    reply = web.StreamResponse(status=status)
    for name, value in raw:
        if name.decode().lower() not in OWN:
            reply.headers.add(name.decode(), value.decode("latin-1"))
    await reply.prepare(request)
    async for chunk in chunks:
        await reply.write(chunk)
    await reply.write_eof()
    return reply
