"""Schedules in the console: the list, the pages of one, its dialogs, and the form that says when a rule is due."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from nhi.models import AuditEvent
from supervisor.models import Agent, Schedule, ScheduleFire
from supervisor.schedules import facts as schedule_facts
from supervisor.schedules import firing, pausing
from tests.console.conftest import enter
from tests.nhi import cast
from tests.supervisor.schedules.conftest import NOON, fires, runs

pytestmark = [pytest.mark.capability("SUP-09", "SUP-10"), pytest.mark.django_db]
LIST = "/admin/supervisor/schedule/"
Make = Callable[..., Any]
Person = Callable[..., Client]


@pytest.fixture(autouse=True)
def _no_kept_counts() -> None:
    cache.clear()


@pytest.fixture
def person(db: None) -> Person:
    def signed_in(name: str, *roles: str) -> Client:
        cast.user(name, *roles)
        client = Client()
        enter(client, name)
        return client

    return signed_in


@pytest.fixture
def mara(person: Person) -> Client:
    return person("mara", "security-admin")


@pytest.fixture
def report(make_schedule: Make, make_agent: Make, at: Make) -> Schedule:
    """One that missed two times, fired, and skipped one while that run was not done."""
    agent = make_agent(name="summarise", identity=cast.agent("summarise", owner=cast.user("lena", "approver")))
    schedule: Schedule = make_schedule(name="report", agent=agent, inputs={"input": "the figures"})
    for minutes in (3, 4):
        at(NOON + timedelta(minutes=minutes))
        firing.sweep()
    assert [state for _, state, _ in fires(schedule)] == ["missed", "missed", "fired", "skipped"]
    return schedule


def page(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.content.decode()


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def hub(schedule: Schedule, part: str = "") -> str:
    return f"{LIST}{schedule.pk}/{part}"


def form(agent: Agent, **more: str) -> dict[str, str]:
    return {
        "name": "morning", "agent": agent.name, "cron_expression": "30 2 * * *", "timezone": "Europe/Berlin",
        "input": "", "parameters": "", "misfire_policy": "once", "overlap_policy": "queue", "enabled": "on", **more,
    }  # fmt: skip


def test_the_list_says_what_fires_and_what_was_missed(mara: Client, report: Schedule, make_schedule: Make) -> None:
    make_schedule(name="idle", agent=report.agent, enabled=False)
    said = words(page(mara, LIST))
    assert "every minute, UTC" in said
    assert "Skipped" in said
    assert said.index("report") < said.index("Not in use")
    missed = words(page(mara, f"{LIST}?missed=24h"))
    assert "report" in missed and "idle" not in missed
    assert "1 schedule missed a time in the last 24 h" in words(page(mara, "/admin/"))


def test_its_page_answers_when_it_is_due_and_whether_it_fired(mara: Client, report: Schedule) -> None:
    html = page(mara, hub(report))
    said = words(html)
    assert "Tue 15 Jun 2027, 12:05 UTC" in said
    assert "2 missed" in said and "1 fired" in said and "1 skipped" in said
    assert "from Tue 15 Jun 2027, 12:01 UTC on the left to Tue 15 Jun 2027, 12:04 UTC on the right" in said
    assert "It is recorded, and not made up for." in said
    cells = re.findall(r'<a class="gh-cell gh-cell--(\w+)" href="([^"]+)" title="([^"]+)"', html)
    assert [tone for tone, _, _ in cells] == ["look", "look", "good", "still"]
    for row, (_, url, title) in zip(report.fires.order_by("due_at"), cells, strict=True):
        assert f"{row.due_at:%H:%M}" in title
        assert f'id="fire-{row.pk}" class="gh-chosen"' in page(mara, url.partition("#")[0].replace("&amp;", "&"))
    assert str(runs(report)[0]) in words(page(mara, hub(report, "fires/")))
    assert str(runs(report)[0]) in words(page(mara, hub(report, "runs/")))
    assert "added the schedule" in words(page(mara, hub(report, "changes/")))


def test_days_on_which_the_clock_changes_are_marked(mara: Client, make_schedule: Make) -> None:
    schedule = make_schedule(cron_expression="30 2 25,26 10 *", timezone="Europe/Berlin")
    Schedule.objects.filter(pk=schedule.pk).update(next_execution="2026-10-25T00:30:00Z")
    html = page(mara, hub(schedule))
    assert html.count("The clock changes on this day.") == 1
    due = "Sun 25 Oct 2026, 02:30 CEST"
    assert words(html).count(due) == 2  # beside its name, and the first of its next
    assert due in words(page(mara, LIST))


@pytest.mark.django_db(transaction=True)
def test_a_schedule_that_does_not_fire_shows_when_it_would_be_due(mara: Client, make_schedule: Make) -> None:
    schedule = make_schedule(cron_expression="30 2 * * *")
    due = "Wed 16 Jun 2027, 02:30 UTC"
    text = words(page(mara, hub(schedule)))
    assert ("When it is due next" in text, "When it would be due" in text, text.count(due)) == (True, False, 2)
    Agent.objects.update(enabled=False)
    text = words(page(mara, hub(schedule)))
    assert "Next none: its agent is switched off" in text
    assert "When it would be due" in text and text.count(due) == 1
    assert "none: its agent is switched off" in words(page(mara, LIST))
    Agent.objects.update(enabled=True)
    lifecycle.suspend(actor=SYSTEM, identity=schedule.agent.identity, reason="Leak")
    pausing.resume(actor=SYSTEM, schedule=schedule)
    text = words(page(mara, hub(schedule)))
    assert "It does not fire: its identity is suspended." in text
    assert "When it would be due" in text and text.count(due) == 1


def test_dialogs_run_pause_resume_and_remove(person: Person, mara: Client, report: Schedule) -> None:
    otto = person("otto", "operator")
    assert "1 run of it is not done yet" in words(page(otto, hub(report, "run/")))
    seen = {"seen": "running:1"}
    ran = otto.post(hub(report, "run/"), seen)
    assert (ran.status_code, str(runs(report)[1].pk) in ran["Location"]) == (302, True)
    assert otto.post(hub(report, "pause/"), {"seen": "running:2", "reason": "Maintenance"}).status_code == 302
    paused = words(page(otto, hub(report)))
    assert re.search(r"It has been paused since .* by otto: Maintenance", paused)
    assert "is paused already" in words(page(otto, hub(report, "pause/")))
    assert otto.post(hub(report, "resume/"), {"reason": "Back"}).status_code == 302
    assert Schedule.objects.get(pk=report.pk).active
    assert otto.get(hub(report, "remove/")).status_code == 403
    assert mara.post(hub(report, "remove/"), {"reason": ""}).status_code == 422
    assert mara.post(hub(report, "remove/"), {"reason": "Not needed any more"}).status_code == 302
    assert AuditEvent.objects.get(event="schedule.removed").reason == "Not needed any more"
    assert "report" not in words(page(mara, LIST)).partition("Name")[2]
    assert "It was removed" in words(page(mara, hub(report)))


def test_who_activates_an_identity_is_told_what_stays_paused(mara: Client, report: Schedule) -> None:
    identity = report.agent.identity
    lifecycle.deactivate(actor=SYSTEM, identity=identity, reason="Holidays")
    pausing.pause(actor=SYSTEM, schedule=report)
    dialog = f"/admin/nhi/identity/{identity.pk}/activate/"
    said = "1 schedule stays paused until somebody resumes it"
    assert said in words(page(mara, dialog))
    done = mara.post(dialog, {"reason": "Back", "seen": "schedules:1"}, follow=True)
    assert f"summarise is active. {said}." in words(done.content.decode())


def test_a_run_that_finds_no_room_is_refused_in_its_dialog(mara: Client, make_schedule: Make, make_agent: Make) -> None:
    schedule = make_schedule(agent=make_agent(queue_depth=0, max_concurrent_executions=1))
    assert mara.post(hub(schedule, "run/")).status_code == 302
    refused = mara.post(hub(schedule, "run/"), {"seen": "running:1"})
    assert refused.status_code == 409
    assert "Try again in 30 s." in words(refused.content.decode())


def test_a_form_adds_one_and_says_when_it_is_due(mara: Client, make_agent: Make, at: Make) -> None:
    at(NOON)
    agent = make_agent(name="summarise")
    preview = mara.post(f"{LIST}preview/", form(agent)).content.decode()
    assert "It runs at 02:30 every day, next:" in words(preview)
    assert "Wed 16 Jun 2027, 02:30 CEST" in words(preview)
    wrong = mara.post(f"{LIST}preview/", form(agent, cron_expression="* * * * * *", timezone="Mars"))
    assert "Expected 5 fields, got 6;" in words(wrong.content.decode())
    refused = mara.post(f"{LIST}add/", form(agent, timezone="Mars", parameters="[]"))
    assert refused.status_code == 422
    assert "Write a JSON object" in words(refused.content.decode())
    refused = mara.post(f"{LIST}add/", form(agent, timezone="Mars"))
    assert refused.status_code == 400
    assert "choose one like Europe/Vienna" in words(refused.content.decode())
    made = mara.post(f"{LIST}add/", form(agent, parameters='{"api_key": "k-1234567890"}', input="a\r\nb"))
    schedule = Schedule.objects.get()
    assert made["Location"] == hub(schedule)
    assert (schedule.misfire_policy, schedule.overlap_policy, schedule.timezone) == ("once", "queue", "Europe/Berlin")
    assert schedule_facts.opened(schedule) == {"input": "a\nb", "parameters": {"api_key": "k-1234567890"}}


def test_all_that_is_wrong_with_a_schedule_is_said_at_once(mara: Client, make_schedule: Make) -> None:
    schedule = make_schedule()
    wrong = {"cron_expression": "* * * * * *", "timezone": "Mars", "parameters": "{", "agent": "nobody-here"}
    for path in (f"{LIST}add/", hub(schedule, "change/")):
        answer = mara.post(path, {**form(schedule.agent), **wrong})
        assert (answer.status_code, answer.context["form"].errors.keys()) == (422, wrong.keys())
        live = answer.content.decode().partition("data-live")[2].partition("</form>")[0]
        assert "Expected 5 fields, got 6;" in live
    off = Agent.objects.filter(pk=schedule.agent.pk).update(enabled=False)
    assert off and "agent" in mara.post(f"{LIST}add/", form(schedule.agent, name="")).context["form"].errors


def test_saving_what_was_shown_masked_keeps_what_it_stands_for(mara: Client, make_schedule: Make) -> None:
    opened = {"input": "", "parameters": {"api_key": "k-1234567890", "topic": "sales"}}
    schedule = make_schedule(inputs=opened)
    html = page(mara, hub(schedule, "change/"))
    assert "k-1234567890" not in html
    shown = schedule.input_parameters["parameters"]["api_key"]
    changed = form(schedule.agent, parameters=f'{{"api_key": "{shown}", "topic": "staff"}}')
    assert mara.post(hub(schedule, "change/"), changed).status_code == 302
    kept = schedule_facts.opened(Schedule.objects.get())
    assert kept["parameters"] == {"api_key": "k-1234567890", "topic": "staff"}


def test_what_is_shown_masked_goes_to_no_other_agent(mara: Client, make_schedule: Make, make_agent: Make) -> None:
    schedule = make_schedule(inputs={"parameters": {"api_key": "k-1234567890"}})
    shown = schedule.input_parameters["parameters"]["api_key"]
    moved = form(make_agent(name="other"), parameters=f'{{"api_key": "{shown}"}}')
    refused = mara.post(hub(schedule, "change/"), moved)
    assert refused.status_code == 400
    assert "not handed to another agent" in words(refused.content.decode())


def test_who_sees_what(person: Person, report: Schedule) -> None:
    ada, lena, sam = person("ada", "auditor"), person("lena", "approver"), person("sam", "approver")
    for client in (ada, lena, sam):
        page(client, LIST)
        page(client, hub(report))
    assert "Run now" in page(lena, hub(report)) and "Edit" in page(lena, hub(report))
    for client in (ada, sam):
        assert "Run now" not in page(client, hub(report))
        assert client.get(hub(report, "change/")).status_code == 403
        assert client.get(hub(report, "pause/")).status_code == 403
        assert client.get(f"{LIST}add/").status_code == 403
    assert lena.get(f"{LIST}add/").status_code == 200


def test_pages_ask_as_little_of_many_as_of_few(mara: Client, report: Schedule, make_agent: Make) -> None:
    paths = [LIST, hub(report), hub(report, "fires/"), hub(report, "runs/")]

    def queries(path: str) -> int:
        cache.clear()
        with CaptureQueriesContext(connection) as seen:
            page(mara, path)
        return len(seen)

    few = {path: queries(path) for path in paths}
    Schedule.objects.bulk_create(
        Schedule(name=f"s{number}", agent=report.agent, cron_expression="@daily", created_by_name="mara")
        for number in range(60)
    )
    first = report.fires.latest("due_at").due_at
    ScheduleFire.objects.bulk_create(
        ScheduleFire(schedule=report, due_at=first - timedelta(minutes=number), state="missed")
        for number in range(10, 500)
    )
    many = {path: queries(path) for path in paths}
    assert all(many[path] <= few[path] for path in paths)
    assert max(many.values()) <= 15
