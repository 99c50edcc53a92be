"""The list of runs: its filters and live states, the charts and cards that lead to it."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from common.ids import uuid7
from nhi.models import User
from supervisor.models import Agent, Execution
from tests.console.conftest import SignedIn
from tests.supervisor.console import scene
from tests.supervisor.console.scene import PART, QUEUE, RUN_TABS, RUNS, S, call_in, page_of, queries, text

pytestmark = [pytest.mark.capability("SUP-10", "CON-05"), pytest.mark.django_db]


@pytest.mark.both_databases
def test_many_runs_are_listed_in_as_many_queries_as_few_and_a_page_of_one_asks_little(
    ship: Agent, mara: Client
) -> None:
    run = scene.ended(scene.asked(ship))
    call_in(run)
    few = queries(mara, RUNS)
    scene.many(ship, 2000)
    assert queries(mara, RUNS) <= few <= 15
    # Seven of its own, on top of the session, the person, their rights and what needs them.
    for tab in RUN_TABS:
        assert queries(mara, page_of(run, tab)) <= 12, tab


@pytest.mark.capability("CON-02")
def test_runs_that_went_wrong_are_counted_for_who_runs_agents_and_lead_to_their_list(
    ship: Agent, signed_in: SignedIn
) -> None:
    scene.ended(scene.asked(ship), S.FAILED, why="It broke.")
    scene.ended(scene.asked(ship), S.TIMEOUT, why="It ran out of time.")
    scene.ended(scene.asked(ship))
    old = scene.ended(scene.asked(ship), S.FAILED, why="It broke.")
    Execution.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=2))
    cards = {card["words"]: card["need"].url for card in signed_in("olga").get("/admin/").context["cards"]}
    url = cards["2 runs failed in the last 24 h, unseen by you"]
    listed = signed_in("olga").get(url)
    assert [row["name"] for row in listed.context["rows"]] == ["ship #2", "ship #1"]
    assert [tab.label for tab in listed.context["views"] if tab.current] == ["Failed or timed out"]
    page = listed.content.decode()
    assert f'<a href="{escape(url)}"><span class="gh-count gh-count--look">2' in page
    assert 'title="It ran out of time."' in page
    assert not any("failed in" in card["words"] for card in signed_in("tom").get("/admin/").context["cards"])


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("state=failed", [1]),
        ("state=completed", [2]),
        ("state=open", [4, 3]),
        ("state=running", [3]),
        ("category=AgentError", [1]),
        ("trigger=schedule", []),
        ("by=MARA&span=1h", [4, 3, 2, 1]),
        ("agent=ship", [4, 3, 2, 1]),
        ("agent=another", []),
    ],
)
def test_each_filter(ship: Agent, mara: Client, query: str, numbers: list[int]) -> None:
    scene.ended(scene.asked(ship), S.FAILED, why="It broke.")
    scene.ended(scene.asked(ship))
    scene.started(scene.asked(ship))
    scene.asked(ship)
    rows = mara.get(f"{RUNS}?{query}").context["rows"]
    assert [row["name"] for row in rows] == [f"ship #{number}" for number in numbers]


def test_an_open_list_asks_for_states_by_id_and_is_told_only_what_changed(ship: Agent, signed_in: SignedIn) -> None:
    run = scene.asked(ship)
    mara = signed_in("mara")
    assert f'data-run-state="{run.pk}"' in text(mara, RUNS)
    first = mara.get(f"{RUNS}states/?id={run.pk}", headers=PART)
    assert "Queued" in first.content.decode()
    seen = first.context["seen"]
    assert mara.get(f"{RUNS}states/?id={run.pk}&seen={seen}", headers=PART).status_code == 204
    scene.ended(run)
    last = mara.get(f"{RUNS}states/?id={run.pk}&seen={seen}", headers=PART).content.decode()
    assert "Completed" in last
    assert "data-run-state" not in last
    assert mara.get(f"{RUNS}states/?id={uuid7()}", headers=PART).status_code == 204


@pytest.mark.capability("CON-02")
def test_charts_count_what_came_of_runs_and_lead_to_them(ship: Agent, mara: Client) -> None:
    scene.ended(scene.asked(ship), S.FAILED, why="It broke.")
    scene.ended(scene.asked(ship))
    assert "/admin/runs/charts/" in text(mara, "/admin/")
    for path, count in (("/admin/runs/charts/", 1), (f"{scene.AGENTS}{ship.pk}/", 2)):
        charts = mara.get(path).context["charts"]
        assert len(charts) == count
        assert charts[0].summary == "2 runs, 1 failed or timed out (50 %)."
        url = charts[0].rows[-1]["url"]
        assert [row["name"] for row in mara.get(f"{url}&state=failed").context["rows"]] == ["ship #1"]


@pytest.mark.parametrize("path", [RUNS, "/admin/supervisor/session/"])
def test_ones_own_are_found_by_any_name(ship: Agent, signed_in: SignedIn, path: str) -> None:
    User.objects.filter(username="mara").update(username="mara+q")
    assert 'href="?by=mara%2Bq"' in text(signed_in("mara+q"), path)


def test_an_empty_house_teaches_what_would_be_here(mara: Client) -> None:
    assert "No agent runs here yet" in text(mara, scene.AGENTS)
    page = text(mara, RUNS)
    assert "Nothing has run yet" in page
    assert f'href="{scene.AGENTS}"' in page[page.index("gh-empty") :]
    page = text(mara, QUEUE)
    assert "Nothing waits" in page
    assert "No worker was heard of" in page
    assert "/admin/runs/charts/" not in text(mara, "/admin/")
