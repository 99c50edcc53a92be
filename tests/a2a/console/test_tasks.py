"""Tasks at the console: the list, one task with its tabs, cancelling it, and who finds what."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from a2a import demo, sending
from a2a.admin import tasks_filters
from a2a.models import Task
from common.ids import uuid7
from nhi.models import Identity, NhiPermission, User
from tests.a2a import rows
from tests.a2a.console.tasks import INBOXES, TABS, TASKS, S, listed, page_of
from tests.console.conftest import SignedIn, hub, identity
from tests.console.reading import main_of, queries, text

pytestmark = [pytest.mark.capability("A2A-02", "CON-05"), pytest.mark.django_db]
PART = {"X-Console-Part": "1"}


def test_every_page_opens_for_every_role_and_who_only_reads_sees_no_control(draft: Task, signed_in: SignedIn) -> None:
    of_agent = hub("writer", "tasks/")
    for name in ("admin", "mara", "tom", "olga", "ada"):
        client = signed_in(name)
        for path in (TASKS, INBOXES, of_agent, *(page_of(draft, tab) for tab in TABS)):
            page = main_of(text(client, path))
            may = name not in ("tom", "ada") and path.startswith(page_of(draft))
            assert (page_of(draft, "cancel/") in page) == may, (name, path)


@pytest.mark.both_databases
def test_many_tasks_are_listed_in_as_many_queries_as_few_and_a_page_of_one_asks_little(
    draft: Task, plan: Task, mara: Client
) -> None:
    few = {path: queries(mara, path) for path in (TASKS, INBOXES)}
    now = timezone.now()
    Task.objects.bulk_create(
        Task(
            agent=draft.agent, agent_name="writer", source=draft.source, created_by_kind="user", created_by_name="mara",
            context_id="one", parent=plan, created_at=now - timedelta(seconds=number),
        )
        for number in range(1000)
    )  # fmt: skip
    for path, count in few.items():
        assert queries(mara, path) <= count <= 15, path
    # Eight of its own, on top of the session, the person, their rights and what needs them.
    for tab in TABS:
        for task in (draft, plan):
            assert queries(mara, page_of(task, tab)) <= 13, tab
    assert queries(mara, hub("writer", "tasks/")) <= 15


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("state=open", ["draft", "plan"]),
        ("state=working", ["plan"]),
        ("state=offered", ["draft"]),
        ("state=waiting", []),
        ("state=wrong", ["sort"]),
        ("agent=writer", ["draft"]),
        ("from=planner", ["draft"]),
        ("from=MARA", ["sort", "plan"]),
        ("type=plan", ["plan"]),
        ("parent=any", []),
        ("span=1h", ["sort", "draft", "plan"]),
        ("needs=me", []),
    ],
)
def test_each_filter(draft: Task, mara: Client, query: str, names: list[str]) -> None:
    rows.moved(rows.sent(identity("triage-bot"), task_type="sort"), S.REJECTED)
    assert [row.split()[-1] for row in listed(mara, query)] == [
        {"draft": "writer", "plan": "planner", "sort": "triage-bot"}[name] for name in names
    ]


def test_the_parts_of_a_task_are_a_filter_too(draft: Task, plan: Task, mara: Client) -> None:
    assert listed(mara, f"parent={plan.pk}") == [str(draft)]


def test_what_needs_input_is_counted_for_who_can_give_it_and_leads_to_its_list(
    draft: Task, signed_in: SignedIn
) -> None:
    """olga may send tasks to any agent, but speaks in her own only; mara in those of every identity too."""
    asked = rows.moved(rows.sent(identity("triage-bot")), S.AUTH_REQUIRED, "Sign in over there.")
    rows.moved(draft, S.INPUT_REQUIRED, "Who is it for?")
    own = rows.moved(rows.sent(identity("triage-bot"), by="olga"), S.INPUT_REQUIRED, "Which one?")
    for name, words, tasks in (
        ("mara", "2 tasks need input or sign-in", [asked, draft]),
        ("olga", "1 task needs input or sign-in", [own]),
    ):
        client = signed_in(name)
        cards = {card["words"]: card["need"].url for card in client.get("/admin/").context["cards"]}
        assert listed(client, cards[words].partition("?")[2]) == [str(task) for task in tasks]
        for task in (asked, draft, own):
            answers = page_of(task, "reply/") in main_of(text(client, page_of(task)))
            assert answers == (task in tasks), (name, task)
    for name in ("tom", "ada"):
        assert not any("sign-in" in card["words"] for card in signed_in(name).get("/admin/").context["cards"]), name


def test_without_a_right_to_send_it_is_what_one_asked_for_or_ones_agents_did(draft: Task, signed_in: SignedIn) -> None:
    rows.moved(draft, S.INPUT_REQUIRED)
    tom = signed_in("tom")
    assert listed(tom, "needs=me") == []
    Task.objects.filter(pk=draft.pk).update(source=identity("triage-bot"))
    assert listed(tom, "needs=me") == [str(draft)]


def test_the_page_says_whom_the_task_waits_for(draft: Task, mara: Client) -> None:
    assert "No worker of writer has taken it yet." in text(mara, page_of(draft))
    rows.claimed(draft, 3600)
    page = text(mara, page_of(draft))
    assert "A worker of writer has it." in page
    assert "Lease</dt>" in page
    assert "1 of 5" in page
    Task.objects.filter(pk=draft.pk).update(lease_until=timezone.now() - timedelta(minutes=5))
    page = text(mara, page_of(draft))
    assert "writer is offered it again." in page
    assert "Lease</dt>" not in page
    rows.moved(draft, S.INPUT_REQUIRED, "Who is it for?")
    assert "It waits for planner to say more." in text(mara, page_of(draft))
    rows.answered(draft, "Customers")
    rows.moved(draft, S.FAILED, error_code="unreadable", error_message="I could not read it.")
    page = text(mara, page_of(draft))
    assert "I could not read it." in page
    assert "over the API: failed" in page
    assert page_of(draft, "cancel/") not in page


def test_the_timeline_numbers_what_happened_in_its_order(draft: Task, mara: Client) -> None:
    rows.claimed(draft)
    rows.made(draft, {"notes": "All agreed."})
    rows.moved(draft, S.INPUT_REQUIRED, "Who is it for?")
    sending.say(caller=rows.caller("mara"), task=draft, message=rows.said("Customers"))
    lines = mara.get(page_of(draft)).context["lines"]
    assert [(line.seq, line.badge.label, line.words) for line in lines] == [
        (1, "Submitted", "sent by mara, in the name of planner, grant call"),
        (2, "Working", "claimed by writer (inbox)"),
        (3, "Artifact", "draft"),
        (4, "Needs input", ""),
        (5, "Message", "by mara, in the name of planner"),
        (6, "Working", ""),
    ]
    assert [piece.body for line in lines for piece in line.pieces] == [
        {"notes": "All agreed."}, "Who is it for?", "Customers"
    ]  # fmt: skip
    earlier = mara.get(f"{page_of(draft)}?before=3").context
    assert [line.seq for line in earlier["lines"]] == [1, 2]
    assert not earlier["fresh_url"]


def test_what_callers_and_agents_say_is_text_and_never_markup(writer: Identity, mara: Client) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    task = rows.sent(writer, task_type=hostile[:24], given={"text": hostile, "password": "hunter2-hunter2"})
    rows.claimed(task)
    rows.made(task, hostile, name=hostile)
    rows.moved(task, S.FAILED, hostile, error_code=hostile, error_message=hostile)
    for path in (TASKS, *(page_of(task, tab) for tab in TABS)):
        page = text(mara, path)
        assert "<script>alert" not in page, path
        assert "hunter2" not in page, path
    assert "U+202E" in text(mara, page_of(task, "content/"))


def test_what_let_it_be_sent_is_named_and_a_grant_can_be_opened(draft: Task, plan: Task, mara: Client) -> None:
    grant = NhiPermission.objects.get(source__name="planner", target__name="writer")
    assert f'href="/admin/nhi/nhipermission/{grant.pk}/"' in text(mara, page_of(draft, "content/"))
    assert "a role that may send tasks to any agent" in text(mara, page_of(plan, "content/"))


@pytest.mark.capability("A2A-08")
def test_the_chain_shows_who_asked_whom_the_whole_and_its_parts(draft: Task, plan: Task, mara: Client) -> None:
    for task, depth in ((plan, "1"), (draft, "2")):
        page = mara.get(page_of(task, "trace/"))
        assert [link["name"] for link in page.context["links"]] == ["mara", "planner"][: int(depth)]
        assert [row["name"] for row in page.context["rows"]] == [str(plan), str(draft)]
        assert [tab.label for tab in page.context["tabs"] if tab.current] == ["Chain"]
    assert f'<a href="{page_of(plan)}">' in text(mara, page_of(draft))


@pytest.mark.capability("A2A-12")
def test_cancelling_counts_the_parts_that_end_with_it_and_asks_again_when_there_are_more(
    draft: Task, plan: Task, planner: Identity, writer: Identity, signed_in: SignedIn
) -> None:
    mara = signed_in("mara")
    dialog = mara.get(page_of(plan, "cancel/"))
    words = [effect.words for effect in dialog.context["effects"]]
    assert words == [
        "mara is told that it was cancelled. It stays so, whatever its worker does.",
        "The worker of planner that has it is refused from then on.",
        "Also cancels 1 task that is a part of it.",
    ]
    rows.sent(writer, source_agent_id=planner.pk, parent_task_id=plan.pk)
    body = {"reason": "Wrong input", "seen": dialog.context["seen"]}
    again = mara.post(page_of(plan, "cancel/"), body)
    assert again.status_code == 409
    assert Task.objects.open().count() == 3
    done = mara.post(page_of(plan, "cancel/"), {**body, "seen": again.context["seen"]})
    assert done.status_code == 302
    assert not Task.objects.open().exists()
    assert "is cancelled already." in text(mara, page_of(plan, "cancel/"))
    assert "Wrong input" in text(mara, page_of(plan, "changes/"))
    assert "parent_cancelled" in text(mara, page_of(draft))


def test_only_who_may_cancels(draft: Task, signed_in: SignedIn) -> None:
    for name in ("tom", "ada"):
        for method in ("get", "post"):
            answer = getattr(signed_in(name), method)(page_of(draft, "cancel/"), {"reason": "No"})
            assert answer.status_code == 403, (name, method)
    assert Task.objects.get(pk=draft.pk).is_open


def test_an_open_page_is_told_only_what_it_has_not_seen(draft: Task, signed_in: SignedIn) -> None:
    mara = signed_in("mara")
    first = mara.get(page_of(draft)).context
    assert first["fresh_url"] == page_of(draft)
    assert mara.get(f"{page_of(draft)}?seen={first['seen']}", headers=PART).status_code == 204
    rows.claimed(draft)
    fresh = mara.get(f"{page_of(draft)}?seen={first['seen']}", headers=PART)
    assert "A worker of writer has it." in fresh.content.decode()
    # Each answer to an auditor is on record; a page does not fill it by itself.
    assert not signed_in("ada").get(page_of(draft)).context["fresh_url"]


def test_an_open_list_asks_for_states_by_id_and_is_told_only_what_changed(draft: Task, mara: Client) -> None:
    assert f'data-run-state="{draft.pk}"' in text(mara, TASKS)
    first = mara.get(f"{TASKS}states/?id={draft.pk}", headers=PART)
    assert "Submitted" in first.content.decode()
    seen = f"{TASKS}states/?id={draft.pk}&seen={first.context['seen']}"
    assert mara.get(seen, headers=PART).status_code == 204
    rows.moved(draft, S.REJECTED)
    last = mara.get(seen, headers=PART).content.decode()
    assert "Rejected" in last
    assert "data-run-state" not in last
    assert mara.get(f"{TASKS}states/?id={uuid7()}", headers=PART).status_code == 204


def test_inboxes_say_what_waits_for_which_agent_and_what_its_workers_hold(
    draft: Task, plan: Task, mara: Client
) -> None:
    lost = rows.sent(identity("writer"))
    rows.claimed(lost)
    Task.objects.filter(pk=lost.pk).update(lease_until=timezone.now() - timedelta(minutes=5))
    shown = mara.get(INBOXES).context
    counts = [[row[name] for name in ("agent_name", "offered", "lost", "held", "all")] for row in shown["rows"]]
    assert counts == [["writer", 2, 1, 0, 2], ["planner", 0, 0, 1, 1]]
    assert listed(mara, shown["rows"][0]["offered_url"].partition("?")[2]) == [str(lost), str(draft)]
    assert shown["leased"] == [plan]
    # What has no column on a narrow page stands under the agent's name there.
    folded = re.sub("<[^>]+>", "", text(mara, INBOXES))
    assert "0 with workers, 1 not brought back, 2 not done yet" in folded
    assert "1 with workers, the next lease ends in" in folded
    assert "claim 1 of 5, sent" in folded


def test_the_page_of_an_identity_tells_both_sides_of_its_tasks(draft: Task, plan: Task, mara: Client) -> None:
    for name, side, tasks in (("planner", "", [plan]), ("planner", "?side=from", [draft]), ("ci", "", [])):
        shown = mara.get(hub(name, f"tasks/{side}")).context["rows"]
        assert [row["name"] for row in shown] == [str(task) for task in tasks]
    assert mara.get(hub("github__delete_repo", "tasks/")).status_code == 403


def test_a_stop_counts_the_tasks_that_it_cancels(draft: Task, mara: Client) -> None:
    dialog = mara.get(hub("planner", "stop/")).content.decode()
    assert "Cancels 2 tasks" in dialog


@pytest.mark.both_databases
def test_the_palette_finds_a_task_by_its_id_long_or_short(draft: Task, mara: Client) -> None:
    for term in (str(draft.pk), draft.short_id, draft.short_id.lower().replace("-", "")):
        groups = {group.title: group.hits for group in mara.get("/admin/search/", {"s": term}).context["groups"]}
        assert [hit.url for hit in groups["Tasks"]] == [page_of(draft)]


def test_a_task_that_one_may_not_see_is_not_there(draft: Task, plan: Task, signed_in: SignedIn) -> None:
    """olga without her role: writer is hers, and what it is asked; planner and what mara asks it are not."""
    olga = signed_in("olga")
    User.objects.get(username="olga").groups.clear()
    assert listed(olga, "") == [str(draft)]
    for tab in (*TABS, "deliveries/", "cancel/", "reply/"):
        for method in ("get", "post"):
            unseen, unknown = (getattr(olga, method)(f"{TASKS}{pk}/{tab}") for pk in (plan.pk, uuid7()))
            assert (unseen.status_code, unknown.status_code) in {(404, 404), (405, 405)}, (method, tab)
    for tab in TABS:
        assert olga.get(page_of(draft, tab)).status_code == 200, tab
    assert Task.objects.get(pk=plan.pk).is_open


def test_an_empty_house_teaches_what_would_be_here(mara: Client) -> None:
    assert "Nobody has sent a task yet" in text(mara, TASKS)
    assert "/api/nhi/a2a/tasks" in text(mara, TASKS)
    assert "/api/nhi/a2a/inbox" in text(mara, INBOXES)


def test_the_demo_has_a_plan_that_waits_and_is_seeded_once(mara: Client) -> None:
    demo.seed()
    demo.seed()
    assert Task.objects.count() == 3
    assert len(listed(mara, f"state={tasks_filters.WAITING}")) == 1
