"""Callers share the queue of calls: each has its share of the places, and they are served in turn."""

import threading

import pytest

from mcp.gateway.batch.fair_queue import CallerKeys, FairQueue, QueueLimits
from nhi.credentials import tokens

pytestmark = [pytest.mark.capability("MCP-09")]
LIMITS = QueueLimits(total=40, per_caller=20, batch=10, per_caller_in_batch=4, contention_seconds=3600)


def filled(*items: tuple[str, int]) -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue(LIMITS)
    for caller, count in items:
        for number in range(count):
            assert queue.put(caller, f"{caller}{number}")
    return queue


def test_a_caller_that_comes_behind_a_flood_is_in_the_next_batch() -> None:
    queue = filled(("a", 20), ("b", 1))
    assert queue.take_batch(0).items == ["a0", "b0", "a1", "a2", "a3"]
    assert queue.take_batch(0).items == ["a4", "a5", "a6", "a7"]


def test_callers_take_turns_and_none_fills_a_batch() -> None:
    queue = filled(("a", 20), ("b", 5), ("c", 5))
    assert queue.take_batch(0).items == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2", "a3"]
    assert queue.take_batch(0).items == ["b3", "c3", "a4", "b4", "c4", "a5", "a6", "a7"]


def test_the_only_caller_fills_a_batch() -> None:
    queue = filled(("a", 20))
    assert queue.take_batch(0).items == [f"a{number}" for number in range(10)]


def test_items_of_one_caller_stay_in_order() -> None:
    queue, served = filled(("a", 20)), list[str]()
    while batch := queue.take_batch(0).items:
        served += batch
    assert served == [f"a{number}" for number in range(20)]


def test_a_share_is_all_that_one_caller_may_fill() -> None:
    queue = filled(("a", 20))
    assert not queue.put("a", "more")
    assert not queue.is_full()
    assert queue.put("b", "b0")
    queue.take_batch(0)
    assert queue.put("a", "again"), "what was served makes room"


def test_no_more_wait_than_places() -> None:
    queue = filled(("a", 20), ("b", 20))
    assert queue.is_full()
    assert not queue.put("c", "c0")


def test_what_has_no_caller_is_first_and_never_refused() -> None:
    queue = filled(("a", 20), ("b", 20))
    queue.put_first("outcome")
    assert queue.take_batch(0).items[0] == "outcome"


def test_whoever_closes_it_ends_the_taker_once_all_is_served() -> None:
    queue = filled(("a", 12))
    queue.close()
    first = queue.take_batch(0)
    assert (len(first.items), first.closed, queue.is_empty()) == (10, True, False)
    assert len(queue.take_batch(0).items) == 2
    assert queue.is_empty()


def test_a_taker_that_waits_is_woken() -> None:
    queue, taken = filled(), list[str]()
    taker = threading.Thread(target=lambda: taken.extend(queue.take_batch(30).items))
    taker.start()
    queue.put("a", "a0")
    taker.join(10)
    assert taken == ["a0"]


def test_many_that_put_at_once_lose_nothing() -> None:
    queue: FairQueue[str] = FairQueue(
        QueueLimits(total=4000, per_caller=1000, batch=200, per_caller_in_batch=4, contention_seconds=1)
    )
    putters = [
        threading.Thread(target=lambda who=who: [queue.put(who, f"{who}{number}") for number in range(500)])
        for who in "abcdef"
    ]
    for putter in putters:
        putter.start()
    served: list[str] = []
    while len(served) < 3000:
        served += queue.take_batch(10).items
    for putter in putters:
        putter.join()
    assert len(set(served)) == 3000
    assert all(queue.put(who, "again") for who in "abcdef")


def test_nobody_fills_the_share_of_another_by_its_public_id() -> None:
    """A public id is no secret. What was never seen to pass counts by where it comes from."""
    callers = CallerKeys()
    made = tokens.make_credential_token("agt")
    genuine = tokens.parse(made.token)
    body = f"nhi_agt_{made.public_id}_{'0' * tokens.SECRET_LENGTH}"
    forged = tokens.parse(body + tokens.checksum(body))
    assert isinstance(genuine, tokens.ParsedCredentialToken)
    assert isinstance(forged, tokens.ParsedCredentialToken)
    identity = tokens.UUID(int=7)
    assert callers.key(genuine, "10.0.0.1") == callers.key(forged, "10.0.0.1") == ("unknown", "10.0.0.1")
    callers.remember(genuine, identity)
    assert callers.key(genuine, "10.0.0.1") == callers.key(genuine, "10.0.0.2") == identity
    assert callers.key(forged, "10.0.0.1") == ("unknown", "10.0.0.1")


def test_all_credentials_of_an_identity_are_one_caller() -> None:
    callers, identity = CallerKeys(), tokens.UUID(int=7)
    for _ in range(3):
        shown = tokens.parse(tokens.make_credential_token("agt").token)
        assert shown is not None
        callers.remember(shown, identity)
        assert callers.key(shown, "10.0.0.1") == identity
    short = tokens.ShortTokenClaims(identity, tokens.UUID(int=8), 0, 0)
    assert callers.key(short, "10.0.0.1") == identity
