"""Deliveries at the console: the list, one with its attempts, redelivering and calling off one or many, secrets."""

import json
from datetime import timedelta

import pytest
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from a2a import calling_off, deliveries, pushing, signatures, webhooks
from a2a.admin import deliveries_bulk, deliveries_cells, deliveries_filters, deliveries_tabs
from a2a.choices import DeliveryState, Trouble
from a2a.models import Delivery, DisabledUrl, Task, WebhookSecret
from common.ids import uuid7
from examples.callbacks import receiver
from nhi import actors, identities
from nhi.actors import SYSTEM
from nhi.choices import Kind
from nhi.models import AuditEvent, Identity, User
from tests.a2a.console import scene
from tests.a2a.console.scene import OTHER, URL
from tests.console.conftest import SignedIn, identity
from tests.nhi import cast
from tests.supervisor.console.scene import main_of, queries, text

pytestmark = [pytest.mark.capability("A2A-06", "CON-05"), pytest.mark.django_db]
LIST, SECRETS = "/admin/a2a/delivery/", "/admin/a2a/webhooksecret/"
TABS = ("", "sent/", "changes/")
VERBS = ("redeliver/", "stop/", "disable/")
D = DeliveryState


def page_of(row: Delivery, tab: str = "") -> str:
    return f"{LIST}{row.pk}/{tab}"


def listed(client: Client, query: str = "") -> list[str]:
    return [row["id"] for row in client.get(f"{LIST}?{query}").context["rows"]]


def confirmed(client: Client, path: str, **more: str) -> int:
    """Of a dialog that was looked at first."""
    seen = client.get(path).context["seen"]
    return client.post(path, {"reason": "Handled by hand", "seen": seen, **more}).status_code


def words(answer: HttpResponse) -> str:
    return answer.content.decode()


@pytest.fixture
def writer(seeded: None) -> Identity:
    return identity("writer")


@pytest.fixture
def each(writer: Identity) -> dict[str, Delivery]:
    return scene.of_each(writer)


def test_each_standing_is_said_as_it_is_and_found_by_its_name(each: dict[str, Delivery], mara: Client) -> None:
    page = text(mara, LIST)
    soon = timezone.localtime(each["retrying"].next_at).strftime("%H:%M")
    for words in ("Queued", "Delivered", "Gave up", "Not allowed", "Endpoint gone", "Called off", "Retry 3 of 10"):
        assert words in page
    assert soon in page
    for state, row in each.items():
        assert listed(mara, f"state={state}") == [str(row.pk)], state
    for state, row in each.items():
        badge = deliveries_cells.standing(row)
        assert deliveries_filters.label(state) == ("Retrying" if state == "retrying" else badge.label)
        assert f">{deliveries_filters.label(state)}</option>" in page, state
    assert set(listed(mara, "state=tried")) == {str(each[name].pk) for name in ("queued", "retrying")}
    assert set(listed(mara, "state=unheard")) == {str(each[name].pk) for name in ("dead", "blocked", "disabled")}


@pytest.mark.parametrize(
    ("query", "states"),
    [
        ("endpoint=ci.example.org", {"dead", "disabled"}),
        ("endpoint=ci.example.org:8443&state=dead", {"dead"}),
        ("by=mara&span=1h&state=queued", {"queued"}),
        ("by=olga", set()),
        ("q=ci.example", {"dead", "disabled"}),
        ("task=none", set()),
    ],
)
def test_each_filter(each: dict[str, Delivery], mara: Client, query: str, states: set[str]) -> None:
    assert set(listed(mara, query)) == {str(each[state].pk) for state in states}


@pytest.mark.both_databases
def test_ids_find_it_in_the_list_and_in_the_palette(each: dict[str, Delivery], mara: Client) -> None:
    row = each["dead"]
    for term in (row.webhook_id, row.pk, row.task_id, row.task.short_id):
        assert listed(mara, f"q={term}") == [str(row.pk)]
    for term in (row.task_id, row.task.short_id):
        assert listed(mara, f"task={term}") == [str(row.pk)]
    for term in (row.webhook_id, row.pk):
        groups = {group.title: group.hits for group in mara.get("/admin/search/", {"s": str(term)}).context["groups"]}
        assert [hit.url for hit in groups["Deliveries"]] == [page_of(row)]


def test_every_page_opens_for_every_role_and_who_only_reads_sees_no_control(
    each: dict[str, Delivery], signed_in: SignedIn
) -> None:
    row = each["dead"]
    for name in ("admin", "mara", "tom", "olga", "ada"):
        client, may = signed_in(name), name not in ("tom", "ada")
        for tab in TABS:
            page = main_of(text(client, page_of(row, tab)))
            assert [page_of(row, verb) in page for verb in VERBS] == [may] * 3, (name, tab)
        assert ("bulk/redeliver/" in main_of(text(client, LIST))) == may, name
        for verb in () if may else VERBS:
            for method in ("get", "post"):
                answer = getattr(client, method)(page_of(row, verb), {"reason": "No", "seen": ""})
                assert answer.status_code == 403, (name, verb)
    row.refresh_from_db()
    assert row.state == D.DEAD


def test_what_a_receiver_said_is_shown_to_who_sees_all_deliveries_and_to_no_other(
    writer: Identity, signed_in: SignedIn
) -> None:
    """Else who names a URL could read what stands there; over the API nobody reads it."""
    pat = User.objects.create(username="pat", is_staff=True)
    bot = identities.create(actor=SYSTEM, kind=Kind.AGENT, name="pats-bot", owner=pat)
    row = scene.given_up(writer)
    Delivery.objects.filter(pk=row.pk).update(owner_id=bot.pk, owner_name=bot.name)
    said, kept = "until the queue is empty again", "What it said is kept"
    for name in ("admin", "mara", "olga", "tom", "ada"):
        page = main_of(text(signed_in(name), page_of(row)))
        assert (said in page, kept in page) == (True, False), name
    page = main_of(text(signed_in("pat"), page_of(row)))
    assert said not in page
    assert page.count(kept) == row.attempts
    assert "shown to who may see all deliveries" in page


@pytest.mark.both_databases
def test_many_are_listed_in_as_many_queries_as_few_and_a_page_of_one_asks_little(
    each: dict[str, Delivery], writer: Identity, mara: Client
) -> None:
    few = {path: queries(mara, path) for path in (LIST, SECRETS)}
    now, one = timezone.now(), each["queued"]
    Delivery.objects.bulk_create(
        Delivery(
            task_id=one.task_id, webhook_id=uuid7(), owner_id=one.owner_id, owner_name="mara", url=URL, url_mark="m",
            place=one.place, body="{}", created_at=now - timedelta(seconds=number), next_at=now,
        )
        for number in range(1000)
    )  # fmt: skip
    WebhookSecret.objects.bulk_create(
        WebhookSecret(owner_id=writer.pk, owner_name="writer", url_prefix=f"https://{number}.test/", created_at=now)
        for number in range(200)
    )
    for path, count in few.items():
        assert queries(mara, path) <= count <= 15, path
    for tab in TABS:
        assert queries(mara, page_of(each["dead"], tab)) <= 13, tab


def test_what_receivers_said_is_text_and_never_markup(each: dict[str, Delivery], mara: Client) -> None:
    page = main_of(text(mara, page_of(each["dead"])))
    assert page.count("What it said") == 10
    assert "&lt;b&gt;down&lt;/b&gt;" in page
    assert "U+202E" in page
    assert "What it said" not in main_of(text(mara, page_of(each["blocked"])))


def test_a_page_tells_each_attempt_what_is_sent_and_what_signs_it(each: dict[str, Delivery], mara: Client) -> None:
    row = each["dead"]
    shown = mara.get(page_of(row))
    assert [one.number for one in shown.context["log"]] == list(range(10, 0, -1))
    page = main_of(shown.content.decode())
    for words in (
        "Nobody took it in 10 attempts.",
        "10 of 10",
        OTHER,
        str(row.webhook_id),
        f"/admin/a2a/task/{row.task_id}/",
    ):
        assert words in page
    sent = mara.get(page_of(row, "sent/"))
    assert json.loads(sent.context["body"]) == json.loads(row.body)
    assert sent.context["secret"].url_prefix == ""
    secret = WebhookSecret.objects.get(owner_id=row.owner_id)
    assert secret.sealed not in sent.content.decode()


def test_the_ten_lines_that_verify_believe_what_the_example_believes() -> None:
    known: dict[str, object] = {}
    exec(deliveries_tabs.VERIFY, known)
    secret, now = signatures.new_secret(), int(timezone.now().timestamp())
    headers = signatures.headers([secret], webhook_id="one", timestamp=now, body=b"{}")
    for body, believed in ((b"{}", True), (b"[]", False)):
        assert known["is_genuine"](headers, body, secret) is believed  # type: ignore[operator]  # run by path
        assert receiver.is_genuine(headers, body, secret) is believed


def test_an_event_that_is_pushed_says_which_it_is_and_what_was_withdrawn_is_no_dead_letter(
    writer: Identity, mara: Client
) -> None:
    row = scene.told(writer)
    pushed = {"push_id": uuid7(), "event_seq": 3, "state": D.DISABLED, "reason": Trouble.WITHDRAWN, "next_at": None}
    Delivery.objects.filter(pk=row.pk).update(**pushed)
    Task.objects.filter(pk=row.task_id).update(pushes=True, callback_url="")
    assert f"{row.task.short_id} event 3" in text(mara, LIST)
    assert listed(mara, "state=stopped") == [str(row.pk)]
    page = main_of(text(mara, page_of(row)))
    assert "Its receiver was removed before it was told." in page
    assert "event 3" in page
    shown = mara.get(f"/admin/a2a/task/{row.task_id}/deliveries/").context
    assert [one["id"] for one in shown["rows"]] == [str(row.pk)]


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


def test_hostile_text_is_text(writer: Identity, mara: Client) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    row = scene.told(writer)
    Task.objects.filter(pk=row.task_id).update(task_type=hostile, agent_name=hostile)
    Delivery.objects.filter(pk=row.pk).update(body=json.dumps({"result": hostile}), owner_name=hostile, place=hostile)
    for path in (LIST, *(page_of(row, tab) for tab in (*TABS, *VERBS))):
        assert "<script>alert" not in text(mara, path), path


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


def test_dead_letters_are_a_badge_and_a_card_that_lead_to_them(each: dict[str, Delivery], signed_in: SignedIn) -> None:
    olga = signed_in("olga")
    page = olga.get("/admin/")
    url = {card["words"]: card["need"].url for card in page.context["cards"]}[
        "1 dead letter: a callback that nobody took"
    ]
    assert listed(olga, url.partition("?")[2]) == [str(each["dead"].pk)]
    assert f'href="{url}"' in page.content.decode().partition("gh-main")[0]
    for name in ("tom", "ada"):
        assert not any("dead letter" in card["words"] for card in signed_in(name).get("/admin/").context["cards"])


def test_the_export_is_the_list_as_it_is_narrowed_and_shows_no_secret(each: dict[str, Delivery], mara: Client) -> None:
    link = mara.get(f"{LIST}?state=dead").context["export_url"]
    assert link == f"{LIST}export/?state=dead"
    for form in ("csv", "jsonl"):
        lines = b"".join(mara.post(link, {"format": form}).streaming_content).decode().splitlines()
        rows = lines[1:] if form == "csv" else lines
        assert len(rows) == 1
        assert str(each["dead"].webhook_id) in rows[0]
        assert "url_mark" not in lines[0]
    assert AuditEvent.objects.filter(event="export.made", subject_name="deliveries").count() == 2


def test_the_page_of_a_task_tells_whether_its_caller_heard(each: dict[str, Delivery], mara: Client) -> None:
    dead = each["dead"]
    shown = mara.get(f"/admin/a2a/task/{dead.task_id}/deliveries/")
    assert [row["id"] for row in shown.context["rows"]] == [str(dead.pk)]
    assert page_of(dead, "redeliver/") in main_of(shown.content.decode())
    assert [tab.count for tab in shown.context["tabs"] if tab.label == "Deliveries"] == [1]


# ── What signs them ──────────────────────────────────────────────────────────────────────────────────────────────
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


def test_an_owner_without_a_role_in_the_list_of_secrets_sees_their_own(seeded: None) -> None:
    pat = User.objects.create(username="pat")
    bot = identities.create(actor=SYSTEM, kind=Kind.AGENT, name="pats-bot", owner=pat)
    own = webhooks.ensure(webhooks.Owner(bot.pk, bot.name), URL, actor=SYSTEM)
    webhooks.ensure(webhooks.Owner(identity("writer").pk, "writer"), URL, actor=SYSTEM)
    assert list(WebhookSecret.objects.visible_to(actors.person(pat))) == [own]
    assert webhooks.may_rotate(actors.person(pat), own)


def test_an_empty_house_teaches_what_would_be_here(mara: Client) -> None:
    assert "No callback was sent yet" in text(mara, LIST)
    assert "callback_url" in text(mara, LIST)
    assert "Nothing was signed yet" in text(mara, SECRETS)


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
        ({**asked, "url_prefix": "https://elsewhere.example.com/"}, False),
        ({**asked, "url_prefix": "x" * 501}, False),
        ({**asked, "owner": ""}, False),
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
    assert "The one before signs too until" in words(answer)
    assert webhooks.signing(webhooks.Owner(writer.pk, "writer"), URL) == [answer.context["shown"].secret, before]
