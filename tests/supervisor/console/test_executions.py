"""One run at the console: its tabs, stopping it, and what it says and used."""

import re
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from common.ids import uuid7
from supervisor import cancelling
from supervisor.choices import ErrorCategory
from supervisor.models import Agent, Attempt, Execution, ExecutionResult, Runner
from tests.console import calling
from tests.console.conftest import SignedIn, identity
from tests.supervisor.console import scene
from tests.supervisor.console.scene import PART, QUEUE, RUN_TABS, RUNS, S, call_in, page_of, queries, runner, text

pytestmark = [pytest.mark.capability("SUP-10", "CON-05"), pytest.mark.django_db]


def test_every_tab_opens_for_every_role_and_an_auditor_sees_no_control(ship: Agent, signed_in: SignedIn) -> None:
    run = scene.started(scene.asked(ship))
    for name in ("admin", "mara", "tom", "olga", "ada"):
        client = signed_in(name)
        for path in (RUNS, QUEUE, *(page_of(run, tab) for tab in RUN_TABS)):
            page = scene.main_of(text(client, path))
            assert ("data-dialog" in page) == (name not in ("tom", "ada") and path not in (RUNS, QUEUE)), (name, path)


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


def test_an_attempt_is_called_so_everywhere(ship: Agent, mara: Client) -> None:
    run, agent = scene.ended(scene.asked(ship)), f"{scene.AGENTS}{ship.pk}/"
    for path in (RUNS, agent, f"{agent}change/", *(page_of(run, tab) for tab in RUN_TABS)):
        page = scene.main_of(text(mara, path))
        assert not re.search(r"\b(try|tries)\b", page, re.IGNORECASE), path
        assert "attempt" in page.lower(), path


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
