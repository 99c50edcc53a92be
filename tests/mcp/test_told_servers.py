"""A server's status learns from calls, and whoever holds the server's row meanwhile holds up no call."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection, transaction

from mcp.models import Breaker, Server
from nhi.models import InvocationLog
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, scene

pytestmark = [
    pytest.mark.capability("MCP-09", "MCP-03"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def made(server: Peer) -> Scene:
    return scene(server.url, timeout=0.3, agents=["bot", "other"])


@contextmanager
def somebody_holds_the_row(made: Scene) -> Iterator[None]:
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Server.objects.select_for_update().get(name=made.name)
            held.set()
            let_go.wait(30)
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(10)
        yield
    finally:
        let_go.set()
        thread.join()


def wait_for(status: str, made: Scene) -> None:
    deadline = time.monotonic() + 10
    while made.server.status != status:
        assert time.monotonic() < deadline, made.server.status
        time.sleep(0.02)


def test_faults_and_successes_move_the_status(made: Scene, server: Peer) -> None:
    server.hold()
    assert [made.call().reason for _ in range(2)] == ["timeout", "timeout"]
    assert (made.server.status, made.server.faults) == ("Degraded", 2)
    server.let_go()
    server.mode = "echo"
    assert made.call().status == "success"
    assert (made.server.status, made.server.faults) == ("Ready", 0)


@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="Whoever writes there writes alone")
def test_a_row_that_is_held_holds_up_no_answer(made: Scene, server: Peer) -> None:
    server.hold()
    with somebody_holds_the_row(made):
        assert [made.call().reason for _ in range(3)] == ["timeout"] * 3
        assert InvocationLog.objects.filter(reason="timeout").count() == 3
        assert Breaker.objects.for_all().get().failure_count == 3, "the breaker knows at once"
        assert made.server.faults == 0
    assert [made.call(agent="other").reason for _ in range(2)] == ["timeout"] * 2, "two identities, five faults"
    wait_for("Offline", made)
    server.let_go()
