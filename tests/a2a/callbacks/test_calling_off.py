"""Calling off by hand: one delivery, or whatever goes to one URL; and what that never undoes."""

from typing import Any

import pytest

from a2a import calling_off, deliveries
from a2a.choices import DeliveryState, Trouble
from a2a.models import Delivery
from a2a.posting import Outcome
from a2a.turns import Turns
from common.errors import Conflict
from nhi.actors import SYSTEM
from tests.a2a.callbacks.conftest import ended, now_of
from tests.a2a.conftest import Stage
from tests.api.callers import calling
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-06"), pytest.mark.django_db]
#: Where nobody listens: nothing is sent here.
PLACE = "127.0.0.1:9"
URL = f"http://{PLACE}/done"
WHY = {"reason": "Its receiver was taken down"}
D = DeliveryState


@pytest.fixture(autouse=True)
def _may_be_called(settings: Any) -> None:
    settings.EGRESS_ALLOW = settings.EGRESS_ALLOW | {PLACE}


def path(delivery: Delivery, verb: str) -> str:
    return f"a2a/deliveries/{delivery.pk}/{verb}"


def given_up(stage: Stage, url: str = URL) -> Delivery:
    delivery = ended(stage, url)
    Delivery.objects.filter(pk=delivery.pk).update(state=D.DEAD, reason=Trouble.TIMEOUT, next_at=None, attempts=10)
    return now_of(delivery)


def test_what_waits_is_called_off_for_good_and_can_be_redelivered(stage: Stage) -> None:
    delivery = ended(stage, URL)
    reply = stage.sender.post(path(delivery, "stop"), WHY)
    assert (reply.status, reply.body["state"], reply.body["reason"]) == (200, "disabled", "stopped")
    assert not Delivery.objects.due().exists()
    assert cast.events(event="delivery.stopped") == ["delivery.stopped"]
    assert stage.sender.post(path(delivery, "stop"), WHY).is_refused(409, "Conflict", "delivery_settled")
    assert stage.sender.post(path(delivery, "redeliver")).body["state"] == "pending"


def test_a_dead_letter_can_be_let_be(stage: Stage) -> None:
    delivery = given_up(stage)
    assert stage.admin.post(path(delivery, "stop"), WHY).body["state"] == "disabled"
    assert not Delivery.objects.filter(state=D.DEAD).exists()


def test_what_was_delivered_stays_so(stage: Stage) -> None:
    delivery = ended(stage, URL)
    [parcel] = deliveries.claim(1, turns=Turns())
    deliveries.settle(parcel.delivery, parcel.mark, Outcome(status=204))
    assert stage.sender.post(path(delivery, "stop"), WHY).is_refused(409, "Conflict", "delivery_settled")
    assert now_of(delivery).state == D.DELIVERED


def test_an_attempt_under_way_ends_in_the_log_alone(stage: Stage) -> None:
    delivery = ended(stage, URL)
    [parcel] = deliveries.claim(1, turns=Turns())
    calling_off.stop(actor=SYSTEM, delivery=delivery, reason="It hangs")
    deliveries.settle(parcel.delivery, parcel.mark, Outcome(Trouble.HTTP_ERROR, status=500))
    now = now_of(delivery)
    assert (now.state, now.reason, now.next_at) == (D.DISABLED, Trouble.STOPPED, None)
    assert [(one.status, one.reason) for one in now.log.all()] == [(500, Trouble.HTTP_ERROR)]


@pytest.mark.both_databases
def test_a_disabled_url_stops_what_waits_and_what_comes_of_this_owner_alone(stage: Stage) -> None:
    first, second, elsewhere = (ended(stage, url) for url in (URL, URL, f"{URL}/other"))
    foreign = ended_by_admin(stage)
    reply = stage.sender.post(path(first, "disable"), WHY)
    assert reply.status == 200
    states = [now_of(one).state for one in (first, second, elsewhere, foreign)]
    assert states == [D.DISABLED, D.DISABLED, D.PENDING, D.PENDING]
    assert ended(stage, URL).state == D.DISABLED
    assert stage.sender.post(path(first, "disable"), WHY).is_refused(409, "Conflict", "already_disabled")
    assert stage.sender.post(path(second, "redeliver")).status == 200
    assert ended(stage, URL).state == D.PENDING


def ended_by_admin(stage: Stage) -> Delivery:
    """The same URL, of another owner."""
    task_id = stage.sends(stage.admin, callback_url=URL).body["task_id"]
    assert stage.admin.post(f"a2a/tasks/{task_id}/cancel").status == 200
    return Delivery.objects.get(task_id=task_id)


def test_only_who_may_and_only_with_a_reason(stage: Stage) -> None:
    delivery = ended(stage, URL)
    for verb in ("stop", "disable"):
        assert stage.stranger.post(path(delivery, verb), WHY).is_refused(404, "NotFound")
        for name, role in (("tom", "approver"), ("ada", "auditor")):
            assert calling(cast.user(name, role)).post(path(delivery, verb), WHY).status == 403
        assert "reason" in stage.sender.post(path(delivery, verb), {"reason": ""}).fields
    assert now_of(delivery).state == D.PENDING
    assert calling(cast.user("oscar", "operator")).post(path(delivery, "stop"), WHY).status == 200


def test_the_verbs_say_what_they_refuse(stage: Stage) -> None:
    delivery = given_up(stage)
    calling_off.disable(actor=SYSTEM, delivery=delivery, reason="Wrong URL")
    with pytest.raises(Conflict, match="Nothing of this owner goes to this URL already"):
        calling_off.disable(actor=SYSTEM, delivery=delivery, reason="Wrong URL")
