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
def test_no_more_than_the_beginning_is_kept(open_stage: Stage, receiver: Receiver, between: str) -> None:
    receiver.statuses, receiver.answer = [200], ("word" + between).encode() * 1_000_000
    attempt = kept(ended(open_stage, receiver.url()))
    assert (attempt.answer, attempt.answer_cut) == (receiver.answer.decode()[: answers.MOST], True)


@pytest.mark.parametrize("more", [b"", b" word" * 1_000_000], ids=["ends", "goes on"])
@pytest.mark.parametrize(
    "secret",
    [None, f"{KEY[:8]}_" * 150, f"eyJ{'a' * 700}.eyJ{'b' * 700}.{'c' * 400}"],
    ids=["our secret", "a long token of theirs", "a JWT that nothing names"],
)
def test_no_half_of_a_secret_stands_where_the_beginning_ends(
    open_stage: Stage, receiver: Receiver, secret: str | None, more: bytes
) -> None:
    filling = "word " * ((answers.MOST - 10) // 5)
    told = secret or webhooks.make(actor=actors.identity(open_stage.planner), url_prefix="").secret
    receiver.statuses, receiver.answer = [200], f"{filling}{told}".encode() + more
    attempt = kept(ended(open_stage, receiver.url(f"/done?token={KEY if secret is None else secret}")))
    said = attempt.answer.removeprefix(filling)
    assert attempt.answer_cut
    assert "[REDACTED:SECRET]".startswith(said)


def pushed(stage: Stage, url: str, token: str) -> None:
    """To a receiver that knows us by a token: each event of a task that ends."""
    task_id = stage.sent()
    task = Task.objects.get(pk=task_id)
    asked = {"url": url, "token": token}
    pushing.make(actor=actors.identity(stage.planner), task=task, asked=asked, wire_version="1.0")
    lease = stage.claimed(task_id)
    stage.tells(task_id, "complete", lease_token=lease, result={"summary": "Done."})


@pytest.mark.parametrize("silent", [True, False], ids=["falls silent", "hangs up"])
def test_no_half_of_a_secret_stands_where_an_answer_breaks_off(
    open_stage: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    monkeypatch.setattr(answers, "PATIENCE", 0.2 if silent else 10)
    if not silent:
        receiver.over.set()
    token = "Kq7vX2mT 9sLw4nRb"
    receiver.statuses, receiver.answer, receiver.promised = [200], f"you sent {token[:-3]}".encode(), 300
    pushed(open_stage, receiver.url(), token)
    delivering.deliver_due()
    said = DeliveryAttempt.objects.values_list("answer", "answer_cut", "reason")
    assert {*said} == {("you sent ", True, "")}


def test_who_answers_and_then_says_nothing_was_heard_and_holds_up_nobody(
    open_stage: Stage, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The word it broke off in is not kept: nobody knows what it was the beginning of."""
    monkeypatch.setattr(answers, "PATIENCE", 0.2)
    receiver.statuses, receiver.answer, receiver.promised = [200], "So far, so gö".encode()[:-1], 100
    delivery = ended(open_stage, receiver.url())
    began = time.monotonic()
    attempt = kept(delivery)
    assert time.monotonic() - began < 10
    assert now_of(delivery).state == "delivered"
    assert (attempt.answer, attempt.answer_cut, attempt.reason) == ("So far, so ", True, "")


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
