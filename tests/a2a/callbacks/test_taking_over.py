"""A secret for fewer URLs takes them over without a gap: for a day what signed them before signs too."""

import pytest

from a2a import delivering, webhooks
from a2a.models import WebhookSecret
from a2a.webhooks import OVERLAP, Owner
from common.db import clock
from nhi import actors
from tests.a2a.callbacks.conftest import ended, make_due
from tests.a2a.callbacks.receiver import Receiver
from tests.a2a.conftest import Stage
from tests.api.callers import calling
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-06"), pytest.mark.both_databases]
SECRETS = "a2a/webhook-secrets"


def made(stage: Stage, prefix: str) -> str:
    return webhooks.make(actor=actors.identity(stage.planner), url_prefix=prefix).secret


def signed_by(stage: Stage, url: str) -> list[str]:
    return webhooks.signing(Owner(stage.planner.pk, stage.planner.name), url)


def test_a_retry_is_signed_by_both_and_a_day_later_by_the_new_one_alone(open_stage: Stage, receiver: Receiver) -> None:
    receiver.statuses = [503]
    broad = made(open_stage, "")
    delivery = ended(open_stage, receiver.url())
    delivering.deliver_due()
    narrow = made(open_stage, receiver.url("/"))
    make_due(delivery)
    delivering.deliver_due()
    WebhookSecret.objects.update(previous_valid_until=cast.past(seconds=1))
    make_due(delivery)
    delivering.deliver_due()
    signed = [[hit.is_signed_by(one) for one in (broad, narrow)] for hit in receiver.hits]
    assert signed == [[True, False], [True, True], [False, True]]
    assert [len(hit.signatures) for hit in receiver.hits] == [1, 2, 1]
    assert webhooks.forget_previous(clock.database_now()) == 1


def test_so_is_every_callback_to_these_urls_also_where_none_went_yet(open_stage: Stage, receiver: Receiver) -> None:
    broad, narrow = made(open_stage, ""), made(open_stage, receiver.url("/team/"))
    assert signed_by(open_stage, receiver.url("/team/done")) == [narrow, broad]
    assert signed_by(open_stage, receiver.url("/else")) == [broad]
    somebody = calling(cast.user("olga", "operator"))
    assert somebody.post(SECRETS, {"url_prefix": receiver.url("/team/")}).body["previous_valid_until"] is None


def test_a_receiver_that_hears_nothing_while_both_sign_is_given_no_more_time(
    open_stage: Stage, receiver: Receiver
) -> None:
    """The day is one by the clock: it begins and ends without a delivery."""
    old = made(open_stage, "")
    secret = WebhookSecret.objects.get()
    new = webhooks.rotate(actor=actors.identity(open_stage.planner), secret=secret).secret
    assert signed_by(open_stage, receiver.url()) == [new, old]
    assert webhooks.forget_previous(clock.database_now() + OVERLAP) == 1
    assert signed_by(open_stage, receiver.url()) == [new]
    ended(open_stage, receiver.url())
    delivering.deliver_due()
    assert [[hit.is_signed_by(one) for one in (old, new)] for hit in receiver.hits] == [[False, True]]


def test_what_was_promised_to_sign_does_though_another_takes_over(open_stage: Stage, receiver: Receiver) -> None:
    first = made(open_stage, "")
    ended(open_stage, receiver.url())
    planner = actors.identity(open_stage.planner)
    second = webhooks.rotate(actor=planner, secret=WebhookSecret.objects.get()).secret
    third = made(open_stage, receiver.url("/"))
    fourth = webhooks.rotate(actor=planner, secret=WebhookSecret.objects.get(url_prefix=receiver.url("/"))).secret
    assert signed_by(open_stage, receiver.url()) == [fourth, third, second, first]
    with pytest.raises(webhooks.RotatedOften):
        made(open_stage, receiver.url("/d"))
    assert WebhookSecret.objects.count() == 2


def test_it_is_made_though_the_one_before_cannot_be_read(open_stage: Stage, receiver: Receiver) -> None:
    made(open_stage, "")
    ended(open_stage, receiver.url())
    WebhookSecret.objects.update(sealed="changed")
    narrow = made(open_stage, receiver.url("/"))
    assert signed_by(open_stage, receiver.url()) == [narrow]


def test_the_answer_tells_until_when_both_sign(open_stage: Stage, receiver: Receiver) -> None:
    made(open_stage, "")
    ended(open_stage, receiver.url())
    reply = open_stage.sender.post(SECRETS, {"url_prefix": receiver.url("/")})
    row = WebhookSecret.objects.get(url_prefix=receiver.url("/"))
    assert row.previous_valid_until == row.created_at + OVERLAP
    told = open_stage.sender.get(SECRETS).body["webhook_secrets"]
    until = {one["url_prefix"]: one["previous_valid_until"] for one in told}
    assert until == {"": None, row.url_prefix: reply.body["previous_valid_until"]}
    assert reply.body["previous_valid_until"] is not None
