"""Calls under limits, the rows that they leave, and whether anything is held still."""

import pytest
from django.db import connection

from mcp.gateway.batch.worker import batch_worker
from mcp.models import Call, CallSlot
from nhi.models import InvocationLog
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, scene

LIMITS = [["agent", "bot", {"concurrency_limit": 5, "daily_quota": 100}]]


@pytest.fixture
def made(server: Peer) -> Scene:
    return scene(server.url, budgets=LIMITS)


def rows() -> list[tuple[str, str]]:
    return list(InvocationLog.objects.order_by("timestamp", "id").values_list("status", "reason"))


def nothing_is_left() -> bool:
    try:
        return not (Call.objects.exists() or CallSlot.objects.exists() or batch_worker.active_calls)
    finally:
        connection.close()


def warm_up(made: Scene) -> None:
    """So that no question about schemas comes in between."""
    assert made.call().status == "success"
