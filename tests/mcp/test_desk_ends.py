"""The desk ends with its process: whatever was brought before that has its row, also what came of it last."""

import time
from concurrent.futures import Future
from typing import Any

import pytest

from mcp.gateway import arguments
from mcp.gateway.batch.worker import batch_worker
from mcp.models import Call
from nhi.models import InvocationLog
from tests.mcp.peer import Peer
from tests.mcp.scene import scene

pytestmark = [pytest.mark.capability("AUD-03"), pytest.mark.django_db(transaction=True)]


def test_a_call_that_is_given_up_while_the_desk_ends_has_its_row(server: Peer) -> None:
    town = scene(server.url)
    town.call()
    wish = town.ask()
    known = arguments.check_remembered_schemas(wish)

    def given_up(future: "Future[Any]") -> None:
        # By now the desk has been told to end.
        time.sleep(0.3)
        batch_worker._record_abandoned_call(future)

    batch_worker.decide(wish, known).add_done_callback(given_up)
    batch_worker.stop()
    row = InvocationLog.objects.get(pk=wish.call_id)
    assert (row.status, row.reason) == ("error", "cancelled")
    assert not Call.objects.exists()
