"""Budgets over four web processes: as many calls as the limit says, to the call, and refused ones cost nothing."""

from collections import Counter

import pytest

from tests.mcp.load.callers import by_answer
from tests.mcp.load.conftest import Place

pytestmark = [
    pytest.mark.capability("MCP-08", "NHI-06", "AUD-02", "MCP-07"),
    pytest.mark.both_databases,
    pytest.mark.xdist_group("house"),
]


def test_a_quota_of_a_hundred_admits_exactly_a_hundred(place: Place) -> None:
    town = place.town(budgets=[["agent", "bot", {"daily_quota": 100}]])
    replies = town.many(160, clients=32)
    assert by_answer(replies) == Counter({"200": 100, "429 quota_exceeded": 60})
    assert len(town.peer.calls) == 100
    assert set(town.peer.call_ids.values()) == {1}
    assert all(int(reply.headers["retry-after"]) >= 1 for reply in replies if reply.status == 429)
    left = {int(reply.headers["ratelimit-remaining"]) for reply in replies if reply.status == 200}
    assert left == set(range(100)), "each allowed call leaves another number"


def test_the_log_has_a_row_for_each_call(place: Place) -> None:
    town = place.town(budgets=[["server", "", {"daily_quota": 20}]])
    replies = town.many(50)
    rows = town.rows(tool_name=town.made["name"])
    assert len(rows) == 50
    assert {row["id"] for row in rows} == {reply.call_id for reply in replies}
    assert Counter(row["status"] for row in rows) == Counter({"rate_limited": 30, "success": 20})


def test_a_grants_own_limit_counts_by_the_hour(place: Place) -> None:
    town = place.town(limits={"max_calls_per_hour": 10})
    assert by_answer(town.many(24)) == Counter({"200": 10, "429 quota_exceeded": 14})
    # The other tool is another grant, with ten of its own.
    assert by_answer(town.many(12, "other")) == Counter({"200": 10, "429 quota_exceeded": 2})


def test_concurrency_refuses_and_never_queues(place: Place) -> None:
    town = place.town(budgets=[["tool", "echo", {"concurrency_limit": 3}]])
    town.peer.hold()
    replies = []

    def let_go_when_all_others_are_refused() -> None:
        replies.extend(town.many(16, clients=16))

    import threading
    import time

    thread = threading.Thread(target=let_go_when_all_others_are_refused)
    thread.start()
    deadline = time.monotonic() + 30
    while len(town.peer.calls) < 3 or len(town.rows(tool_name=town.made["name"])) < 13:
        assert time.monotonic() < deadline, (len(town.peer.calls), by_answer(replies))
        time.sleep(0.05)
    town.peer.let_go()
    thread.join(30)
    assert by_answer(replies) == Counter({"200": 3, "429 concurrency_exceeded": 13})
    assert town.peer.most_at_once == 3
    # The slots are free again.
    town.peer.mode = "echo"
    assert town.call().status == 200


def test_crossed_budgets_neither_deadlock_nor_pass_too_much(place: Place) -> None:
    """Two agents and two tools whose budgets lie across each other, asked at all processes in turn."""
    from tests.mcp.load import callers

    limits = {"daily_quota": 60}
    town = place.town(
        agents=["one", "two"],
        budgets=[
            ["server", "", {"daily_quota": 100}],
            ["tool", "echo", limits], ["tool", "other", limits],
            ["agent", "one", limits], ["agent", "two", limits],
            ["grant", "one echo", {"daily_quota": 40}], ["grant", "two other", {"daily_quota": 40}],
        ],
    )  # fmt: skip
    ways = [("one", "echo"), ("one", "other"), ("two", "other"), ("two", "echo")]

    def ask(port: int, link: object, number: int) -> callers.Reply:
        agent, tool = ways[number % 4]
        return callers.call(port, town.made["tokens"][agent], f"{town.made['name']}__{tool}", {"n": number}, link=link)

    replies = callers.at_once(town.ports, 240, ask, clients=16)
    assert by_answer(replies) == Counter({"200": 100, "429 quota_exceeded": 140})
    assert len(town.peer.calls) == 100
    by_tool = Counter(call["params"]["name"] for call in town.peer.calls)
    assert max(by_tool.values()) <= 60


def test_a_rate_lets_a_burst_through_and_then_its_pace(place: Place) -> None:
    town = place.town(budgets=[["agent", "bot", {"requests_per_second": 0.01, "burst_size": 5}]])
    replies = town.many(20)
    assert by_answer(replies) == Counter({"200": 5, "429 rate_exceeded": 15})
    waits = [int(reply.headers["retry-after"]) for reply in replies if reply.status == 429]
    assert all(90 <= wait <= 101 for wait in waits)
