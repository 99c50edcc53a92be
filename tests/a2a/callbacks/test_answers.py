"""Of what a receiver answers the beginning is kept, bounded and without secrets; it changes nothing."""

import gzip
import time

import pytest

from a2a import answers, delivering, pushing, webhooks
from a2a.models import Delivery, DeliveryAttempt, Task
from nhi import actors
from tests.a2a.callbacks.conftest import ended, now_of
from tests.a2a.callbacks.receiver import Receiver
from tests.a2a.conftest import Stage

pytestmark = [pytest.mark.capability("A2A-06"), pytest.mark.both_databases]
KEY = "Kq7vX2mT9sLw4nRb"


def kept(delivery: Delivery) -> DeliveryAttempt:
    delivering.deliver_due()
    return DeliveryAttempt.objects.get(delivery=delivery)


def test_what_a_receiver_says_stands_in_the_log_beside_its_status(open_stage: Stage, receiver: Receiver) -> None:
    receiver.statuses, receiver.answer = [503], '{"error": "queue is full – later"}\0\u202e'.encode()
    delivery = ended(open_stage, receiver.url())
    attempt = kept(delivery)
    assert (attempt.status, attempt.answer_cut) == (503, False)
    assert attempt.answer == '{"error": "queue is full – later"}\u2400\u202e'


def test_a_receiver_that_repeats_what_it_was_told_in_confidence_puts_none_of_it_on_record(
    open_stage: Stage, receiver: Receiver
) -> None:
    secret = webhooks.make(actor=actors.identity(open_stage.planner), url_prefix="").secret
    receiver.statuses = [200]
    receiver.answer = f"key {secret} at ?token={KEY}, password=hunter2-hunter2 and {KEY[::-1]}".encode()
    answer = kept(ended(open_stage, receiver.url(f"/done?token={KEY}"))).answer
    assert answer.endswith(f"and {KEY[::-1]}")
    for confided in (secret, KEY, "hunter2"):
        assert confided not in answer


def test_what_shows_a_receiver_that_it_is_us_is_confided_too(open_stage: Stage, receiver: Receiver) -> None:
    receiver.statuses = [200]
    receiver.answer = f"you sent {KEY} and {KEY[::-1]}; unknown".encode()
    task_id = open_stage.sent()
    shown = {"scheme": "Bearer", "credentials": KEY[::-1]}
    asked = {"url": receiver.url(), "token": KEY, "authentication": shown}
    task = Task.objects.get(pk=task_id)
    pushing.make(actor=actors.identity(open_stage.planner), task=task, asked=asked, wire_version="1.0")
    token = open_stage.claimed(task_id)
    open_stage.tells(task_id, "complete", lease_token=token, result={"summary": "Done."})
    delivering.deliver_due()
    said = DeliveryAttempt.objects.order_by("at").values_list("answer", flat=True)
    assert said
    assert all(KEY not in one and KEY[::-1] not in one and one.endswith("unknown") for one in said)


@pytest.mark.parametrize("between", [" ", ""], ids=["words", "one long word"])
def test_no_more_than_the_beginning_is_kept_and_no_half_of_a_secret_at_its_end(
    open_stage: Stage, receiver: Receiver, between: str
) -> None:
    secret = webhooks.make(actor=actors.identity(open_stage.planner), url_prefix="").secret
    receiver.statuses, filling = [200], ("word" + between) * 300
    receiver.answer = (filling[: answers.MOST - 10] + secret).encode() + b"." * 3_000_000
    attempt = kept(ended(open_stage, receiver.url()))
    assert attempt.answer_cut
    assert answers.MOST - answers.LONGEST_PART - 10 <= len(attempt.answer) <= answers.MOST
    assert filling.startswith(attempt.answer)


def test_who_answers_and_then_says_nothing_was_heard_and_holds_up_nobody(
    open_stage: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "PATIENCE", 0.2)
    receiver.statuses, receiver.answer, receiver.promised = [200], b"So far", 100
    delivery = ended(open_stage, receiver.url())
    began = time.monotonic()
    attempt = kept(delivery)
    assert time.monotonic() - began < 10
    assert now_of(delivery).state == "delivered"
    assert (attempt.answer, attempt.answer_cut, attempt.reason) == ("So far", False, "")


def test_what_is_packed_is_left_alone(open_stage: Stage, receiver: Receiver) -> None:
    receiver.statuses, receiver.answer = [200], gzip.compress(b"a" * 10_000_000)
    receiver.answer_headers = {"Content-Encoding": "gzip"}
    delivery = ended(open_stage, receiver.url())
    assert kept(delivery).answer == ""
    assert now_of(delivery).state == "delivered"


def test_over_the_api_an_attempt_tells_its_status_and_nothing_that_was_said(
    open_stage: Stage, receiver: Receiver
) -> None:
    """Else who names a URL could read what stands there."""
    receiver.statuses, receiver.answer = [200], b"inside"
    delivery = ended(open_stage, receiver.url())
    kept(delivery)
    told = open_stage.sender.get(f"a2a/deliveries/{delivery.pk}")
    assert told.status == 200
    assert "inside" not in str(told.body)
