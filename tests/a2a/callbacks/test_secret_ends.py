"""What signs beside a secret is revoked at once after a leak, and a secret is removed: each by who may, on record."""

import pytest

from a2a import delivering, webhook_ends, webhooks
from a2a.models import Delivery, WebhookSecret
from a2a.webhooks import Owner
from common.errors import NotFound
from nhi import actors
from nhi.models import AuditEvent
from tests.a2a.callbacks.conftest import ended, make_due
from tests.a2a.callbacks.receiver import Receiver
from tests.a2a.conftest import Stage
from tests.api.callers import Caller, Reply, calling
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-06"), pytest.mark.both_databases]
SECRETS = "a2a/webhook-secrets"
WHY = {"reason": "It leaked"}
GONE = f"?reason={WHY['reason'].replace(' ', '+')}"


def made(stage: Stage, prefix: str = "") -> str:
    return webhooks.make(actor=actors.identity(stage.planner), url_prefix=prefix).secret


def rotated(stage: Stage) -> str:
    secret = WebhookSecret.objects.get(url_prefix="")
    return webhooks.rotate(actor=actors.identity(stage.planner), secret=secret).secret


def address(prefix: str = "") -> str:
    return f"{SECRETS}/{WebhookSecret.objects.get(url_prefix=prefix).pk}"


def on_record(event: str) -> AuditEvent:
    return AuditEvent.objects.get(event=f"webhook_secret.{event}")


def test_after_a_leak_the_present_one_signs_alone_from_the_next_attempt_on(
    open_stage: Stage, receiver: Receiver
) -> None:
    receiver.statuses = [503]
    leaked, delivery = made(open_stage), ended(open_stage, receiver.url())
    present = rotated(open_stage)
    delivering.deliver_due()
    reply = open_stage.sender.post(f"{address()}/revoke-previous", WHY)
    assert (reply.status, reply.body["previous_valid_until"]) == (200, None)
    assert not WebhookSecret.objects.get().sealed_previous
    make_due(delivery)
    delivering.deliver_due()
    signed = [[hit.is_signed_by(one) for one in (leaked, present)] for hit in receiver.hits]
    assert signed == [[True, True], [False, True]]
    assert [len(hit.signatures) for hit in receiver.hits] == [2, 1]
    said = on_record("previous_revoked")
    assert (said.actor_name, said.reason, said.details["waiting"]) == ("planner", WHY["reason"], 1)
    again = open_stage.sender.post(f"{address()}/revoke-previous", WHY)
    assert again.is_refused(409, "Conflict", "signs_alone")


def test_what_is_revoked_does_not_come_back_with_the_next_rotation(open_stage: Stage, receiver: Receiver) -> None:
    made(open_stage)
    second = rotated(open_stage)
    open_stage.sender.post(f"{address()}/revoke-previous", WHY)
    third = rotated(open_stage)
    owner = Owner(open_stage.planner.pk, open_stage.planner.name)
    assert webhooks.signing(owner, receiver.url()) == [third, second]


def test_a_removed_one_signs_nothing_more_and_the_next_shorter_one_does(open_stage: Stage, receiver: Receiver) -> None:
    receiver.statuses = [503]
    broad, narrow = made(open_stage), made(open_stage, receiver.url("/"))
    delivery = ended(open_stage, receiver.url())
    delivering.deliver_due()
    path = address(receiver.url("/"))
    reply = open_stage.sender.send("DELETE", f"{path}{GONE}")
    assert (reply.status, reply.body["url_prefix"]) == (200, receiver.url("/"))
    make_due(delivery)
    delivering.deliver_due()
    assert [hit.is_signed_by(narrow) for hit in receiver.hits] == [True, False]
    assert receiver.hits[1].is_signed_by(broad)
    assert len(receiver.hits[1].signatures) == 1
    said = on_record("removed")
    assert (said.actor_name, said.reason, said.details["waiting"]) == ("planner", WHY["reason"], 1)
    assert open_stage.sender.send("DELETE", f"{path}{GONE}").is_refused(404, "NotFound")


def test_without_another_one_is_made_that_nobody_has_seen(open_stage: Stage, receiver: Receiver) -> None:
    known = made(open_stage)
    ended(open_stage, receiver.url())
    before = WebhookSecret.objects.get()
    assert open_stage.sender.send("DELETE", f"{address()}{GONE}").status == 200
    delivering.deliver_due()
    [hit] = receiver.hits
    assert not hit.is_signed_by(known)
    assert WebhookSecret.objects.get().pk != before.pk


def test_deliveries_that_wait_are_counted_for_the_one_that_signs_them(open_stage: Stage, receiver: Receiver) -> None:
    host, another_host = receiver.url(""), receiver.url("0/else")
    for prefix in ("", host, f"{host}/team/"):
        made(open_stage, prefix)
    for path in ("/team/done", "/team/over", "/else", "/teams", ""):
        ended(open_stage, receiver.url(path))
    Delivery.objects.filter(url__endswith="/over").update(state="dead", next_at=None)
    row = ended(open_stage, receiver.url())
    Delivery.objects.filter(pk=row.pk).update(url=another_host)
    counts = {one.url_prefix: webhook_ends.waiting(one) for one in WebhookSecret.objects.all()}
    assert counts == {"": 1, host: 3, f"{host}/team/": 1}


@pytest.mark.parametrize("verb", ["revoke", "remove"])
def test_only_by_who_may_rotate_it_and_with_a_reason(stage: Stage, verb: str) -> None:
    made(stage)
    rotated(stage)
    path = address()

    def ask(caller: Caller, why: str = "Leaked") -> Reply:
        if verb == "revoke":
            return caller.post(f"{path}/revoke-previous", {"reason": why})
        return caller.send("DELETE", f"{path}?reason={why}")

    for stranger in (stage.stranger, stage.worker, calling(cast.user("pat"))):
        assert ask(stranger).is_refused(404, "NotFound")
    assert ask(calling(cast.user("oscar", "operator"))).is_refused(403, "Unauthorized")
    assert ask(calling(cast.user("ada", "auditor"))).is_refused(403, "Unauthorized", "only_reads")
    assert ask(stage.sender, "").is_refused(400, "InvalidParameters")
    assert WebhookSecret.objects.get().sealed_previous
    assert ask(calling(cast.user("olga"))).status == 200


def test_what_was_removed_meanwhile_is_not_rotated(stage: Stage) -> None:
    made(stage)
    secret, planner = WebhookSecret.objects.get(), actors.identity(stage.planner)
    webhook_ends.remove(actor=planner, secret=secret, reason="Gone")
    with pytest.raises(NotFound):
        webhooks.locked(secret)
