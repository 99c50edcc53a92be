"""Callbacks arrive, signed, once or again under the same id, or are accounted for."""

import json
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from email.utils import formatdate
from typing import Any

import pytest

from a2a import celery_tasks, deliveries, delivering, posting, retrying, turns, webhooks
from a2a.choices import Trouble
from a2a.models import Delivery, DeliveryAttempt, WebhookSecret
from a2a.posting import Outcome
from a2a.turns import Turns
from common import crypto
from common.db import clock
from nhi import actors
from nhi.actors import SYSTEM
from tests.a2a.callbacks.conftest import ended, make_due, now_of
from tests.a2a.callbacks.receiver import Receiver
from tests.a2a.conftest import Stage
from tests.a2a.test_writer import at_once
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-06"), pytest.mark.both_databases]


def secret_of(stage: Stage, prefix: str = "") -> str:
    return webhooks.make(actor=actors.identity(stage.planner), url_prefix=prefix).secret


def wait_of(delivery: Delivery) -> float:
    """Seconds from its last attempt to its next."""
    now, last = now_of(delivery), DeliveryAttempt.objects.filter(delivery=delivery).last()
    assert now.next_at is not None
    assert last is not None
    return (now.next_at - last.at).total_seconds()


def test_what_has_ended_is_told_signed(open_stage: Stage, receiver: Receiver) -> None:
    secret = secret_of(open_stage)
    delivery = ended(open_stage, receiver.url("/done?run=7"))
    delivering.deliver_due()
    [hit] = receiver.hits
    assert (hit.path, hit.id) == ("/done?run=7", str(delivery.webhook_id))
    assert abs(int(hit.headers["webhook-timestamp"]) - time.time()) < 60
    assert hit.is_signed_by(secret)
    assert hit.headers["content-type"] == "application/json"
    assert json.loads(hit.body)["state"] == "completed"
    told = now_of(delivery)
    assert (told.state, told.attempts, told.last_status, told.next_at) == ("delivered", 1, 204, None)
    delivering.deliver_due()
    assert len(receiver.hits) == 1


def test_what_failed_is_tried_again_under_the_same_id(open_stage: Stage, receiver: Receiver) -> None:
    receiver.statuses = [500, 200]
    delivery = ended(open_stage, receiver.url())
    delivering.deliver_due()
    told = now_of(delivery)
    assert (told.state, told.reason, told.last_status, told.attempts) == ("pending", "http_error", 500, 1)
    delivering.deliver_due()
    assert len(receiver.hits) == 1
    make_due(delivery)
    delivering.deliver_due()
    assert now_of(delivery).state == "delivered"
    first, second = receiver.hits
    assert (first.id, first.body) == (second.id, second.body)
    assert [(one.number, one.status, one.reason) for one in DeliveryAttempt.objects.all()] == [
        (1, 500, "http_error"), (2, 200, ""),
    ]  # fmt: skip


def test_ten_attempts_in_the_rhythm_and_then_it_is_given_up(open_stage: Stage, receiver: Receiver) -> None:
    receiver.statuses = [500]
    delivery = ended(open_stage, receiver.url())
    for wait in (5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400):
        delivering.deliver_due()
        assert wait * 0.8 - 1 <= wait_of(delivery) <= wait * 1.2 + 5
        make_due(delivery)
    delivering.deliver_due()
    told = now_of(delivery)
    assert (told.state, told.attempts, told.reason, told.next_at) == ("dead", 10, "http_error", None)
    assert cast.events(told, event="delivery.dead") == ["delivery.dead"]
    receiver.statuses = [200]
    again = deliveries.redeliver(actor=SYSTEM, delivery=told)
    assert (again.state, again.reason) == ("pending", "")
    delivering.deliver_due()
    assert (now_of(delivery).state, now_of(delivery).attempts) == ("delivered", 11)
    assert {hit.id for hit in receiver.hits} == {str(delivery.webhook_id)}


def test_what_is_redelivered_has_ten_attempts_of_its_own(open_stage: Stage, receiver: Receiver) -> None:
    receiver.statuses = [500]
    delivery = ended(open_stage, receiver.url())
    Delivery.objects.update(state="dead", attempts=10, next_at=None)
    deliveries.redeliver(actor=SYSTEM, delivery=delivery)
    delivering.deliver_due()
    assert now_of(delivery).state == "pending"
    assert wait_of(delivery) < 30


def test_a_receiver_that_hangs_holds_up_nobody_else(
    open_stage: Stage, make_receiver: Callable[[], Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, quick = make_receiver(), make_receiver()
    stuck.free.clear()
    hanging = [ended(open_stage, stuck.url()) for _ in range(3)]
    fine = ended(open_stage, quick.url())
    monkeypatch.setattr(turns, "MOST_TO_ONE_PLACE", 2)
    # The last one is not even looked at first.
    monkeypatch.setattr(turns, "WINDOW", len(hanging))
    worker = threading.Thread(target=delivering.deliver_due)
    worker.start()
    try:
        while now_of(fine).state != "delivered":
            assert worker.is_alive()
        assert {(now_of(one).state, now_of(one).reason) for one in hanging} == {("pending", "")}
        assert len(stuck.hits) == 2
    finally:
        stuck.free.set()
        worker.join()
    assert {now_of(one).state for one in hanging} == {"delivered"}


def test_an_attempt_has_an_end(open_stage: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "SECONDS", 0.3)
    receiver.free.clear()
    delivery = ended(open_stage, receiver.url())
    delivering.deliver_due()
    assert (now_of(delivery).state, now_of(delivery).reason) == ("pending", "timeout")


@pytest.mark.parametrize("status, reason", [(302, "redirect"), (307, "redirect"), (404, "http_error")])
def test_what_is_no_success_is_a_failure(open_stage: Stage, receiver: Receiver, status: int, reason: str) -> None:
    receiver.statuses, receiver.answer_headers = [status], {"Location": receiver.url("/elsewhere")}
    delivery = ended(open_stage, receiver.url())
    delivering.deliver_due()
    assert [hit.path for hit in receiver.hits] == ["/done"]
    assert (now_of(delivery).state, now_of(delivery).reason) == ("pending", reason)


def test_nobody_there_is_a_failure(open_stage: Stage, settings: Any) -> None:
    settings.EGRESS_ALLOW = frozenset({"127.0.0.1:9"})
    delivery = ended(open_stage, "http://127.0.0.1:9/")
    delivering.deliver_due()
    assert (now_of(delivery).state, now_of(delivery).reason) == ("pending", "unreachable")


def test_410_disables_exactly_that_url_of_that_owner(open_stage: Stage, receiver: Receiver) -> None:
    receiver.statuses = [410, 200]
    first = ended(open_stage, receiver.url())
    second, other_url = ended(open_stage, receiver.url()), ended(open_stage, receiver.url("/other"))
    Delivery.objects.exclude(pk=first.pk).update(next_at=cast.future(seconds=60))
    delivering.deliver_due()
    for row in (first, second):
        assert (now_of(row).state, now_of(row).reason) == ("disabled", "gone")
    later = ended(open_stage, receiver.url())
    assert (later.state, later.attempts) == ("disabled", 0)
    of_another = open_stage.sends(open_stage.admin, callback_url=receiver.url()).body["task_id"]
    open_stage.admin.post(f"a2a/tasks/{of_another}/cancel")
    make_due(other_url)
    delivering.deliver_due()
    assert now_of(other_url).state == "delivered"
    assert Delivery.objects.get(task_id=of_another).state == "delivered"
    deliveries.redeliver(actor=SYSTEM, delivery=later)
    assert ended(open_stage, receiver.url()).state == "pending"
    delivering.deliver_due()
    assert now_of(later).state == "delivered"


@pytest.mark.parametrize(
    "status, asked, least, most",
    [
        (429, "40", 40, 60),
        (503, "40", 40, 60),
        (503, "date", 30, 60),
        (503, "99999999", 86400, 86410),
        (500, "40", 0, 20),
        (503, "soon", 0, 20),
    ],
)
def test_a_receiver_that_says_when_is_left_alone_until_then(
    open_stage: Stage, receiver: Receiver, settings: Any, status: int, asked: str, least: float, most: float
) -> None:
    settings.WEBHOOK_TIME_SCALE = 0.5
    said = formatdate(time.time() + 40, usegmt=True) if asked == "date" else asked
    receiver.statuses, receiver.answer_headers = [status], {"Retry-After": said}
    delivery = ended(open_stage, receiver.url())
    delivering.deliver_due()
    assert least <= wait_of(delivery) <= most


def test_our_own_waits_are_scaled(settings: Any) -> None:
    settings.WEBHOOK_TIME_SCALE = 0.01
    wait = retrying.wait(2)
    assert wait is not None
    assert 2.4 <= wait.total_seconds() <= 3.6
    assert retrying.wait(1, asked=60.0) == timedelta(seconds=60)
    assert retrying.wait(10) is None


def test_what_a_dead_worker_was_about_is_sent_again_under_the_same_id(open_stage: Stage, receiver: Receiver) -> None:
    delivery = ended(open_stage, receiver.url())
    [dead] = deliveries.claim(10, turns=Turns())
    delivering.deliver_due()
    assert receiver.hits == []
    Delivery.objects.update(lease_until=cast.past(seconds=1))
    delivering.deliver_due()
    assert [hit.id for hit in receiver.hits] == [str(delivery.webhook_id)]
    assert [one.reason for one in DeliveryAttempt.objects.all()] == ["lost", ""]
    # It was only asleep: what it has to say is too late.
    deliveries.settle(dead.delivery, dead.mark, Outcome(Trouble.TIMEOUT))
    assert (now_of(delivery).state, now_of(delivery).attempts) == ("delivered", 2)
    assert [one.reason for one in DeliveryAttempt.objects.all()] == ["timeout", ""]


def test_of_two_workers_one_sends(open_stage: Stage, receiver: Receiver) -> None:
    rows = [ended(open_stage, receiver.url()) for _ in range(6)]
    at_once(*[delivering.deliver_due] * 3)
    assert sorted(hit.id for hit in receiver.hits) == sorted(str(row.webhook_id) for row in rows)
    assert set(Delivery.objects.values_list("state", "attempts")) == {("delivered", 1)}


def test_while_a_secret_is_rotated_both_sign(open_stage: Stage, receiver: Receiver) -> None:
    old = secret_of(open_stage)
    row = WebhookSecret.objects.get()
    new = webhooks.rotate(actor=actors.identity(open_stage.planner), secret=row).secret
    ended(open_stage, receiver.url())
    delivering.deliver_due()
    WebhookSecret.objects.update(previous_valid_until=cast.past(seconds=1))
    ended(open_stage, receiver.url())
    delivering.deliver_due()
    during, after = receiver.hits
    assert len(during.signatures) == 2
    assert during.is_signed_by(old)
    assert during.is_signed_by(new)
    assert len(after.signatures) == 1
    assert after.is_signed_by(new)
    assert webhooks.forget_previous(clock.database_now()) == 1


def test_what_was_rotated_before_several_could_sign_signs_on(open_stage: Stage) -> None:
    old = secret_of(open_stage)
    row = WebhookSecret.objects.get()
    new = webhooks.rotate(actor=actors.identity(open_stage.planner), secret=row).secret
    row.refresh_from_db()
    row.sealed_previous = crypto.seal(old, place=f"a2a_webhook_secret/{row.pk}")
    row.save(update_fields=["sealed_previous"])
    owner = webhooks.Owner(open_stage.planner.pk, open_stage.planner.name)
    assert webhooks.signing(owner, "https://hooks.example.com/") == [new, old]


def test_what_was_promised_to_sign_does_though_it_is_rotated_again(open_stage: Stage, receiver: Receiver) -> None:
    planner, secrets = actors.identity(open_stage.planner), [secret_of(open_stage)]
    secrets += [
        webhooks.rotate(actor=planner, secret=WebhookSecret.objects.get()).secret for _ in range(webhooks.MOST_PREVIOUS)
    ]
    with pytest.raises(webhooks.RotatedOften):
        webhooks.rotate(actor=planner, secret=WebhookSecret.objects.get())
    ended(open_stage, receiver.url())
    delivering.deliver_due()
    [hit] = receiver.hits
    assert len(hit.signatures) == len(secrets)
    assert all(hit.is_signed_by(secret) for secret in secrets)


@pytest.mark.parametrize(
    ("prefix", "url", "fits"),
    [
        ("https://a.example", "https://a.example", True),
        ("https://a.example", "https://a.example/hook", True),
        ("https://a.example", "https://a.example?x=1", True),
        ("https://a.example", "https://a.example.evil.com/hook", False),
        ("https://a.example", "https://a.example:8443/hook", False),
        ("https://a.example", "https://a.example@evil.com/hook", False),
        ("https://a.example/", "https://a.example/hook", True),
        ("https://a.example/team-", "https://a.example/team-1", True),
        ("https://a.example/team-", "https://a.example/other", False),
    ],
)
def test_a_prefix_is_for_its_own_host_alone(stage: Stage, prefix: str, url: str, fits: bool) -> None:
    secret_of(stage, prefix)
    owner = webhooks.Owner(stage.planner.pk, stage.planner.name)
    assert (webhooks.ensure(owner, url, actor=SYSTEM).url_prefix == prefix) == fits


def test_the_longest_prefix_signs(open_stage: Stage, receiver: Receiver) -> None:
    host = secret_of(open_stage, receiver.url("/"))
    team, other = secret_of(open_stage, receiver.url("/team/")), secret_of(open_stage, receiver.url("/other/"))
    # The day is over in which the one before signs too.
    WebhookSecret.objects.update(previous_valid_until=cast.past(seconds=1))
    for path in ("/team/done", "/else"):
        ended(open_stage, receiver.url(path))
        delivering.deliver_due()
    in_team, elsewhere = receiver.hits
    assert [in_team.is_signed_by(one) for one in (host, team, other)] == [False, True, False]
    assert [elsewhere.is_signed_by(one) for one in (host, team, other)] == [True, False, False]


def test_where_gatehouse_may_not_call_any_more_it_is_blocked(
    open_stage: Stage, receiver: Receiver, settings: Any
) -> None:
    delivery, allowed = ended(open_stage, receiver.url()), settings.EGRESS_ALLOW
    settings.EGRESS_ALLOW = frozenset()
    delivering.deliver_due()
    assert (now_of(delivery).state, now_of(delivery).reason) == ("blocked", "egress_blocked")
    assert receiver.hits == []
    settings.EGRESS_ALLOW = allowed
    deliveries.redeliver(actor=SYSTEM, delivery=delivery)
    delivering.deliver_due()
    assert now_of(delivery).state == "delivered"


def test_a_secret_that_cannot_be_opened_holds_up_nobody_else(open_stage: Stage, receiver: Receiver) -> None:
    secret_of(open_stage)
    lame = ended(open_stage, receiver.url())
    WebhookSecret.objects.update(sealed="gone.AAAA")
    task_id = open_stage.sends(open_stage.admin, callback_url=receiver.url()).body["task_id"]
    open_stage.admin.post(f"a2a/tasks/{task_id}/cancel")
    delivering.deliver_due()
    assert (now_of(lame).state, now_of(lame).reason) == ("pending", "unreadable")
    assert Delivery.objects.get(task_id=task_id).state == "delivered"


def test_a_worker_is_not_held_while_a_receiver_thinks(open_stage: Stage, receiver: Receiver) -> None:
    receiver.free.clear()
    delivery = ended(open_stage, receiver.url())
    celery_tasks.deliver()
    thread = delivering.office._thread
    assert thread is not None
    receiver.free.set()
    thread.join(20)
    assert now_of(delivery).state == "delivered"
    celery_tasks.deliver()
    assert delivering.office._thread is None
