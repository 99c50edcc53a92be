"""What the gateway runs in this process is ended after each test, before its database is emptied."""

from collections.abc import Iterator

import pytest

from tests.mcp import peer
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, scene
from tests.services import gateway


@pytest.fixture(autouse=True)
def _no_thread_outlives_a_test() -> Iterator[None]:
    yield
    gateway.end()


@pytest.fixture
def server(settings: object) -> Iterator[Peer]:
    """A server with the tool `echo`, which may be called."""
    with peer.serving("echo") as one:
        settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{one.port}"})  # type: ignore[attr-defined]
        yield one


@pytest.fixture
def made(server: Peer) -> Scene:
    return scene(server.url)
