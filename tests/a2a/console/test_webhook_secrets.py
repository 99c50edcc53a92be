"""What signs deliveries: made, rotated and ended by who may, shown once."""

import pytest
from django.utils.html import strip_tags

from a2a import webhooks
from a2a.models import Delivery, WebhookSecret
from common.ids import uuid7
from nhi import actors
from nhi.actors import SYSTEM
from nhi.choices import Kind
from nhi.identities import identities
from nhi.models import AuditEvent, Identity, User
from tests.a2a.console import scene
from tests.a2a.console.deliveries import SECRETS
from tests.a2a.console.scene import URL
from tests.console.conftest import SignedIn, identity
from tests.console.reading import main_of, queries, text, words

pytestmark = [pytest.mark.capability("A2A-06", "CON-05"), pytest.mark.django_db]


def test_secrets_are_rotated_by_who_may_and_shown_once(writer: Identity, signed_in: SignedIn) -> None:
    ours = webhooks.ensure(webhooks.Owner(writer.pk, "writer"), URL, actor=SYSTEM)
    toms = webhooks.ensure(webhooks.Owner(User.objects.get(username="tom").pk, "tom"), URL, actor=SYSTEM)
    for name, rotated in (("mara", {ours}), ("olga", {ours}), ("tom", {toms}), ("ada", set())):
        page = main_of(text(signed_in(name), SECRETS))
        assert {row for row in (ours, toms) if f"{SECRETS}{row.pk}/rotate/" in page} == rotated, name
        assert ours.sealed not in page
    assert signed_in("ada").get(f"{SECRETS}{ours.pk}/rotate/").status_code == 403
    mara = signed_in("mara")
    answer = mara.post(f"{SECRETS}{ours.pk}/rotate/", {"seen": "both:1,before:0"})
    assert (answer.status_code, answer.headers["Cache-Control"].split(",")[0]) == (200, "no-store")
    shown = answer.context["shown"].secret
    assert shown in answer.content.decode()
    assert shown == webhooks.signing(webhooks.Owner(writer.pk, "writer"), URL)[0]
    assert shown not in text(mara, SECRETS)
    assert "until" in main_of(text(mara, SECRETS))


def test_what_ends_a_secret_is_shown_to_who_may_and_says_what_it_touches(writer: Identity, signed_in: SignedIn) -> None:
    mara = signed_in("mara")
    person = actors.person(User.objects.get(username="mara"))
    ours = webhooks.make(actor=person, url_prefix="", holder=writer).row
    Delivery.objects.filter(pk=scene.told(writer).pk).update(owner_id=writer.pk)
    revoke, remove = (f"{SECRETS}{ours.pk}/{verb}/" for verb in ("revoke-previous", "remove"))
    assert revoke not in text(mara, SECRETS)
    assert "It signs alone already." in text(mara, revoke)
    webhooks.rotate(actor=person, secret=ours)
    for path in (revoke, remove):
        assert path in main_of(text(mara, SECRETS))
        assert path not in text(signed_in("ada"), SECRETS)
        assert signed_in("ada").get(path).status_code == 403
        assert signed_in("tom").get(path).status_code == 403
        assert "1 delivery that waits" in words(mara.get(path))
        # More waits by now than was told.
        assert mara.post(path, {"seen": "waiting:0,refused:1,trusted:1,later:1", "reason": "Leaked"}).status_code == 409
        assert mara.post(path, {"seen": "waiting:1,refused:1,trusted:1,later:1", "reason": ""}).status_code == 422
    asked = {"seen": "waiting:1,refused:1,trusted:1,later:1", "reason": "Leaked"}
    assert mara.post(revoke, asked).status_code == 302
    assert revoke not in text(mara, SECRETS)
    webhooks.make(actor=person, url_prefix="https://hooks.example.com/", holder=writer)
    narrow = WebhookSecret.objects.get(url_prefix="https://hooks.example.com/")
    assert "signed by the one for any URL" in words(mara.get(f"{SECRETS}{narrow.pk}/remove/"))
    assert mara.post(remove, asked).status_code == 302
    assert list(WebhookSecret.objects.filter(owner_id=writer.pk)) == [narrow]
    told = AuditEvent.objects.filter(event__in=("webhook_secret.previous_revoked", "webhook_secret.removed"))
    assert {(row.actor_name, row.reason, row.holder_id) for row in told} == {("mara", "Leaked", writer.pk)}


def test_an_owner_without_a_role_in_the_list_of_secrets_sees_their_own(seeded: None) -> None:
    pat = User.objects.create(username="pat")
    bot = identities.create(actor=SYSTEM, kind=Kind.AGENT, name="pats-bot", owner=pat)
    own = webhooks.ensure(webhooks.Owner(bot.pk, bot.name), URL, actor=SYSTEM)
    webhooks.ensure(webhooks.Owner(identity("writer").pk, "writer"), URL, actor=SYSTEM)
    assert list(WebhookSecret.objects.visible_to(actors.person(pat))) == [own]
    assert webhooks.may_rotate(actors.person(pat), own)


def test_a_secret_is_made_for_oneself_or_an_identity_that_one_speaks_for_and_shown_once(
    writer: Identity, signed_in: SignedIn
) -> None:
    make, prefix = f"{SECRETS}make/", "https://hooks.example.com/"
    assert signed_in("ada").get(make).status_code == 403
    assert make not in text(signed_in("ada"), SECRETS)
    mara = signed_in("mara")
    assert make in main_of(text(mara, SECRETS))
    assert mara.get(f"{make}?owner={writer.pk}").context["form"]["owner"].value() == "writer"
    answer = mara.post(make, {"owner": "writer", "url_prefix": prefix})
    assert (answer.status_code, answer.headers["Cache-Control"].split(",")[0]) == (200, "no-store")
    shown = answer.context["shown"].secret
    assert shown in answer.content.decode()
    assert webhooks.signing(webhooks.Owner(writer.pk, "writer"), URL)[0] == shown
    assert shown not in text(mara, SECRETS)
    assert AuditEvent.objects.filter(event="webhook_secret.made", holder_id=writer.pk, actor_name="mara").exists()
    again = mara.post(make, {"owner": "writer", "url_prefix": prefix})
    assert again.status_code == 409
    assert "writer has a webhook secret for this prefix." in again.content.decode()
    wrong = mara.post(make, {"owner": "writer", "url_prefix": "hooks.example.com"})
    assert wrong.context["form"].errors["url_prefix"]
    # tom approves: he sees writer and speaks for triage-bot, and for himself.
    tom = signed_in("tom")
    refused = tom.post(make, {"owner": "writer", "url_prefix": ""})
    assert refused.context["form"].errors["owner"] == ["You may not make a webhook secret for writer."]
    for owner in ("triage-bot", ""):
        assert tom.post(make, {"owner": owner, "url_prefix": ""}).status_code == 200, owner
    made = WebhookSecret.objects.values_list("owner_name", flat=True)
    assert sorted(made) == ["tom", "triage-bot", "writer"]


def test_who_makes_a_secret_sees_first_what_else_signs_these_urls_and_until_when(
    writer: Identity, signed_in: SignedIn
) -> None:
    make, mara, said = f"{SECRETS}make/", signed_in("mara"), "are also signed by the one for any URL until"
    before = webhooks.make(actor=actors.person(User.objects.get(username="mara")), url_prefix="", holder=writer).secret
    Delivery.objects.filter(pk=scene.told(writer).pk).update(owner_id=writer.pk)
    asked = {"owner": "writer", "url_prefix": URL}
    for form, told in (
        (asked, True),
        ({**asked, "url_prefix": "https://elsewhere.example.com/"}, True),
        ({**asked, "url_prefix": "x" * 501}, False),
        ({**asked, "owner": ""}, True),
        ({**asked, "owner": "nobody-here"}, False),
    ):
        assert (said in words(mara.post(f"{make}preview/", form))) == told, form
    # tom sees writer and may not make one for it.
    assert said not in words(signed_in("tom").post(f"{make}preview/", asked))
    assert signed_in("ada").post(f"{make}preview/", asked).status_code == 403
    assert mara.get(f"{make}preview/").status_code == 405
    # Without scripts it is seen at the first press.
    unseen = mara.post(make, asked)
    assert (unseen.status_code, said in words(unseen)) == (409, True)
    answer = mara.post(make, {**asked, "seen": unseen.context["seen"]})
    assert answer.status_code == 200
    assert "<dt>Signs too</dt> <dd>the one for any URL, until" in words(answer)
    assert webhooks.signing(webhooks.Owner(writer.pk, "writer"), URL) == [answer.context["shown"].secret, before]


def test_the_list_says_which_secret_signs_too_whatever_their_number(writer: Identity, signed_in: SignedIn) -> None:
    mara, person = signed_in("mara"), actors.person(User.objects.get(username="mara"))
    webhooks.make(actor=person, url_prefix="", holder=writer)
    assert "the one for" not in main_of(text(mara, SECRETS))
    first = webhooks.make(actor=person, url_prefix="https://one.example.com/", holder=writer).row
    few = queries(mara, SECRETS)
    webhooks.make(actor=person, url_prefix="https://one.example.com/in/", holder=writer)
    assert queries(mara, SECRETS) == few
    page = strip_tags(words(mara.get(SECRETS)))
    assert "the one for any URL, until" in page
    assert "the one for https://one.example.com/, until" in page
    assert "the one before, until" not in page
    assert "Let it sign alone" in words(mara.get(f"{SECRETS}{first.pk}/revoke-previous/"))
    webhooks.rotate(actor=person, secret=first)
    page = strip_tags(words(mara.get(SECRETS)))
    assert "the one before, until" in page
    assert "the one for any URL, until" not in page
    assert "Revoke the one before" in words(mara.get(f"{SECRETS}{first.pk}/revoke-previous/"))


def test_one_of_which_it_is_not_on_record_is_named_as_another(writer: Identity, signed_in: SignedIn) -> None:
    """Those of before that was recorded."""
    person = actors.person(User.objects.get(username="mara"))
    webhooks.make(actor=person, url_prefix="", holder=writer)
    row = webhooks.make(actor=person, url_prefix=URL, holder=writer).row
    WebhookSecret.objects.filter(pk=row.pk).update(id=uuid7())
    assert "another secret, until" in words(signed_in("mara").get(SECRETS))
