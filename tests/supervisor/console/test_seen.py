"""Failed runs that somebody has not seen: counted for each person until they say that they have."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from nhi import actors
from nhi.console import attention_counts
from nhi.models import LastLook, User
from nhi.people import read_markers
from supervisor.admin.executions_seen import PAGE
from supervisor.models import Agent, Execution
from tests.console.conftest import SignedIn
from tests.supervisor.console import scene
from tests.supervisor.console.scene import RUNS, S, main_of, queries, text

pytestmark = [pytest.mark.capability("CON-02", "SUP-10"), pytest.mark.django_db]
UNSEEN = f"{RUNS}?state=wrong&span=24h&seen=no"


def failed(agent: Agent) -> Execution:
    return scene.ended(scene.asked(agent), S.FAILED, why="It broke.")


def counted(client: Client) -> int:
    return attention_counts.counts_for_request(client.get("/admin/").wsgi_request).get("runs_failed", 0)


def listed(client: Client, path: str = UNSEEN) -> list[str]:
    return [row["name"] for row in client.get(path).context["rows"]]


def button(client: Client, path: str = UNSEEN) -> str:
    (control,) = client.get(path).context["controls"]
    assert (control.label, control.posts) == ("Mark all as seen", True)
    return str(control.url)


@pytest.mark.both_databases
def test_what_one_has_seen_counts_no_more_for_them_and_still_for_others(ship: Agent, signed_in: SignedIn) -> None:
    failed(ship)
    failed(ship)
    mara, olga = signed_in("mara"), signed_in("olga")
    assert (counted(mara), counted(olga)) == (2, 2)
    assert listed(mara) == ["ship #2", "ship #1"]
    answer = mara.post(button(mara))
    assert answer["Location"] == f"{RUNS}?state=wrong&span=24h"
    # At once, not only when the kept numbers are old.
    assert (counted(mara), counted(olga)) == (0, 2)
    assert listed(mara) == []
    assert listed(mara, answer["Location"]) == ["ship #2", "ship #1"]
    assert not mara.get(answer["Location"]).context["controls"]
    failed(ship)
    cache.clear()
    assert counted(mara) == 1
    assert listed(mara) == ["ship #3"]
    assert f'href="{UNSEEN.replace("&", "&amp;")}"' in text(mara, "/admin/")


def test_looking_marks_nothing_and_what_fails_meanwhile_is_not_marked(ship: Agent, mara: Client) -> None:
    failed(ship)
    there = button(mara)
    assert mara.get(there).status_code == 200
    assert not LastLook.objects.exists()
    late = failed(ship)
    mara.post(there)
    assert counted(mara) == 1
    assert listed(mara) == [str(late)]


def test_a_look_never_goes_back_nor_beyond_now(ship: Agent, mara: Client) -> None:
    actor, now = actors.person(User.objects.get(username="mara")), timezone.now()
    read_markers.mark_seen(actor=actor, page=PAGE, until=now + timedelta(days=9), individual_ids=[])
    first = LastLook.objects.get().at
    assert first < now + timedelta(minutes=1)
    read_markers.mark_seen(actor=actor, page=PAGE, until=now - timedelta(days=9), individual_ids=[])
    assert LastLook.objects.get().at == first


HIDING = (
    "agent=ship",
    "by=mara",
    "trigger=manual",
    "category=AgentError",
    "span=1h",
    "until=2099-01-01T00:00",
    "q=ship",
)


@pytest.mark.parametrize("more", HIDING)
def test_what_a_list_hides_cannot_be_marked_from_it(ship: Agent, mara: Client, more: str) -> None:
    failed(ship)
    failed(scene.agent("other"))
    there = button(mara)
    page = mara.get(f"{RUNS}?state=wrong&seen=no&{more}")
    assert page.context["rows"]
    assert not page.context["controls"]
    answer = mara.post(f"{there}&{more}")
    assert answer.status_code == 409
    assert "clear its other filters" in answer.content.decode()
    assert not LastLook.objects.exists()


@pytest.mark.parametrize(
    "query", ["state=wrong&seen=no", "state=wrong&span=7d", "state=wrong&span=24h&sort=-created_at"]
)
def test_a_list_of_all_that_is_counted_can_be_marked(ship: Agent, mara: Client, query: str) -> None:
    failed(ship)
    mara.post(button(mara, f"{RUNS}?{query}"))
    assert counted(mara) == 0


@pytest.mark.parametrize("moment", ["", "yesterday", "2026-13-01T00:00:00Z", "2026-11-18T00:00:00"])
def test_no_moment_is_no_look(mara: Client, moment: str) -> None:
    assert mara.post(f"{RUNS}seen/", query_params={"moment": moment}).status_code == 404
    assert not LastLook.objects.exists()


def test_who_only_reads_has_nothing_to_mark(ship: Agent, signed_in: SignedIn) -> None:
    failed(ship)
    ada = signed_in("ada")
    assert "Mark all as seen" not in main_of(text(ada, UNSEEN))
    assert ada.post(f"{RUNS}seen/", query_params={"moment": timezone.now().isoformat()}).status_code == 403


def test_the_button_stands_on_lists_of_failures_alone(ship: Agent, mara: Client) -> None:
    assert not mara.get(UNSEEN).context["controls"]
    failed(ship)
    cache.clear()
    for path in (RUNS, f"{RUNS}?state=completed", f"{RUNS}?seen=no"):
        assert not mara.get(path).context["controls"], path
    assert button(mara, f"{RUNS}?state=wrong")


def test_the_count_is_bounded_and_one_statement_however_many(ship: Agent, mara: Client) -> None:
    failed(ship)
    few = queries(mara, UNSEEN)
    scene.many(ship, 150)
    Execution.objects.update(status="failure")
    cache.clear()
    assert counted(mara) == attention_counts.MAX_COUNT
    assert "99+" in text(mara, "/admin/")
    assert queries(mara, UNSEEN) <= few <= 15
