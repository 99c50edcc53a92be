"""Secrets that are shown once, deliveries that their owner sees, and both that strangers do not."""

import base64

import pytest

from a2a.models import Delivery, WebhookSecret
from nhi.models import AuditEvent
from tests.a2a.callbacks.conftest import ended
from tests.a2a.callbacks.receiver import Receiver
from tests.a2a.conftest import Stage
from tests.api.callers import ABSENT, Caller, calling
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-06"), pytest.mark.both_databases]
PREFIX = "https://hooks.example.com/"
SECRETS, DELIVERIES = "a2a/webhook-secrets", "a2a/deliveries"


def made(caller: Caller, prefix: str = PREFIX) -> dict[str, str]:
    reply = caller.post(SECRETS, {"url_prefix": prefix})
    assert reply.status == 201, reply.body
    return dict(reply.body)


def test_a_secret_is_shown_once_and_kept_sealed(stage: Stage) -> None:
    first = made(stage.sender)
    assert {"id", "secret"} <= set(first)
    assert first["secret"].startswith("whsec_")
    assert 24 <= len(base64.b64decode(first["secret"].removeprefix("whsec_"))) <= 64
    page = stage.sender.get(SECRETS).body
    assert [one["id"] for one in page["webhook_secrets"]] == [first["id"]]
    stored = str(list(WebhookSecret.objects.values())) + str(list(AuditEvent.objects.values())) + str(page)
    assert first["secret"].removeprefix("whsec_") not in stored
    assert stage.sender.post(SECRETS, {"url_prefix": PREFIX}).is_refused(409, "Conflict", "duplicate")
    assert cast.events(event="webhook_secret.made") == ["webhook_secret.made"]


def test_rotating_shows_the_next_one(stage: Stage) -> None:
    first = made(stage.sender)
    reply = stage.sender.post(f"{SECRETS}/{first['id']}/rotate")
    assert {"id", "secret", "previous_valid_until"} <= set(reply.body)
    assert (reply.body["id"], reply.body["secret"] == first["secret"]) == (first["id"], False)
    assert cast.events(event="webhook_secret.rotated") == ["webhook_secret.rotated"]


@pytest.mark.parametrize("prefix", ["hooks.example.com", "ftp://hooks.example.com/", "https://a\n", "x" * 501, 5, None])
def test_a_prefix_is_the_beginning_of_a_url(stage: Stage, prefix: object) -> None:
    refused = stage.sender.post(SECRETS, {"url_prefix": prefix})
    assert refused.is_refused(400, "InvalidParameters")
    assert set(refused.fields) == {"url_prefix"}


def test_who_made_none_has_one_for_any_url_that_only_rotating_shows(stage: Stage, receiver: Receiver) -> None:
    stage.sent(callback_url=receiver.url())
    stage.sent(callback_url=receiver.url())
    [row] = stage.sender.get(SECRETS).body["webhook_secrets"]
    assert row["url_prefix"] == ""
    assert stage.sender.post(SECRETS, {"url_prefix": ""}).is_refused(409, "Conflict", "duplicate")
    assert stage.sender.post(f"{SECRETS}/{row['id']}/rotate").body["secret"].startswith("whsec_")


def test_a_secret_is_rotated_by_its_owner_and_who_manages_that(stage: Stage) -> None:
    path = f"{SECRETS}/{made(stage.sender)['id']}/rotate"
    for stranger in (stage.stranger, stage.worker, calling(cast.user("pat"))):
        assert stranger.post(path).is_refused(404, "NotFound")
        assert stranger.get(SECRETS).body["total"] == 0
    assert stage.admin.get(SECRETS).body["total"] == 1
    assert calling(cast.user("oscar", "operator")).post(path).is_refused(403, "Unauthorized")
    assert stage.admin.post(path).status == 200
    assert calling(cast.user("ada", "auditor")).post(path).is_refused(403, "Unauthorized", "only_reads")
    owner = calling(cast.user("olga"))
    assert owner.post(path).status == 200


def test_deliveries_are_their_owners(stage: Stage, receiver: Receiver) -> None:
    delivery = ended(stage, receiver.url())
    page = stage.sender.get(DELIVERIES).body
    [item] = page["deliveries"]
    assert {"id", "task_id", "webhook_id", "url", "state", "attempts", "next_at", "reason"} <= set(item)
    assert (item["task_id"], item["webhook_id"]) == (str(delivery.task_id), str(delivery.webhook_id))
    assert (item["url"], item["state"], item["attempts"]) == (receiver.url(), "pending", 0)
    for reader in (stage.admin, calling(cast.user("ada", "auditor")), calling(cast.user("olga"))):
        assert reader.get(DELIVERIES).body["total"] == 1
        assert reader.get(f"{DELIVERIES}/{delivery.pk}").body["log"] == []
    for stranger in (stage.stranger, stage.worker, calling(cast.user("pat"))):
        assert stranger.get(DELIVERIES).body["total"] == 0
        for verb, path in (("GET", ""), ("POST", "/redeliver")):
            refused = stranger.send(verb, f"{DELIVERIES}/{delivery.pk}{path}")
            assert refused.is_refused(404, "NotFound")
            assert refused.body["message"] == stranger.send(verb, f"{DELIVERIES}/{ABSENT}{path}").body["message"]


def test_deliveries_are_found_by_state_and_task(stage: Stage, receiver: Receiver) -> None:
    first, second = ended(stage, receiver.url()), ended(stage, receiver.url())
    Delivery.objects.filter(pk=first.pk).update(state="dead", next_at=None, reason="http_error")

    def found(**asked: str) -> list[str]:
        return [one["id"] for one in stage.sender.get(DELIVERIES, **asked).body["deliveries"]]

    assert found() == [str(second.pk), str(first.pk)]
    assert found(state="dead") == [str(first.pk)]
    assert found(task_id=str(second.task_id)) == [str(second.pk)]
    assert stage.sender.get(DELIVERIES, state="lost").is_refused(400, "InvalidParameters")


def test_what_is_over_is_delivered_again_on_record(stage: Stage, receiver: Receiver) -> None:
    delivery = ended(stage, receiver.url())
    path = f"{DELIVERIES}/{delivery.pk}/redeliver"
    assert stage.sender.post(path).is_refused(409, "Conflict", "still_pending")
    for number, caller in enumerate((stage.sender, stage.admin, calling(cast.user("olga"))), 1):
        Delivery.objects.update(state="dead", next_at=None, reason="http_error")
        again = caller.post(path)
        assert (again.status, again.body["state"], again.body["reason"]) == (200, "pending", "")
        assert again.body["webhook_id"] == str(delivery.webhook_id)
        assert len(cast.events(delivery, event="delivery.redelivered")) == number
    assert calling(cast.user("tom", "approver")).post(path).is_refused(403, "Unauthorized")
    assert calling(cast.user("ada", "auditor")).post(path).is_refused(403, "Unauthorized", "only_reads")


def test_what_is_for_a_receiver_that_was_removed_is_not_delivered_again(stage: Stage, receiver: Receiver) -> None:
    delivery = ended(stage, receiver.url())
    over = {"state": "dead", "next_at": None, "reason": "http_error", "push_id": ABSENT, "event_seq": 2}
    Delivery.objects.filter(pk=delivery.pk).update(**over)
    assert stage.sender.post(f"{DELIVERIES}/{delivery.pk}/redeliver").is_refused(409, "Conflict", "receiver_gone")
    assert Delivery.objects.get(pk=delivery.pk).state == "dead"
    assert cast.events(delivery, event="delivery.redelivered") == []


def test_who_manages_an_identity_makes_its_secret_and_nobody_else_does(stage: Stage) -> None:
    body = {"url_prefix": PREFIX, "owner_id": str(stage.writer.pk)}
    assert stage.admin.post(SECRETS, body).status == 201
    assert [one["owner"] for one in stage.worker.get(SECRETS).body["webhook_secrets"]] == ["writer"]
    assert stage.admin.post(SECRETS, body).is_refused(409, "Conflict", "duplicate")
    # An identity makes its own.
    assert stage.worker.post(SECRETS, {**body, "url_prefix": ""}).status == 201
    unknown = stage.stranger.post(SECRETS, {**body, "owner_id": ABSENT})
    assert stage.stranger.post(SECRETS, body).status == unknown.status == 404
    assert WebhookSecret.objects.count() == 2
