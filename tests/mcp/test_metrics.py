"""How a server and a tool have done: counts of all calls, latency of the last hundred, what is under way now."""

import asyncio
from datetime import timedelta

import pytest

from common.db import clock
from mcp.gateway import call_statistics, pipeline
from mcp.models import Breaker, Call
from nhi.models import InvocationLog
from tests.mcp import logged
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, run, scene, until

pytestmark = [
    pytest.mark.capability("MCP-11"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def made(server: Peer) -> Scene:
    return scene(server.url, agents=["bot", "stranger"], without=["stranger"], breaker={"failure_threshold": 3})


def test_nothing_yet(made: Scene) -> None:
    found = call_statistics.load_server_statistics(made.server)
    assert found.handshake_latency_ms is not None
    assert found.handshake_latency_ms > 0
    assert (found.invocation_count, found.success_count, found.error_count, found.in_flight) == (0, 0, 0, 0)
    assert (found.last_invocation_time, found.average_latency_ms, found.p95_ms) == (None, None, None)


def test_real_calls_are_counted_by_what_came_of_them(made: Scene, server: Peer) -> None:
    for _ in range(3):
        made.call()
    made.call(agent="stranger")
    server.mode = "fail"
    made.call()
    for found in (
        call_statistics.load_server_statistics(made.server),
        call_statistics.load_tool_statistics(made.tool()),
    ):
        assert (found.invocation_count, found.success_count, found.error_count) == (5, 3, 1)
        last = InvocationLog.objects.filter(status="error").latest("timestamp", "id")
        assert found.last_invocation_time == last.timestamp
        durations = InvocationLog.objects.filter(duration__gt=0).values_list("duration", flat=True)
        assert found.average_latency_ms == pytest.approx(sum(durations) / 4, abs=0.001)
        assert found.p95_ms == pytest.approx(max(durations), abs=0.001)


def test_the_latency_is_of_the_last_hundred_that_were_made(made: Scene) -> None:
    now = clock.database_now()
    old = [logged.call(now - timedelta(minutes=2), duration=5000.0) for _ in range(50)]
    new = [logged.call(now - timedelta(seconds=number), duration=float(number + 1)) for number in range(100)]
    turned_away = [logged.call(now, "error", 0.0) for _ in range(30)]
    refused = [logged.call(now, "permission_denied", 0.0) for _ in range(30)]
    logged.write([*old, *new, *turned_away, *refused])
    found = call_statistics.load_server_statistics(made.server)
    assert (found.average_latency_ms, found.p95_ms) == (50.5, 95.0)
    assert found.invocation_count == 210
    assert found.error_count == 30
    assert found.last_invocation_time == new[0].timestamp


def test_a_breaker_that_turns_calls_away_makes_no_server_quick(made: Scene, server: Peer) -> None:
    logged.write([logged.call(clock.database_now(), duration=1000.0) for _ in range(10)])
    Breaker.objects.update(state="OPEN", last_state_change=clock.database_now())
    for _ in range(5):
        assert made.call().reason == "breaker_open"
    assert call_statistics.load_server_statistics(made.server).average_latency_ms == 1000.0


def test_servers_and_tools_of_like_names_are_kept_apart(made: Scene) -> None:
    now = clock.database_now()
    logged.write([logged.call(now), logged.call(now, server="peer2"), logged.call(now, tool="echo2")])
    assert call_statistics.load_server_statistics(made.server).invocation_count == 2
    assert call_statistics.load_tool_statistics(made.tool()).invocation_count == 1


def test_what_is_under_way_is_counted_while_it_is(made: Scene, server: Peer) -> None:
    server.hold()

    async def several() -> None:
        tasks = [asyncio.create_task(pipeline.call_tool(made.ask())) for _ in range(4)]
        await until(lambda: len(server.calls) == 4, "called")
        assert await asyncio.to_thread(in_flight, made) == 4
        server.let_go()
        await asyncio.gather(*tasks)

    run(several())
    assert in_flight(made) == 0
    assert not Call.objects.exists()


def in_flight(made: Scene) -> int:
    from django.db import connection

    try:
        return call_statistics.load_server_statistics(made.server).in_flight
    finally:
        connection.close()


def test_however_many_calls_it_takes_few_queries(made: Scene, django_assert_max_num_queries: object) -> None:
    logged.write([logged.call(clock.database_now(), duration=float(number)) for number in range(500)])
    server = made.server
    with django_assert_max_num_queries(7):  # type: ignore[operator]
        call_statistics.load_server_statistics(server)
