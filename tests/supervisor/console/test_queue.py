"""What waits to run, for what, in which place, and how the workers do."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from supervisor.admin import queue
from supervisor.models import Agent, Execution
from tests.console.conftest import SignedIn
from tests.supervisor.console import scene
from tests.supervisor.console.scene import QUEUE, page_of, queries, runner, text

pytestmark = [pytest.mark.capability("SUP-10", "CON-05"), pytest.mark.django_db]


def test_a_run_that_waits_says_where_it_stands_why_and_until_when(ship: Agent, signed_in: SignedIn) -> None:
    scene.started(scene.asked(ship))
    first, second = scene.asked(ship), scene.asked(ship)
    olga = signed_in("olga")
    page = text(olga, page_of(second))
    assert f'<a href="{QUEUE}">Place 2</a>. It waits for those before it.' in page
    assert "Waits at most until" in page
    assert "Place 1</a>. All slots of its agent are in use." in text(olga, page_of(first))
    assert queries(olga, page_of(first)) <= 15
    dialog = text(olga, page_of(second, "stop/"))
    assert "Leave it</a>" in dialog and ">Cancel<" not in dialog
    assert "Place" not in text(olga, page_of(Execution.objects.get(number=1)))


def test_a_run_that_waits_leaves_the_queue_at_once_and_only_by_who_may(ship: Agent, signed_in: SignedIn) -> None:
    run = scene.asked(ship)
    for name in ("tom", "ada"):
        assert signed_in(name).post(page_of(run, "stop/"), {"reason": "No"}).status_code == 403
    olga = signed_in("olga")
    dialog = olga.get(page_of(run, "stop/"))
    assert "It leaves the queue and is never started." in dialog.content.decode()
    olga.post(page_of(run, "stop/"), {"reason": "Wrong input", "seen": dialog.context["seen"]})
    assert Execution.objects.get(pk=run.pk).status == "cancelled"
    assert "ship #1 is cancelled already." in text(olga, page_of(run, "stop/"))


def test_the_queue_says_who_waits_for_what_and_how_the_workers_do(ship: Agent, signed_in: SignedIn) -> None:
    scene.started(scene.asked(ship))
    waiting = [scene.asked(ship) for _ in range(2)]
    runner(used=1, memory_percent=13.0)
    runner(pid=8, memory_percent=99.0, seen_at=timezone.now() - timedelta(seconds=18))
    olga = signed_in("olga")
    page = text(olga, QUEUE)
    assert page.index("ship #2") < page.index("ship #3")
    assert "All slots of its agent are in use." in page
    assert "It waits for those before it." in page
    assert "1 of 8" in page
    assert "memory over" in page
    assert "Late" in page
    assert all(f'href="{page_of(run, "stop/")}"' in page for run in waiting)
    assert "/stop/" not in text(signed_in("ada"), QUEUE)
    assert queries(olga, QUEUE) <= 15


def test_queues_of_many_agents_are_shown_in_as_many_queries_as_one(ship: Agent, signed_in: SignedIn) -> None:
    """Also to who may stop those of their own identities alone."""
    scene.asked(ship)
    theirs = scene.asked(scene.agent("triage", of="triage-bot"))
    tom, mara = signed_in("tom"), signed_in("mara")
    few = {client: queries(client, QUEUE) for client in (tom, mara)}
    assert f'href="{page_of(theirs, "stop/")}"' in text(tom, QUEUE)
    for number in range(12):
        scene.asked(scene.agent(f"agent-{number}"))
    for client, count in few.items():
        assert queries(client, QUEUE) <= count <= 15


def test_a_long_queue_hides_no_other(ship: Agent, mara: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "MOST", 2)
    long, short = [scene.asked(ship) for _ in range(3)], scene.asked(scene.agent("tidy"))
    page = mara.get(QUEUE)
    found = [([row["run"] for row in one.rows], one.unshown) for one in page.context["queues"]]
    assert found == [([long[0]], 2), ([short], 0)]
    assert page.context["waiting"] == 4


@pytest.mark.parametrize(
    ("full", "runners", "room", "said"),
    [
        (True, True, True, "All slots of its agent are in use."),
        (False, False, False, "No worker that runs agents was heard of."),
        (False, True, False, "All workers are full."),
        (False, True, True, "A worker takes it in a moment."),
    ],
)
def test_why_the_first_of_a_queue_waits(ship: Agent, full: bool, runners: bool, room: bool, said: str) -> None:
    assert queue.why(ship, full=full, runners=runners, room=room) == said
    ship.enabled = False
    assert queue.why(ship, full=full, runners=runners, room=room) == "Its agent is switched off."
