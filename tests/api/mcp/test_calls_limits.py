"""Calls over REST within limits: budgets, concurrency, breakers and time, and what is measured of them."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from mcp.gateway.batch.fair_queue import QueueLimits
from mcp.gateway.batch.worker import batch_worker
from mcp.models import Breaker, Call
from tests.api.callers import Caller, Reply
from tests.api.conftest import Stage
from tests.api.mcp.conftest import added, approved, call, row, tool_of
from tests.mcp.peer import Peer
from tests.services.waiting import wait_for

pytestmark = [
    pytest.mark.capability("MCP-07"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("clerk"),
]


@pytest.mark.capability("MCP-08")
def test_a_budget_is_told_and_then_refuses(held: Stage) -> None:
    made = held.admin.post("mcp/budgets", {"scope": "agent", "target_id": str(held.bot.pk), "calls_per_hour": 2}).body
    first = call(held.agent)
    assert (first.headers["RateLimit-Remaining"], int(first.headers["RateLimit-Reset"]) >= 1) == ("1", True)
    assert call(held.agent).headers["RateLimit-Remaining"] == "0"
    over = call(held.agent)
    assert over.is_refused(429, "RateLimitExceeded", "quota_exceeded")
    assert int(over.headers["Retry-After"]) >= 1
    assert over.headers["RateLimit-Remaining"] == "0"
    assert (row(over).status, row(over).reason) == ("rate_limited", "quota_exceeded")
    used = held.admin.get(f"mcp/budgets/{made['id']}").body["used"]
    assert (used["hour"], used["day"], used["in_flight"]) == (2, 2, 0)


@pytest.mark.capability("MCP-08")
def test_concurrency_refuses_and_never_queues(held: Stage, peer: Peer) -> None:
    given = {"scope": "server", "target_id": str(tool_of().server_id), "concurrency_limit": 1}
    budget = f"mcp/budgets/{held.admin.post('mcp/budgets', given).body['id']}"
    peer.hold()
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(_from_a_thread, held.agent)
        wait_for(lambda: len(peer.calls) == 1, 10, "called")
        assert held.admin.get(budget).body["used"]["in_flight"] == 1
        second = call(held.agent)
        assert second.is_refused(429, "RateLimitExceeded", "concurrency_exceeded")
        assert int(second.headers["Retry-After"]) >= 1
        peer.let_go()
        assert under_way.result(10).status == 200
    assert held.admin.get(budget).body["used"]["in_flight"] == 0


def test_a_full_queue_is_said_so(held: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        batch_worker._items,
        "_limits",
        QueueLimits(total=0, per_caller=1000, batch=200, per_caller_in_batch=4, contention_seconds=1),
    )
    full = call(held.agent)
    assert full.is_refused(503, "ExecutionFailed", "queue_full")
    assert int(full.headers["Retry-After"]) >= 1


def test_a_caller_whose_share_is_used_up_is_told_so(held: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        batch_worker._items,
        "_limits",
        QueueLimits(total=4000, per_caller=0, batch=200, per_caller_in_batch=4, contention_seconds=1),
    )
    shed = call(held.agent)
    assert shed.is_refused(503, "ExecutionFailed", "overloaded")
    assert int(shed.headers["Retry-After"]) >= 1


@pytest.mark.capability("MCP-08", "NHI-14")
def test_limits_of_a_grant_hold(open_stage: Stage, peer: Peer) -> None:
    added(open_stage, peer)
    approved(open_stage)
    given = {"agent_id": str(open_stage.bot.pk), "tool_id": str(tool_of().pk), "reason": "x", "max_calls_per_hour": 1}
    assert open_stage.admin.post("permissions/tools", given).status == 201
    assert call(open_stage.agent).status == 200
    assert call(open_stage.agent).is_refused(429, "RateLimitExceeded", "quota_exceeded")
    own = open_stage.admin.get("mcp/budgets", scope="grant").body["budgets"]
    assert [one["used"]["hour"] for one in own] == [1]


@pytest.mark.capability("MCP-09")
def test_a_server_that_fails_is_left_alone(held: Stage, peer: Peer) -> None:
    Breaker.objects.update(failure_threshold=2)
    peer.mode = "error"
    for _ in range(2):
        broken = call(held.agent)
        assert broken.is_refused(502, "ExecutionFailed", "upstream")
        assert (row(broken).status, row(broken).reason) == ("error", "upstream")
    arrived = len(peer.calls)
    shut = call(held.agent)
    assert shut.is_refused(503, "ExecutionFailed", "breaker_open")
    assert int(shut.headers["Retry-After"]) >= 1
    assert (row(shut).status, row(shut).reason) == ("error", "breaker_open")
    assert len(peer.calls) == arrived
    assert held.admin.get("mcp/breakers").body["breakers"][0]["state"] == "OPEN"
    peer.mode = "echo"
    assert held.admin.post("mcp/breakers/peer/reset", {"reason": "Mended"}).status == 200
    assert call(held.agent).status == 200


def test_a_call_that_takes_too_long(held: Stage, peer: Peer) -> None:
    held.admin.post("mcp/budgets", {"scope": "tool", "target_id": str(tool_of().pk), "timeout": "0.3s"})
    peer.hold()
    late = call(held.agent)
    assert late.is_refused(504, "Timeout", "timeout")
    assert (row(late).status, row(late).reason) == ("error", "timeout")
    peer.let_go()


@pytest.mark.capability("MCP-11")
def test_metrics_and_flights_are_shown(held: Stage, peer: Peer) -> None:
    server = f"mcp/servers/{tool_of().server_id}"
    call(held.agent)
    peer.hold()
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(_from_a_thread, held.agent)
        wait_for(lambda: len(peer.calls) == 2, 10, "called")
        flight = Call.objects.get()
        assert held.admin.get(server).body["metrics"]["in_flight"] == 1
        said = held.agent.get(f"mcp/calls/{flight.pk}").body
        assert (said["status"], said["reason"], said["tool"]) == ("pending", "in_flight", "peer__echo")
        peer.let_go()
        assert under_way.result(10).status == 200
    assert held.agent.get(f"mcp/calls/{flight.pk}").body["status"] == "done"
    peer.mode = "fail"
    call(held.agent)
    metrics = held.admin.get(server).body["metrics"]
    counts = {name: metrics[name] for name in ("invocation_count", "success_count", "error_count", "in_flight")}
    assert counts == {"invocation_count": 3, "success_count": 2, "error_count": 1, "in_flight": 0}
    assert metrics["average_latency_ms"] > 0
    assert metrics["p95_ms"] >= metrics["average_latency_ms"]
    assert metrics["last_invocation_time"].endswith("Z")


def _from_a_thread(caller: Caller) -> Reply:
    try:
        return call(Caller(caller.token))
    finally:
        connection.close()
