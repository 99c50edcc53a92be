"""Runs at the console: the list and its live states, a run's tabs, stopping it, and what waits."""

import re
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from common.ids import uuid7
from nhi.models import InvocationLog, User
from supervisor import cancelling
from supervisor.admin import queue
from supervisor.choices import ErrorCategory
from supervisor.models import Agent, Attempt, Execution, ExecutionResult, Runner
from tests.console import calling
from tests.console.conftest import SignedIn, identity
from tests.supervisor.console import scene
from tests.supervisor.console.scene import QUEUE, RUN_TABS, RUNS, S, queries, text

pytestmark = [pytest.mark.capability("SUP-10", "CON-05"), pytest.mark.django_db]
PART = {"X-Console-Part": "1"}


def page_of(run: Execution, tab: str = "") -> str:
    return f"{RUNS}{run.pk}/{tab}"


def call_in(run: Execution) -> InvocationLog:
    return calling.call(run.agent.identity.name, run_id=run.pk)


def test_every_tab_opens_for_every_role_and_an_auditor_sees_no_control(ship: Agent, signed_in: SignedIn) -> None:
    run = scene.started(scene.asked(ship))
    for name in ("admin", "mara", "tom", "olga", "ada"):
        client = signed_in(name)
        for path in (RUNS, QUEUE, *(page_of(run, tab) for tab in RUN_TABS)):
            page = scene.main_of(text(client, path))
            assert ("data-dialog" in page) == (name not in ("tom", "ada") and path not in (RUNS, QUEUE)), (name, path)


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


def test_stopping_states_its_consequences_and_the_page_shows_both_moments(ship: Agent, mara: Client) -> None:
    run = scene.started(scene.asked(ship))
    dialog = mara.get(page_of(run, "stop/"))
    assert "after 5 s is ended (KILL)" in dialog.content.decode()
    assert mara.post(page_of(run, "stop/"), {"reason": "It hangs", "seen": dialog.context["seen"]}).status_code == 302
    page = text(mara, page_of(run))
    assert "Stopping" in page
    assert "It is being stopped already, as mara asked." in page
    assert "It hangs" in page
    assert "KILL 5 s later to what is left" in page
    run.refresh_from_db()
    sent = {"term_at": "2026-11-19T14:02:03.250000+00:00", "kill_at": "2026-11-19T14:02:08.260000+00:00"}
    scene.lifecycle.walk(
        run, [(S.CANCELLED, "mara: It hangs"), (S.CLEANUP, ""), (S.IDLE, "")], slot=None, context=sent
    )  # fmt: skip
    page = text(mara, page_of(run))
    order = r"Asked to end</dt>.*TERM sent</dt>.*14:02:03\.250.*KILL sent</dt>.*14:02:08\.260.*Ended</dt>"
    assert re.search(order, page, re.DOTALL)
    Execution.objects.filter(pk=run.pk).update(context={"term_at": sent["term_at"]})
    assert "KILL</dt> <dd>Not sent: nothing was left to end</dd>" in text(mara, page_of(run))
    assert f"{scene.AGENTS}{ship.pk}/run/?like={run.pk}" in page


def test_the_strip_says_which_worker_carries_a_run_in_which_slot_and_how_many_wait(
    ship: Agent, signed_in: SignedIn
) -> None:
    carries = runner(host="w2", pid=77)
    run = scene.started(scene.asked(ship))
    Execution.objects.filter(pk=run.pk).update(runner_id=carries.pk, max_retries=3)
    olga, eve = signed_in("olga"), signed_in("tom")
    for client in (olga, eve):
        page = text(client, page_of(run))
        facts = re.sub(r"<[^>]+>|\s+", " ", page[page.index("gh-facts") : page.index("gh-phases")])
        facts = " ".join(facts.split())
        assert "Attempt 1 of 4 Worker w2, process 77 Process 4121 Access Read-write (slot 1 of 1, none wait)" in facts
        assert queries(client, page_of(run)) <= 12
    for number, words in ((1, "1 waits"), (2, "2 wait")):
        scene.asked(ship)
        assert f"(slot 1 of 1, {words})" in text(olga, page_of(run)), number
    Runner.objects.filter(pk=carries.pk).update(seen_at=timezone.now() - timedelta(seconds=20))
    assert "Late" in text(olga, page_of(run))
    carries.delete()
    assert "one that is gone" in text(olga, page_of(run))
    done = scene.ended(scene.asked(scene.agent("reads")))
    page = text(olga, page_of(done))
    assert "Read-only</dd>" in page
    assert "slot" not in scene.main_of(page)


def test_input_is_copied_from_under_more_and_run_again_stands_there_while_it_runs(ship: Agent, mara: Client) -> None:
    run = scene.started(scene.asked(ship, 'say "<b>"'))
    more = mara.get(page_of(run)).context["more"]
    assert [(control.label, control.copies) for control in more] == [("Copy input", 'say "<b>"'), ("Run again", "")]
    assert 'data-text="say &quot;&lt;b&gt;&quot;"' in text(mara, page_of(run))
    done = scene.ended(scene.asked(scene.agent("other"), "x" * 5000 + " api_key=sk-live-0123456789abcdef0123"))
    (copy,) = mara.get(page_of(done)).context["more"]
    assert (copy.label, copy.url) == ("Copy input (secrets are masked)", page_of(done, "input/"))
    assert f'data-copy-from="/api/nhi/supervisor/executions/{done.pk}"' in text(mara, page_of(done, "input/"))


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


def test_what_a_run_says_is_text_and_never_markup(mara: Client) -> None:
    agent = scene.agent("report", output_pattern="file")
    hostile = "<script>alert(1)</script>\u202e\x1b[31m"
    run = scene.ended(scene.asked(agent, hostile), said=hostile)
    Execution.objects.filter(pk=run.pk).update(error_message=hostile)
    for tab in ("", "input/"):
        page = text(mara, page_of(run, tab))
        assert "<script>alert" not in page
        assert "U+202E" in page
    assert "Its answer" in text(mara, page_of(run))
    file = mara.get(page_of(run, "download/"))
    assert file.headers["Content-Type"].startswith("text/plain")
    assert "attachment" in file.headers["Content-Disposition"]
    written = b"".join(file.streaming_content).decode()
    assert "\x1b" not in written
    assert "\N{SYMBOL FOR ESCAPE}[31m" in written


def test_what_an_open_page_draws_anew_holds_all_that_changes(ship: Agent, mara: Client) -> None:
    """Its strip, the counts on its tabs, what was measured: a page that is left open ends up as a fresh one."""
    run = scene.started(scene.asked(ship))
    parts = {"": {"strip", "tabs", "beside"}, "resources/": {"strip", "tabs", "beside"}}
    for tab in ("attempts/", "transitions/"):
        parts[tab] = {"strip", "tabs", "rows"}
    for tab, wanted in parts.items():
        page = mara.get(page_of(run, tab), headers=PART).content.decode()
        assert set(re.findall(r'data-fresh="(\w+)"', page)) == wanted, tab
    assert len(re.findall(r'data-timer="\d+"', text(mara, page_of(run)))) == 2


def test_a_short_run_does_not_claim_that_it_had_no_process(ship: Agent, mara: Client) -> None:
    page = text(mara, page_of(scene.ended(scene.asked(ship)), "resources/"))
    assert "not counted: it was over before the first look" in page
    assert "at most 0 at once" not in page


def test_what_was_cut_is_said_and_what_was_measured_is_drawn_beside_its_numbers(ship: Agent, mara: Client) -> None:
    run = scene.ended(scene.asked(ship))
    page = mara.get(page_of(run))
    assert page.context["sparks"] == {"cpu": "0.0,1.0 120.0,16.3", "memory": "0.0,3.6 120.0,1.0"}
    assert "are kept" not in scene.main_of(page.content.decode())
    ExecutionResult.objects.filter(pk=run.pk).update(output_truncated=True, output_bytes=5 * 1024 * 1024)
    said = text(mara, page_of(run)).replace("\xa0", " ")
    assert "It wrote 5.0 MB of output and 0 bytes of errors; of each the first 1.0 MB are kept." in said


def test_calls_with_a_runs_token_stand_with_the_run_and_name_it_in_the_log(ship: Agent, mara: Client) -> None:
    run = scene.ended(scene.asked(ship))
    call = call_in(run)
    outside = calling.call("deploy-bot", tool="delete_repo")
    assert {tab.label: tab.count for tab in mara.get(page_of(run)).context["tabs"]}["Tool calls"] == 1
    for tab in ("", "calls/"):
        page = text(mara, page_of(run, tab))
        assert f"/admin/nhi/invocationlog/{call.pk}/" in page
        assert str(outside.pk) not in page
    assert f'<a href="{page_of(run)}">ship #1</a>' in text(mara, "/admin/nhi/invocationlog/")
    assert f'<a href="{page_of(run)}">ship #1</a>' in text(mara, f"/admin/nhi/invocationlog/{call.pk}/")
    assert "ship #1" not in text(mara, f"/admin/nhi/invocationlog/{outside.pk}/")


def test_tries_moves_and_what_was_used_each_have_their_tab(ship: Agent, mara: Client) -> None:
    run = scene.ended(scene.asked(ship), S.FAILED, why="It broke.")
    Attempt.objects.create(
        execution=run, attempt=1, start_time=run.created_at, end_time=run.created_at, exit_code=75,
        error_category=ErrorCategory.TRANSIENT, error_message="connection refused",
    )  # fmt: skip
    Execution.objects.filter(pk=run.pk).update(retry_count=1)
    assert "connection refused" in text(mara, page_of(run, "attempts/"))
    assert "Process 4121." in text(mara, page_of(run, "transitions/"))
    charts = mara.get(page_of(run, "resources/")).context["charts"]
    assert [chart.summary for chart in charts] == [
        "In 2 looks: processor at most 20 %.", "In 2 looks: memory at most 14 MB.",
        "In 2 looks: read at most 1 MB; written at most 2 MB.",
    ]  # fmt: skip


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


def runner(**facts: object) -> Runner:
    known = {"host": "one", "pid": 7, "process_start": 0.0, "boot": "b", "capacity": 8, "disk_free_mb": 90_000.0}
    return Runner.objects.create(**{**known, **facts})


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


def test_an_attempt_is_called_so_everywhere(ship: Agent, mara: Client) -> None:
    run, agent = scene.ended(scene.asked(ship)), f"{scene.AGENTS}{ship.pk}/"
    for path in (RUNS, agent, f"{agent}change/", *(page_of(run, tab) for tab in RUN_TABS)):
        page = scene.main_of(text(mara, path))
        assert not re.search(r"\b(try|tries)\b", page, re.IGNORECASE), path
        assert "attempt" in page.lower(), path


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


@pytest.mark.parametrize("path", [RUNS, "/admin/supervisor/session/"])
def test_ones_own_are_found_by_any_name(ship: Agent, signed_in: SignedIn, path: str) -> None:
    User.objects.filter(username="mara").update(username="mara+q")
    assert 'href="?by=mara%2Bq"' in text(signed_in("mara+q"), path)


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


def test_an_empty_house_teaches_what_would_be_here(mara: Client) -> None:
    assert "No agent runs here yet" in text(mara, scene.AGENTS)
    page = text(mara, RUNS)
    assert "Nothing has run yet" in page
    assert f'href="{scene.AGENTS}"' in page[page.index("gh-empty") :]
    page = text(mara, QUEUE)
    assert "Nothing waits" in page
    assert "No worker was heard of" in page
    assert "/admin/runs/charts/" not in text(mara, "/admin/")


def test_what_was_decided_when_a_run_was_asked_for_stands_with_its_input(ship: Agent, mara: Client) -> None:
    run = scene.asked(ship, "The password is hunter2 and api_key=sk-live-0123456789abcdef0123")
    page = text(mara, page_of(run, "input/"))
    assert "sk-live-0123456789abcdef0123" not in page
    assert "secrets in it are masked" in page
    assert "a role that may run every agent" in page


def test_a_run_that_nobody_here_may_see_is_not_there(ship: Agent, signed_in: SignedIn) -> None:
    assert signed_in("mara").get(f"{RUNS}{uuid7()}/").status_code == 404
    cache.clear()
    assert cancelling.count([identity("deploy-bot")]) == 0
    assert not ExecutionResult.objects.exists()
