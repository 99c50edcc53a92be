"""The console's pages of tasks say what they promise, where it was promised."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from a2a.choices import TaskState
from a2a.models import Task
from nhi.access.grants import give_nhi
from nhi.actors import SYSTEM
from nhi.models import NhiPermission
from tests.a2a import rows
from tests.console.conftest import hub, identity
from tests.supervisor.console.scene import main_of, text

pytestmark = [pytest.mark.capability("A2A-05", "CON-05"), pytest.mark.django_db]


@pytest.fixture
def sent(seeded: None) -> Task:
    give_nhi(
        actor=SYSTEM, source=identity("deploy-bot"), target=identity("triage-bot"), permission_type="call",
        reason="For the test", expires_at=timezone.now() + timedelta(days=9, hours=2),
    )  # fmt: skip
    return rows.sent(identity("triage-bot"), source_agent_id=identity("deploy-bot").pk)


def events(client: Client, task: Task) -> list[str]:
    """What each event says, without its number and time."""
    found = client.get(f"/admin/a2a/task/{task.pk}/").context["lines"]
    return [f"{line.badge.label} {line.words}".strip() for line in found]


@pytest.mark.both_databases
def test_the_first_events_say_by_what_it_was_sent_and_who_took_it(sent: Task, mara: Client) -> None:
    assert events(mara, sent) == ["Submitted sent by mara, in the name of deploy-bot, grant call, ends in 9 d"]
    rows.moved(sent, TaskState.WORKING)
    rows.moved(sent, TaskState.INPUT_REQUIRED, "Which one?")
    rows.moved(sent, TaskState.WORKING)
    assert events(mara, sent)[1:] == ["Working claimed by triage-bot (inbox)", "Needs input", "Working"]
    NhiPermission.objects.filter(pk=sent.grant_id).update(expires_at=None)
    assert events(mara, sent)[0] == "Submitted sent by mara, in the name of deploy-bot, grant call"


def test_a_task_of_a_person_was_sent_through_no_grant(seeded: None, mara: Client) -> None:
    task = rows.sent(identity("triage-bot"))
    assert events(mara, task) == [f"Submitted sent by {task.created_by_name}"]


def test_the_menu_and_the_tabs_stand_in_one_order(sent: Task, mara: Client) -> None:
    html = text(mara, "/admin/")
    menu = re.findall(r"<span>([^<]+)</span>", html[html.index(">Tasks</h2>") : html.index(">Activity</h2>")])
    assert [name for name in menu if name != "Find or do"] == ["Tasks", "Inboxes", "Cards and endpoints", "Deliveries"]
    tabs = [tab.label for tab in mara.get(hub()).context["tabs"]]
    assert tabs[-4:] == ["Runs", "Tasks", "Card", "Changes"]


def test_what_an_identity_asks_of_others_is_on_its_page(sent: Task, mara: Client) -> None:
    shown = main_of(text(mara, f"{hub(tab='tasks/')}?side=from"))
    assert "It asks of others" in shown
    assert sent.short_id in shown
