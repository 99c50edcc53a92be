"""Whoever leaves before, during or twice during a call: it has one row, and no lease stays."""

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest
from django.db import connection

from mcp.gateway import pipeline
from mcp.gateway.batch import batch_transaction, result_writer
from nhi.models import InvocationLog
from tests.mcp.leases import made as made
from tests.mcp.leases import nothing_is_left, rows, warm_up
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, run, until

pytestmark = [
    pytest.mark.capability("AUD-03", "AUD-02", "MCP-08", "NHI-03"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


def count_of_rows() -> int:
    try:
        return InvocationLog.objects.count()
    finally:
        connection.close()


def test_who_leaves_before_the_desk_has_answered_leaves_no_lease(made: Scene, server: Peer, monkeypatch: Any) -> None:
    reached, go_on, reserve = threading.Event(), threading.Event(), batch_transaction.reserve_calls

    def slowly(wishes: Any) -> Any:
        reached.set()
        assert go_on.wait(10)
        return reserve(wishes)

    warm_up(made)
    monkeypatch.setattr(batch_transaction, "reserve_calls", slowly)

    async def leave() -> None:
        task = asyncio.create_task(pipeline.call_tool(made.ask()))
        await until(reached.is_set, "at the desk")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        go_on.set()
        await until(lambda: count_of_rows() == 2, "recorded")
        await until(nothing_is_left, "free again")

    run(leave())
    assert rows() == [("success", ""), ("error", "cancelled")]
    assert len(server.calls) == 1, "nothing was sent for it"


def test_who_leaves_while_waiting_in_line_is_not_decided_about(made: Scene, server: Peer, monkeypatch: Any) -> None:
    reached, go_on, reserve, asked = threading.Event(), threading.Event(), batch_transaction.reserve_calls, []

    def slowly(wishes: Any) -> Any:
        asked.append(len(wishes))
        reached.set()
        assert go_on.wait(10)
        return reserve(wishes)

    warm_up(made)
    monkeypatch.setattr(batch_transaction, "reserve_calls", slowly)

    async def leave() -> None:
        first = asyncio.create_task(pipeline.call_tool(made.ask()))
        await until(reached.is_set, "at the desk")
        others = [asyncio.create_task(pipeline.call_tool(made.ask())) for _ in range(3)]
        await asyncio.sleep(0)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        go_on.set()
        assert (await first).status == "success"

    run(leave())
    assert asked == [1]
    assert rows() == [("success", "")] * 2


def test_who_leaves_during_the_call_ends_it_at_the_server(made: Scene, server: Peer) -> None:
    server.hold()

    async def leave() -> None:
        task = asyncio.create_task(pipeline.call_tool(made.ask()))
        await until(lambda: len(server.calls) == 1, "called")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.cancelled == 1, "cancelled")

    run(leave())
    assert rows() == [("error", "cancelled")]
    assert nothing_is_left()


def test_who_leaves_twice_still_leaves_one_row(made: Scene, server: Peer, monkeypatch: Any) -> None:
    """Once during the call, once while its row is written."""
    server.hold()
    writing, go_on, record = threading.Event(), threading.Event(), result_writer.write_results

    def slowly(outcomes: Any) -> Any:
        writing.set()
        assert go_on.wait(10)
        return record(outcomes)

    monkeypatch.setattr(result_writer, "write_results", slowly)

    async def leave() -> None:
        task = asyncio.create_task(pipeline.call_tool(made.ask()))
        await until(lambda: len(server.calls) == 1, "called")
        task.cancel()
        await until(writing.is_set, "being written")
        task.cancel()
        await asyncio.wait([task])
        go_on.set()
        await until(lambda: count_of_rows() == 1, "recorded")
        await until(nothing_is_left, "free again")

    run(leave())
    assert rows() == [("error", "cancelled")]
