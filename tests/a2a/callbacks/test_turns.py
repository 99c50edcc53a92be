"""Deliveries go in turn by owner and by receiver, whatever waits: nobody with many holds up who has few."""

import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from a2a import delivering, turns
from a2a.models import Delivery
from a2a.turns import MOST_OF_ONE_OWNER, MOST_TO_ONE_PLACE, WINDOW, Lane, Turns
from common.db import clock
from common.ids import uuid7
from tests.a2a.callbacks.conftest import ended, now_of
from tests.a2a.callbacks.receiver import Receiver
from tests.a2a.conftest import Stage
from tests.nhi import cast
from tests.services.waiting import wait_for

pytestmark = [pytest.mark.capability("A2A-06"), pytest.mark.both_databases]
MANY = WINDOW + 100


@pytest.fixture
def model(open_stage: Stage, receiver: Receiver) -> Delivery:
    """Of which the others are copies."""
    return ended(open_stage, receiver.url())


def due(model: Delivery, owner: UUID, places: list[str], *, since: float) -> None:
    """One at each place, all of an age in seconds."""
    at = clock.database_now() - timedelta(seconds=since)
    copied = {name: getattr(model, name) for name in ("task_id", "owner_name", "url", "url_mark", "body", "created_at")}
    Delivery.objects.bulk_create(
        Delivery(**copied, webhook_id=uuid7(), owner_id=owner, place=place, next_at=at) for place in places
    )


def taken(keys: list[UUID]) -> "Counter[tuple[UUID, str]]":
    return Counter(Delivery.objects.filter(pk__in=keys).values_list("owner_id", "place"))


def test_who_has_few_is_next_though_another_has_many_that_are_due_longer(model: Delivery) -> None:
    greedy, modest = uuid7(), uuid7()
    Delivery.objects.update(owner_id=modest)
    due(model, greedy, [f"h{number}:443" for number in range(MANY)], since=900)
    assert model.pk in Turns().next(2)
    under_way = {Lane(greedy, f"h{number}:443"): 1 for number in range(20)}
    assert Turns(busy=under_way).next(1) == [model.pk]


def test_owners_take_turns_and_so_do_their_receivers(model: Delivery) -> None:
    owners = sorted(uuid7() for _ in range(3))
    Delivery.objects.update(next_at=cast.future(seconds=60))
    for age, owner in enumerate(owners):
        due(model, owner, ["slow:443"] * MANY + ["other:443"] * 3, since=900 - age)
    round_ = Turns()
    first = taken(round_.next(6))
    assert first == {(owner, place): 1 for owner in owners for place in ("slow:443", "other:443")}
    # One at a time, all taken back at once: the eldest is not first for ever.
    again = Turns()
    assert [next(iter(taken(again.next(1))))[0] for _ in range(4)] == [*owners, owners[0]]


@pytest.mark.parametrize("many", [3, MANY], ids=["few", "many"])
def test_no_receiver_and_no_owner_has_more_under_way_than_it_may(model: Delivery, many: int) -> None:
    owner, other = uuid7(), uuid7()
    due(model, owner, ["full:443"] * many + ["free:443"] * many, since=900)
    due(model, other, ["full:443"], since=1)
    full = {Lane(owner, "full:443"): MOST_TO_ONE_PLACE}
    assert {place for _, place in taken(Turns(busy=full).next(64))} <= {"free:443", model.place}
    spent = {Lane(owner, f"h{number}:443"): 1 for number in range(MOST_OF_ONE_OWNER)}
    assert owner not in {one for one, _ in taken(Turns(busy=spent).next(64))}
    assert other in {one for one, _ in taken(Turns(busy=spent).next(64))}


def test_what_another_worker_is_about_takes_nobodys_turn(model: Delivery) -> None:
    owner, theirs = uuid7(), [f"h{number}:443" for number in range(2 * turns.LANES)]
    due(model, owner, theirs, since=900)
    Delivery.objects.filter(owner_id=owner).update(lease_until=cast.future(seconds=30))
    due(model, owner, ["free:443"] * MANY, since=60)
    assert set(taken(Turns().next(64))) >= {(owner, "free:443")}


@pytest.mark.parametrize("most", [1, 5, 64])
def test_lanes_in_which_nothing_can_go_yet_take_nobodys_turn(model: Delivery, most: int) -> None:
    """Each begins with an event whose time has come and that has to wait for the one before it."""
    for number in range(2 * turns.LANES):
        owner, receiver_of = uuid7(), uuid7()
        due(model, owner, [f"down{number}:443"], since=-600)
        due(model, owner, [f"down{number}:443"], since=900)
        for seq, row in enumerate(Delivery.objects.filter(owner_id=owner).order_by("-next_at")):
            Delivery.objects.filter(pk=row.pk).update(push_id=receiver_of, event_seq=seq)
    for number in range(64):
        due(model, uuid7(), [f"up{number}:443"] * 10, since=60)
    found = taken(Turns().next(most))
    assert sum(found.values()) == most
    assert all(place.startswith("up") for _, place in found)


def test_what_is_not_due_is_left_though_its_lane_is_seen(model: Delivery) -> None:
    later, owner = uuid7(), uuid7()
    due(model, later, ["later:443"], since=-60)
    due(model, owner, ["now:443"] * MANY, since=60)
    assert later not in {one for one, _ in taken(Turns().next(64))}


def test_a_claim_looks_at_each_lane_once_and_not_at_all_that_is_due(model: Delivery) -> None:
    for number in range(3):
        due(model, uuid7(), [f"h{number}:443"] * MANY, since=900)
    with CaptureQueriesContext(connection) as asked:
        Turns().next(8)
    assert len(asked) <= 4


def test_an_owner_whose_receivers_hang_holds_up_no_other_owner(
    open_stage: Stage, make_receiver: Callable[[], Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "MOST_AT_ONCE", 3)
    monkeypatch.setattr(turns, "MOST_OF_ONE_OWNER", 2)
    stuck, quick = [make_receiver(), make_receiver(), make_receiver()], make_receiver()
    for one in stuck:
        one.free.clear()
    hanging = [ended(open_stage, one.url()) for one in stuck]
    task = open_stage.sends(open_stage.admin, callback_url=quick.url()).body["task_id"]
    open_stage.admin.post(f"a2a/tasks/{task}/cancel")
    fine: Any = Delivery.objects.get(task_id=task)
    worker = threading.Thread(target=delivering.deliver_due)
    worker.start()
    try:
        while now_of(fine).state != "delivered":
            assert worker.is_alive()
        wait_for(lambda: sum(len(one.hits) for one in stuck) == 2, 10, "at two of them")
    finally:
        for one in stuck:
            one.free.set()
        worker.join()
    assert {now_of(one).state for one in hanging} == {"delivered"}
