"""Many tasks at the console: searching them, cancelling several, taking them away as a file; and their charts."""

import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from a2a.admin import charts_data, tasks_filters
from a2a.models import Delivery, Task
from common.console.charts import CHART_RANGES
from nhi.models import AuditEvent, Identity
from tests.a2a import rows
from tests.a2a.console import scene
from tests.a2a.console.deliveries import LIST
from tests.a2a.console.tasks import CHARTS, TASKS, S, listed
from tests.console.conftest import SignedIn, hub, identity
from tests.console.reading import confirmed, main_of, queries, text
from tests.supervisor.console import scene as runs

pytestmark = [pytest.mark.capability("A2A-02", "CON-02", "CON-05"), pytest.mark.django_db]


def aged(task: Task, **ago: float) -> Task:
    Task.objects.filter(pk=task.pk).update(created_at=timezone.now() - timedelta(**ago))
    return task


@pytest.mark.both_databases
def test_one_line_searches_type_names_and_ids(draft: Task, plan: Task, mara: Client) -> None:
    for term, found in (
        ("draf", [draft]), ("PLANNER", [draft, plan]), ("writer", [draft]), (str(plan.pk), [draft, plan]),
        (draft.short_id, [draft]), (draft.short_id.lower(), [draft]), ("nothing-like-it", []),
    ):  # fmt: skip
        assert listed(mara, f"q={term}") == [str(task) for task in found], term


def test_open_tasks_are_found_by_their_age(draft: Task, plan: Task, mara: Client) -> None:
    aged(plan, hours=3)
    assert listed(mara, "age=1d") == [str(plan)]
    assert listed(mara, "age=1m") == [str(draft)]
    rows.moved(draft, S.REJECTED)
    assert listed(mara, "age=1m") == []


def test_several_are_cancelled_with_their_parts_after_a_page_that_counts(
    draft: Task, plan: Task, planner: Identity, mara: Client
) -> None:
    other, over = rows.sent(planner), rows.moved(rows.sent(planner), S.REJECTED)
    path = f"{TASKS}bulk/cancel/?id={plan.pk}&id={other.pk}&id={over.pk}"
    dialog = mara.get(path)
    assert dialog.context["title"] == "Cancel 2 tasks"
    assert [effect.words for effect in dialog.context["effects"]] == [
        "Ends 2 tasks for good", "1 agent is asked to stop", "1 worker is refused from then on",
        "Also cancels 1 part of them",
    ]  # fmt: skip
    assert dialog.context["skipped"] == [f"{over}: is rejected"]
    assert Task.objects.open().count() == 3
    assert confirmed(mara, path) == 302
    assert not Task.objects.open().exists()
    assert AuditEvent.objects.filter(event="task.cancelled", reason="Handled by hand").count() == 2


def test_all_that_the_filters_leave_are_cancelled_whole_and_parts_alike(draft: Task, plan: Task, mara: Client) -> None:
    kept = rows.sent(identity("triage-bot"))
    path = f"{TASKS}bulk/cancel/?all=1&q=planner"
    assert mara.get(path).context["title"] == "Cancel 2 tasks"
    assert confirmed(mara, path) == 302
    assert list(Task.objects.open()) == [kept]


def test_more_than_a_few_are_cancelled_only_after_their_number_is_typed(planner: Identity, mara: Client) -> None:
    for _ in range(21):
        rows.sent(planner)
    path = f"{TASKS}bulk/cancel/?all=1&state=open"
    assert confirmed(mara, path) == 422
    assert confirmed(mara, path, typed="21") == 302


def test_nobody_cancels_among_others_what_they_may_not_alone(draft: Task, plan: Task, signed_in: SignedIn) -> None:
    tom = signed_in("tom")
    assert "bulk/cancel/" not in main_of(text(tom, TASKS))
    path = f"{TASKS}bulk/cancel/?all=1&state=open"
    assert tom.get(path).context["title"] == "Cancel 0 tasks"
    for method in ("get", "post"):
        assert getattr(signed_in("ada"), method)(path, {"reason": "No"}).status_code == 403
    assert Task.objects.open().count() == 2


def test_the_export_is_the_list_as_it_is_narrowed(draft: Task, plan: Task, signed_in: SignedIn) -> None:
    Task.objects.filter(pk=draft.pk).update(sealed_callback_url="sealed-away")
    mara = signed_in("mara")
    link = mara.get(f"{TASKS}?q=draft&state=open").context["export_url"]
    assert link == f"{TASKS}export/?q=draft&state=open"
    csv, jsonl = (
        b"".join(mara.post(link, {"format": form}).streaming_content).decode() for form in ("csv", "jsonl")
    )  # fmt: skip
    assert len(csv.splitlines()) == 2
    assert "planner" in csv
    row = json.loads(jsonl)
    assert (row["id"], row["input"]) == (str(draft.pk), rows.ASKED)
    assert "sealed-away" not in jsonl
    assert "lease_mark" not in row
    ada = signed_in("ada")
    assert b"draft" in b"".join(ada.get(f"{link}&format=csv").streaming_content)
    assert signed_in("olga").get(TASKS).context["export_url"] == ""


# ── Charts and cards ─────────────────────────────────────────────────────────────────────────────────────────────
def test_failed_tasks_are_a_card_that_leads_to_them(plan: Task, planner: Identity, signed_in: SignedIn) -> None:
    failed = rows.moved(plan, S.FAILED, error_code="unreadable")
    aged(rows.moved(rows.sent(planner), S.REJECTED), days=2)
    olga = signed_in("olga")
    cards = {card["words"]: card["need"].url for card in olga.get("/admin/").context["cards"]}
    url = cards["1 task failed in the last 24 h"]
    assert listed(olga, url.partition("?")[2]) == [str(failed)]


def test_the_charts_say_in_a_sentence_what_they_draw_and_lead_to_exactly_that(
    draft: Task, plan: Task, planner: Identity, mara: Client
) -> None:
    mara.cookies["zone"] = "Asia/Kathmandu"
    done = rows.moved(aged(rows.sent(planner), hours=5), S.WORKING)
    rows.moved(done, S.COMPLETED)
    failed = rows.moved(aged(rows.sent(planner), hours=5), S.FAILED)
    aged(draft, hours=3)
    dead = scene.given_up(planner)
    flow, ages, told = mara.get(CHARTS).context["charts"]
    assert flow.summary == "5 tasks were sent; of these 1 completed, 2 failed or were rejected, 2 are not done yet."
    assert ages.summary == "2 tasks are open; the oldest for 1 to 24 h."
    assert told.summary == "0 of 1 deliveries that are over were heard (0 %); 0 are still tried."
    series = {one["name"]: one for one in flow.config["series"]}
    assert series["Sent"]["values"][-6] == 2
    assert [series[name]["values"][-1] for name in ("Sent", "Completed", "Failed")] == [2, 1, 2]
    ended = series["Failed"]["urls"][-1] + series["Failed"]["query"]
    assert set(listed(mara, ended.partition("?")[2])) == {str(failed), str(dead.task)}
    assert len(listed(mara, flow.rows[-6]["url"].partition("?")[2])) == 2
    for row, names in zip(ages.rows, ([plan], [], [], [draft], [], []), strict=True):
        assert listed(mara, row["url"].partition("?")[2]) == [str(task) for task in names], row["label"]
    over = told.config["urls"][-1] + told.config["series"][-1]["query"]
    assert [row["id"] for row in mara.get(over).context["rows"]] == [str(dead.pk)]


def test_every_delivery_is_in_one_part_of_its_bar_and_in_the_list_behind_it(planner: Identity, mara: Client) -> None:
    scene.of_each(planner)
    chart = mara.get(CHARTS, {"only": "deliveries"}).context["charts"][0]
    drawn = {one["name"]: one for one in chart.config["series"]}
    assert {name: one["values"][-1] for name, one in drawn.items()} == {
        "Delivered": 1, "Still tried": 2, "Called off": 1, "Not delivered": 3
    }  # fmt: skip
    for name, one in drawn.items():
        found = mara.get(chart.config["urls"][-1] + one["query"]).context["rows"]
        assert len(found) == one["values"][-1], name


@pytest.mark.both_databases
def test_charts_ask_as_much_of_many_as_of_few(planner: Identity, mara: Client) -> None:
    told = scene.told(planner)
    few = queries(mara, CHARTS)
    now = timezone.now()
    Task.objects.bulk_create(
        Task(
            agent=planner, agent_name="planner", created_by_kind="user", created_by_name="mara", context_id="one",
            state=state, created_at=now - timedelta(minutes=number), completed_at=ended,
        )
        for number in range(500)
        for state, ended in ((S.WORKING, None), (S.COMPLETED, now))
    )  # fmt: skip
    assert queries(mara, CHARTS) <= few <= 15
    bars = charts_data.flow(Task.objects.all(), CHART_RANGES["24h"])
    assert [sum(bar.of(what) for bar in bars) for what in ("sent", "completed", "open")] == [1001, 500, 500]
    assert Delivery.objects.get().pk == told.pk


def test_home_has_the_charts_of_tasks_for_who_reads_them_all(plan: Task, signed_in: SignedIn) -> None:
    for name in ("mara", "tom", "ada"):
        assert f'data-charts="{CHARTS}?range=24h"' in text(signed_in(name), "/admin/"), name
    page = text(signed_in("mara"), TASKS)
    assert f'data-charts="{CHARTS}?only=tasks"' in page
    scene.told(identity("planner"))
    assert f'data-charts="{CHARTS}?only=deliveries"' in text(signed_in("mara"), LIST)


def test_a_house_without_tasks_draws_nothing_and_says_what_would_be_here(mara: Client) -> None:
    assert CHARTS not in text(mara, "/admin/")
    assert "Nothing to draw" in text(mara, CHARTS)


def test_ages_leave_no_gap_and_cover_no_moment_twice() -> None:
    spans = [(least, most) for _, least, most in tasks_filters.AGES.values()]
    assert spans[0][0] == timedelta()
    assert [most for _, most in spans[:-1]] == [least for least, _ in spans[1:]]
    assert spans[-1][1] is None


# ── How it is reached ────────────────────────────────────────────────────────────────────────────────────────────
def test_the_tab_of_an_agent_says_how_it_is_reached_over_a2a(seeded: None, mara: Client) -> None:
    page = main_of(text(mara, hub("writer", "connect/")))
    for words in (
        "/agents/writer/", "/agents/writer/.well-known/agent-card.json", "SendMessage",
        str(identity("writer").pk), "/api/nhi/a2a/tasks", "/api/nhi/a2a/inbox/claim", '"wait": 20',
    ):  # fmt: skip
        assert words in page, words
    assert "/agents/AGENT/" in main_of(text(mara, hub("ci", "connect/")))


def test_no_inbox_is_named_where_a_program_does_its_tasks(seeded: None, mara: Client) -> None:
    runs.agent("draft", of="writer")
    page = main_of(text(mara, hub("writer", "connect/")))
    assert "SendMessage" in page
    assert "a2a/inbox" not in page
