"""What the gateway runs in this process is ended after each test, before its database is emptied."""

from collections.abc import Iterator

import pytest

from common import egress
from mcp import threads, upstream
from mcp.clerk.desk import desk
from tests.mcp import peer
from tests.mcp.peer import Peer


@pytest.fixture(autouse=True)
def _no_thread_outlives_a_test() -> Iterator[None]:
    yield
    desk.stop()
    desk.restart()
    threads.loop.stop(_let_go)


async def _let_go() -> None:
    await upstream.close_all()
    await egress.close()


@pytest.fixture
def server(settings: object) -> Iterator[Peer]:
    """A server with the tool `echo`, which may be called."""
    with peer.serving("echo") as one:
        settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{one.port}"})  # type: ignore[attr-defined]
        yield one
