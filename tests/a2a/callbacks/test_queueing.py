"""Events that come after one that its receiver did not take wait with it, and go once it is over."""

import pytest
from django.db import transaction

from a2a import calling_off, deliveries, delivering, outbox, pushing
from a2a.choices import EventKind
from a2a.models import Delivery, Task, TaskEvent
from common.db import clock
from nhi import actors
from nhi.actors import SYSTEM
from tests.a2a.callbacks.receiver import Receiver
from tests.a2a.conftest import Stage
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-06"), pytest.mark.both_databases]


@pytest.fixture
def told(open_stage: Stage, receiver: Receiver) -> str:
    """A task of which three events are to be told to a receiver that takes none yet."""
    receiver.statuses = [503]
    task_id: str = open_stage.sent()
    pushing.make(
        actor=actors.identity(open_stage.planner), task=Task.objects.get(pk=task_id), asked={"url": receiver.url()},
        wire_version="1.0",
    )  # fmt: skip
    lease = open_stage.claimed(task_id)
    open_stage.tells(task_id, "complete", lease_token=lease, result={"summary": "Done."})
    delivering.deliver_due()
    assert len(receiver.hits) == 1
    return task_id


def rows() -> list[Delivery]:
    return list(Delivery.objects.order_by("event_seq"))


def looked_at() -> int:
    """Whatever is looked at when something due is sought."""
    return Delivery.objects.pending().filter(next_at__lte=clock.database_now()).count()


def test_nobody_looks_at_what_cannot_go_yet(told: str) -> None:
    head, *after = rows()
    assert len(after) >= 2
    assert {row.next_at for row in after} == {head.next_at}
    assert looked_at() == 0


def test_what_comes_later_waits_with_them(told: str) -> None:
    task = Task.objects.get(pk=told)
    event = TaskEvent(task=task, seq=99, kind=EventKind.STATUS, body={"statusUpdate": {}}, at=clock.database_now())
    with transaction.atomic():
        outbox.push(task, [event])
    head, *after = rows()
    assert after[-1].event_seq == 99
    assert {row.next_at for row in after} == {head.next_at}


def test_all_of_them_go_in_order_once_the_first_was_tried_by_hand(told: str, receiver: Receiver) -> None:
    receiver.statuses = [204]
    deliveries.redeliver(actor=SYSTEM, delivery=rows()[0])
    delivering.deliver_due()
    assert {row.state for row in rows()} == {"delivered"}
    seen = [hit.headers["x-a2a-event-seq"] for hit in receiver.hits]
    assert seen == [seen[0], *(str(row.event_seq) for row in rows())]


def test_so_they_do_once_it_is_called_off(told: str, receiver: Receiver) -> None:
    receiver.statuses = [204]
    calling_off.stop(actor=SYSTEM, delivery=rows()[0], reason="Not needed")
    delivering.deliver_due()
    assert [row.state for row in rows()] == ["disabled", *["delivered"] * (len(rows()) - 1)]


def test_what_another_receiver_is_told_does_not_wait(told: str, open_stage: Stage, receiver: Receiver) -> None:
    task_id = open_stage.sent()
    pushing.make(
        actor=actors.identity(open_stage.planner), task=Task.objects.get(pk=task_id), asked={"url": receiver.url()},
        wire_version="1.0",
    )  # fmt: skip
    open_stage.claimed(task_id)
    receiver.statuses = [204]
    delivering.deliver_due()
    assert {row.state for row in Delivery.objects.filter(task_id=task_id)} == {"delivered"}
    assert {row.state for row in Delivery.objects.filter(task_id=told)} == {"pending"}
    Delivery.objects.pending().update(next_at=cast.past(seconds=1))
    delivering.deliver_due()
    assert {row.state for row in rows()} == {"delivered"}
