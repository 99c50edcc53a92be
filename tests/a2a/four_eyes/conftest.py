"""A server with one tool whose calls wait for a person, and what the gateway runs in this process ended afterwards."""

import pytest

from tests.a2a.four_eyes.office import Office
from tests.mcp.conftest import _no_thread_outlives_a_test, server
from tests.mcp.peer import Peer
from tests.mcp.scene import scene

__all__ = ["_no_thread_outlives_a_test", "server"]


@pytest.fixture
def office(server: Peer) -> Office:
    return Office(scene(server.url, agents=[], requires_approval=True))
