"""What a gateway costs at the least: take the bytes, pass them on, commit one row, pass the answer back.

FORWARD_TO=URL DATABASE_URL=... python -m uvicorn benchmarks.calls.forwarder:application   (or FORWARD_LOG=FILE)
"""

import os
import sqlite3
import uuid
from collections.abc import Awaitable, Callable
from typing import Protocol

import aiohttp
from psycopg_pool import AsyncConnectionPool

from benchmarks.calls.upstream import Receive, Scope, Send, answer, body

TABLE = "CREATE TABLE IF NOT EXISTS forwarded (id CHAR(32) PRIMARY KEY, at TIMESTAMP, agent TEXT, tool TEXT, bytes INT)"
ROW = ("bench-agent", "echo")
#: They go on as they came; everything else belongs to the connection.
KEPT = {b"content-type", b"accept", b"mcp-protocol-version", b"mcp-method", b"mcp-name"}


class Log(Protocol):
    async def open(self) -> None: ...
    async def write(self, size: int) -> None: ...


class PostgreSQL:
    """A few connections, each statement its own transaction."""

    def __init__(self, url: str) -> None:
        self.pool = AsyncConnectionPool(url, min_size=8, max_size=8, open=False, kwargs={"autocommit": True})

    async def open(self) -> None:
        await self.pool.open(wait=True)
        async with self.pool.connection() as connection:
            await connection.execute(TABLE)

    async def write(self, size: int) -> None:
        async with self.pool.connection() as connection:
            row = (uuid.uuid4().hex, *ROW, size)
            await connection.execute("INSERT INTO forwarded VALUES (%s, now(), %s, %s, %s)", row)


class SQLite:
    """In the loop's own thread: a commit costs less than the way to another thread and back."""

    def __init__(self, path: str) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)

    async def open(self) -> None:
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.connection.execute(TABLE)

    async def write(self, size: int) -> None:
        row = (uuid.uuid4().hex, *ROW, size)
        self.connection.execute("INSERT INTO forwarded VALUES (?, CURRENT_TIMESTAMP, ?, ?, ?)", row)


class Forwarder:
    client: aiohttp.ClientSession

    def __init__(self, url: str, log: Log) -> None:
        self.url, self.log = url, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.live(receive, send)
            return
        content = await body(receive)
        headers = {name.decode(): value.decode() for name, value in scope["headers"] if name in KEPT}
        async with self.client.post(self.url, data=content, headers=headers) as reply:
            said = await reply.read()
        await self.log.write(len(said))
        await answer(send, said, reply.status)

    async def live(self, receive: Callable[[], Awaitable[object]], send: Send) -> None:
        await receive()
        await self.log.open()
        connector = aiohttp.TCPConnector(limit=0)
        self.client = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.client.close()
        await send({"type": "lifespan.shutdown.complete"})


def log() -> Log:
    url = os.environ.get("DATABASE_URL", "")
    return PostgreSQL(url) if url else SQLite(os.environ["FORWARD_LOG"])


application = Forwarder(os.environ["FORWARD_TO"], log())
