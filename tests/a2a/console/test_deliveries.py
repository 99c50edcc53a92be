"""Deliveries at the console: the list, one with its attempts, and where else they are told of."""

import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from a2a import signatures
from a2a.admin import deliveries_cells, deliveries_filters, deliveries_tabs
from a2a.choices import Trouble
from a2a.models import Delivery, Task, WebhookSecret
from common.ids import uuid7
from examples.callbacks import receiver
from nhi.actors import SYSTEM
from nhi.choices import Kind
from nhi.identities import identities
from nhi.models import AuditEvent, Identity, User
from tests.a2a.console import scene
from tests.a2a.console.deliveries import LIST, SECRETS, TABS, VERBS, D, listed, page_of
from tests.a2a.console.scene import OTHER, URL
from tests.console.conftest import SignedIn
from tests.console.reading import main_of, queries, text

pytestmark = [pytest.mark.capability("A2A-06", "CON-05"), pytest.mark.django_db]


def test_each_standing_is_said_as_it_is_and_found_by_its_name(each: dict[str, Delivery], mara: Client) -> None:
    page = text(mara, LIST)
    soon = timezone.localtime(each["retrying"].next_at).strftime("%H:%M")
    for said in ("Queued", "Delivered", "Gave up", "Not allowed", "Endpoint gone", "Called off", "Retry 3 of 10"):
        assert said in page
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
    for said in (
        "Nobody took it in 10 attempts.",
        "10 of 10",
        OTHER,
        str(row.webhook_id),
        f"/admin/a2a/task/{row.task_id}/",
    ):
        assert said in page
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


def test_hostile_text_is_text(writer: Identity, mara: Client) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    row = scene.told(writer)
    Task.objects.filter(pk=row.task_id).update(task_type=hostile, agent_name=hostile)
    Delivery.objects.filter(pk=row.pk).update(body=json.dumps({"result": hostile}), owner_name=hostile, place=hostile)
    for path in (LIST, *(page_of(row, tab) for tab in (*TABS, *VERBS))):
        assert "<script>alert" not in text(mara, path), path


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


def test_an_empty_house_teaches_what_would_be_here(mara: Client) -> None:
    assert "No callback was sent yet" in text(mara, LIST)
    assert "callback_url" in text(mara, LIST)
    assert "Nothing was signed yet" in text(mara, SECRETS)
