"""Who is told of every event of a task: shown on its page, and removed there by who may."""

import pytest
from django.test import Client

from a2a import pushing
from a2a.choices import DeliveryState, TaskState, Trouble
from a2a.models import Delivery, PushConfig, Task
from nhi import actors
from nhi.models import AuditEvent
from tests.a2a import rows
from tests.console.conftest import SignedIn, identity
from tests.console.reading import confirmed, main_of, text

pytestmark = [pytest.mark.capability("A2A-06", "CON-02"), pytest.mark.django_db]
URL = "https://hooks.example.com/events"


@pytest.fixture
def task(seeded: None) -> Task:
    return rows.sent(identity("writer"))


def receives(task: Task, url: str = URL, **more: str) -> PushConfig:
    asked = {"url": url, "token": "T-secret", **more}
    return pushing.make(actor=actors.SYSTEM, task=task, asked=asked, wire_version="1.0")


def page(task: Task) -> str:
    return f"/admin/a2a/task/{task.pk}/deliveries/"


def test_each_receiver_stands_there_without_what_it_knows_us_by(task: Task, mara: Client) -> None:
    one, other = receives(task, id="first"), receives(task, f"{URL}/2", id="second")
    shown = main_of(text(mara, page(task)))
    assert "Told of every event" in shown
    assert [shown.count(row.url) > 0 for row in (one, other)] == [True, True]
    assert "T-secret" not in shown
    assert "Remove first" in shown
    assert "Remove second" in shown


def test_a_task_that_nobody_is_told_of_says_so_and_one_with_a_receiver_does_not(task: Task, mara: Client) -> None:
    assert "Nobody is told of it" in text(mara, page(task))
    receives(task)
    shown = text(mara, page(task))
    assert "Nobody is told of it" not in shown
    assert "Nothing was told yet." in shown


def test_removing_one_calls_off_what_waits_for_it_and_is_on_record(task: Task, mara: Client) -> None:
    row = receives(task, id="mine")
    rows.moved(task, TaskState.WORKING)
    waiting = Delivery.objects.get(push_id=row.pk)
    path = f"/admin/a2a/task/{task.pk}/receivers/{row.pk}/remove/"
    assert "Calls off 1 delivery that waits for it." in text(mara, path)
    confirmed(mara, path, reason="Wrong URL")
    assert not PushConfig.objects.exists()
    waiting.refresh_from_db()
    assert (waiting.state, waiting.reason) == (DeliveryState.DISABLED, Trouble.WITHDRAWN)
    told = AuditEvent.objects.get(event="push_config.removed")
    assert (told.actor_name, told.reason, told.details) == ("mara", "Wrong URL", {"config": "mine"})
    assert mara.get(path).status_code == 404


def test_who_only_reads_removes_nothing(task: Task, signed_in: SignedIn) -> None:
    row = receives(task)
    path = f"/admin/a2a/task/{task.pk}/receivers/{row.pk}/remove/"
    ada = signed_in("ada")
    assert row.url in text(ada, page(task))
    assert path not in text(ada, page(task))
    assert ada.get(path).status_code == 403
    assert ada.post(path, {"reason": "Wrong URL", "seen": "later:1"}).status_code == 403
    assert PushConfig.objects.filter(pk=row.pk).exists()


def test_of_another_task_it_is_not_found(task: Task, mara: Client) -> None:
    row = receives(task)
    assert mara.get(f"/admin/a2a/task/{rows.sent(identity('writer')).pk}/receivers/{row.pk}/remove/").status_code == 404
