"""Redelivering and calling off one delivery or many, and disabling a URL: each says its effect first."""

import pytest
from django.test import Client
from django.utils import timezone

from a2a import calling_off, deliveries, pushing
from a2a.admin import deliveries_bulk
from a2a.models import Delivery, DisabledUrl
from nhi.actors import SYSTEM
from nhi.models import AuditEvent, Identity
from tests.a2a.console import scene
from tests.a2a.console.deliveries import LIST, D, listed, page_of
from tests.a2a.console.scene import OTHER
from tests.console.conftest import SignedIn, identity
from tests.console.reading import confirmed, main_of, text
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-06", "CON-05"), pytest.mark.django_db]


def test_what_has_no_receiver_any_more_is_not_offered_to_be_sent_again(
    each: dict[str, Delivery], writer: Identity, mara: Client
) -> None:
    dead, gone = each["dead"], scene.given_up(writer)
    config = pushing.make(actor=SYSTEM, task=gone.task, asked={"url": OTHER}, wire_version="1.0")
    Delivery.objects.filter(pk=gone.pk).update(push_id=config.pk, event_seq=2)
    on_task = f"/admin/a2a/task/{gone.task_id}/deliveries/"
    two = f"{LIST}bulk/redeliver/?id={dead.pk}&id={gone.pk}"
    assert [one.blocked for one in mara.get(page_of(gone)).context["controls"]] == [""]
    assert [one.url for one in mara.get(on_task).context["again"]] == [page_of(gone, "redeliver/")]
    assert mara.get(two).context["skipped"] == []
    pushing.take_away(actor=SYSTEM, task=gone.task, config_id=config.config_id)
    assert [one.blocked for one in mara.get(page_of(gone)).context["controls"]] == [deliveries.GONE]
    assert mara.get(page_of(gone, "redeliver/")).context["impossible"] == deliveries.GONE
    assert mara.get(on_task).context["again"] == []
    assert mara.get(two).context["skipped"] == [f"{gone}: has no receiver any more"]
    for query in (two, f"{LIST}bulk/redeliver/?all=1&state=dead"):
        assert mara.get(query).context["title"] == "Redeliver 1 delivery to 1 endpoint"
    assert len(mara.get(two).context["names"]) == 1


def test_a_disabled_url_is_counted_for_its_own_owner_alone(
    each: dict[str, Delivery], writer: Identity, mara: Client
) -> None:
    """triage-bot's delivery goes to the URL that mara's is disabled at."""
    cast.nhi_grant(identity("triage-bot"), writer)
    of_mara, of_bot = each["dead"], scene.given_up(writer, source_agent_id=identity("triage-bot").pk)
    assert of_mara.url_mark == of_bot.url_mark
    DisabledUrl.objects.create(owner_id=of_mara.owner_id, url_mark=of_mara.url_mark, at=timezone.now())
    for rows, count in (([of_bot], 0), ([of_mara], 1), ([of_mara, of_bot], 1)):
        asked = "&".join(f"id={row.pk}" for row in rows)
        effects = {one.name: one.count for one in mara.get(f"{LIST}bulk/redeliver/?{asked}").context["effects"]}
        assert effects.get("urls", 0) == count, rows


def test_what_waits_for_its_next_attempt_is_tried_at_once(each: dict[str, Delivery], mara: Client) -> None:
    row = each["retrying"]
    page = main_of(text(mara, page_of(row)))
    assert "Try now" in page
    path = page_of(row, "redeliver/")
    assert "At once, instead of when its next attempt is due." in text(mara, path)
    assert confirmed(mara, path) == 302
    before, row.next_at = row.next_at, None
    row.refresh_from_db()
    assert (row.state, row.attempts, row.attempts_before) == (D.PENDING, 2, 0)
    assert row.next_at is not None
    assert row.next_at < before
    assert "It is being delivered already." in text(mara, path)


@pytest.mark.parametrize(
    ("verb", "state", "event"),
    [
        ("redeliver/", D.PENDING, "delivery.redelivered"),
        ("stop/", D.DISABLED, "delivery.stopped"),
        ("disable/", D.DEAD, "delivery.url_disabled"),
    ],
)
def test_each_verb_says_its_effect_and_is_on_record(
    each: dict[str, Delivery], mara: Client, verb: str, state: str, event: str
) -> None:
    row = each["dead"]
    dialog = mara.get(page_of(row, verb))
    assert row.task.short_id in dialog.context["title"] or "ci.example.org" in dialog.context["title"]
    assert confirmed(mara, page_of(row, verb)) == 302
    row.refresh_from_db()
    assert row.state == state
    assert AuditEvent.objects.filter(event=event, subject_id=row.pk, actor_name="mara").exists()
    assert "mara" in main_of(text(mara, page_of(row, "changes/")))


def test_what_the_state_forbids_is_said(each: dict[str, Delivery], mara: Client) -> None:
    assert "It is being delivered already." in text(mara, page_of(each["queued"], "redeliver/"))
    assert "It is not tried any more." in text(mara, page_of(each["delivered"], "stop/"))


def test_disabling_a_url_counts_what_waits_and_asks_again_when_it_grew(writer: Identity, mara: Client) -> None:
    row = scene.told(writer)
    dialog = mara.get(page_of(row, "disable/"))
    assert "Calls off 1 delivery that waits for it" in dialog.content.decode()
    scene.told(writer)
    body = {"reason": "Wrong URL", "seen": dialog.context["seen"]}
    again = mara.post(page_of(row, "disable/"), body)
    assert (again.status_code, DisabledUrl.objects.count()) == (409, 0)
    assert mara.post(page_of(row, "disable/"), {**body, "seen": again.context["seen"]}).status_code == 302
    assert not Delivery.objects.pending().exists()
    assert calling_off.is_disabled(row)
    assert len(listed(mara, "state=stopped")) == 2
    assert "Nothing of mara goes to this URL already" in text(mara, page_of(row, "disable/"))


def test_several_are_redelivered_by_filter_after_a_page_that_counts_them(
    each: dict[str, Delivery], writer: Identity, mara: Client
) -> None:
    dead = [each["dead"], *(scene.given_up(writer, url=f"https://{name}.example.net/") for name in ("a", "b"))]
    path = f"{LIST}bulk/redeliver/?all=1&state=dead"
    shown = mara.get(path)
    assert shown.context["title"] == "Redeliver 3 deliveries to 3 endpoints"
    assert Delivery.objects.filter(state=D.DEAD).count() == 3
    assert confirmed(mara, path) == 302
    assert set(Delivery.objects.pending().values_list("pk", flat=True)) >= {row.pk for row in dead}
    assert not Delivery.objects.filter(state=D.DEAD).exists()
    each["delivered"].refresh_from_db()
    assert each["delivered"].state == D.DELIVERED
    assert AuditEvent.objects.filter(event="delivery.redelivered").count() == 3


@pytest.mark.parametrize(
    ("verb", "how"),
    [
        ("redeliver", "for the others, narrow the filter by Happened from and Happened until"),
        ("stop", "the others after that, in the same way"),
    ],
)
def test_of_more_than_are_taken_at_once_it_says_how_to_get_to_the_others(
    writer: Identity, mara: Client, monkeypatch: pytest.MonkeyPatch, verb: str, how: str
) -> None:
    monkeypatch.setattr(deliveries_bulk.Bulk, "most", 1)
    for _ in range(2):
        scene.given_up(writer)
    assert f"These are the newest 1; {how}." in mara.get(f"{LIST}bulk/{verb}/?all=1").content.decode()


def test_what_was_ticked_and_does_not_fit_is_skipped_and_said(each: dict[str, Delivery], mara: Client) -> None:
    ids = "&".join(f"id={each[name].pk}" for name in ("dead", "queued", "blocked"))
    shown = mara.get(f"{LIST}bulk/redeliver/?{ids}")
    assert shown.context["title"] == "Redeliver 2 deliveries to 2 endpoints"
    assert len(shown.context["skipped"]) == 1
    assert confirmed(mara, f"{LIST}bulk/stop/?{ids}") == 302
    states = {name: Delivery.objects.get(pk=each[name].pk).state for name in ("dead", "queued", "blocked")}
    assert set(states.values()) == {D.DISABLED}


def test_many_are_called_off_only_after_their_number_is_typed(writer: Identity, mara: Client) -> None:
    for _ in range(21):
        scene.told(writer)
    path = f"{LIST}bulk/stop/?all=1&by=mara"
    assert confirmed(mara, path) == 422
    assert confirmed(mara, path, typed="21") == 302
    assert not Delivery.objects.pending().exists()


def test_owners_without_a_right_act_on_their_own_alone(each: dict[str, Delivery], signed_in: SignedIn) -> None:
    """tom, an approver, sees them all; those of his own identity he may redeliver too."""
    bot, writer = identity("triage-bot"), identity("writer")
    cast.nhi_grant(bot, writer)
    own = scene.given_up(writer, source_agent_id=bot.pk)
    assert own.owner_name == "triage-bot"
    tom = signed_in("tom")
    assert tom.get(f"{LIST}bulk/redeliver/?all=1&state=dead").context["title"] == "Redeliver 1 delivery to 1 endpoint"
    assert confirmed(tom, page_of(own, "redeliver/")) == 302
    assert tom.get(page_of(each["dead"], "redeliver/")).status_code == 403
