"""Several runs at once: stopped after a page that counts, or asked for again with what each was given."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from nhi.models import AuditEvent
from supervisor.models import Agent, Execution
from tests.console.conftest import SignedIn, identity
from tests.supervisor.console import scene
from tests.supervisor.console.scene import RUNS, S, main_of, queries, text

pytestmark = [pytest.mark.capability("SUP-10", "CON-05"), pytest.mark.django_db]
CANCEL, AGAIN = f"{RUNS}bulk/cancel/", f"{RUNS}bulk/again/"


def ticked(path: str, *runs: Execution) -> str:
    return f"{path}?{'&'.join(f'id={run.pk}' for run in runs)}"


def confirmed(client: Client, path: str, **body: str) -> Any:
    return client.post(path, {"reason": "Wrong input", "seen": client.get(path).context["seen"], **body})


def results(answer: Any) -> dict[str, tuple[str, str]]:
    return {item.name: (item.result, item.message) for item in answer.context["results"]}


def test_several_are_stopped_after_a_page_that_counts_and_each_has_its_result(ship: Agent, mara: Client) -> None:
    over, running, waiting = scene.ended(scene.asked(ship)), scene.started(scene.asked(ship)), scene.asked(ship)
    path = ticked(CANCEL, over, running, waiting)
    dialog = mara.get(path)
    assert dialog.context["title"] == "Cancel 2 runs"
    assert [effect.words for effect in dialog.context["effects"]] == [
        "1 leaves the queue unstarted", "1 is asked to end (TERM), and what is left of it after 5 s ended (KILL)",
    ]  # fmt: skip
    page = dialog.content.decode()
    for words in ("ship #3", "ship #2", "1 skipped: has ended already", "ship #1: has ended already", "Reason"):
        assert words in page, words
    assert Execution.objects.open().filter(cancel_requested_at=None).count() == 2
    answer = confirmed(mara, path)
    assert "Cancel: 2 of 3 done" in answer.content.decode()
    assert results(answer) == {
        "ship #3": ("done", ""), "ship #2": ("done", ""), "ship #1": ("skipped", "It has ended already."),
    }  # fmt: skip
    waiting.refresh_from_db()
    running.refresh_from_db()
    assert (waiting.status, running.status, running.cancel_reason) == ("cancelled", None, "Wrong input")
    assert AuditEvent.objects.filter(event="run.cancelled", reason="Wrong input").count() == 2
    assert "is being stopped already" in text(mara, path)


def test_only_what_one_may_stop_alone_is_stopped_among_others(ship: Agent, signed_in: SignedIn) -> None:
    others, own = scene.asked(ship), scene.asked(scene.agent("triage", of="triage-bot"))
    tom = signed_in("tom")
    path = ticked(CANCEL, others, own)
    assert tom.get(path).context["skipped"] == ["ship #1: is not yours to stop"]
    confirmed(tom, path)
    assert {run.agent_name: run.status for run in Execution.objects.all()} == {"ship": None, "triage": "cancelled"}
    assert tom.get(f"{CANCEL}?all=1&state=open").context["title"] == "Cancel 0 runs"
    ada = signed_in("ada")
    assert "bulk/" not in main_of(text(ada, RUNS))
    for path, doing in ((CANCEL, "cancel runs"), (AGAIN, "run runs again")):
        asked = ada.get(ticked(path, others))
        assert (asked.status_code, ada.post(ticked(path, others), {"reason": "No"}).status_code) == (403, 403)
        assert f"You may not {doing}." in asked.content.decode()


def test_all_that_the_filters_leave_is_taken_at_most_a_hundred_at_a_time(mara: Client) -> None:
    other = scene.asked(scene.agent("other"))
    many = scene.agent("many", queue_depth=200)
    for _ in range(102):
        scene.asked(many)
    path = f"{CANCEL}?all=1&agent=many&state=queued"
    dialog = mara.get(path)
    assert dialog.context["title"] == "Cancel 100 runs"
    assert "These are the newest 100; the others after that" in dialog.content.decode()
    assert "and 90 more" in dialog.content.decode()
    assert confirmed(mara, path).status_code == 422
    assert confirmed(mara, path, typed="100").status_code == 200
    assert mara.get(path).context["title"] == "Cancel 2 runs"
    assert Execution.objects.get(pk=other.pk).status is None


def test_a_verb_that_leaves_runs_where_they_are_says_how_to_get_to_the_others(mara: Client) -> None:
    many = scene.agent("many", queue_depth=200)
    runs = [scene.ended(scene.asked(many, f"Part {number}"), S.FAILED, why="It broke.") for number in range(102)]
    path = f"{AGAIN}?all=1&agent=many&state=wrong"
    said = "These are the newest 100; for the others, narrow the filter by From and Until."
    assert said in mara.get(path).content.decode()
    newest = runs[-1]
    Execution.objects.filter(pk__in=[run.pk for run in runs[:2]]).update(
        created_at=newest.created_at - timedelta(days=2)
    )
    until = newest.created_at - timedelta(days=1)
    rest = mara.get(f"{path}&until={until:%Y-%m-%dT%H:%M}")
    assert sorted(rest.context["names"]) == ["many #1", "many #2"]
    assert said not in rest.content.decode()


def test_runs_are_asked_for_again_with_what_they_were_given_by_who_presses(ship: Agent, signed_in: SignedIn) -> None:
    first = scene.ended(scene.asked(ship, "Ship it.", parameters={"limit": 3}, timeout=30), S.FAILED, why="It broke.")
    second = scene.started(scene.asked(ship, "And that."))
    olga = signed_in("olga")
    path = ticked(AGAIN, first, second)
    dialog = olga.get(path)
    assert dialog.context["title"] == "Run 2 runs again"
    assert "2 of them would wait for a slot." in dialog.context["lead"]
    answer = confirmed(olga, path)
    told = results(answer)
    for old in (first, second):
        new = Execution.objects.filter(input=old.input).order_by("-number").first()
        assert new is not None and new.pk != old.pk
        assert (new.parameters, new.timeout) == (old.parameters, old.timeout)
        assert (new.started_by_name, new.trigger) == ("olga", "manual")
        result, said = told[str(old)]
        assert result == "done"
        assert f'href="{RUNS}{new.pk}/">{new}</a>' in said
    assert f"/{new.pk}/" in answer.content.decode()
    assert AuditEvent.objects.filter(event="run.asked", actor_name="olga").count() == 2


def test_what_cannot_be_given_again_is_skipped_with_the_reason(ship: Agent, signed_in: SignedIn) -> None:
    secret = scene.ended(scene.asked(ship, "api_key=sk-live-0123456789abcdef0123"))
    open_vars = scene.agent("vars", allowed_env_vars=["DRY_RUN"])
    variables = scene.ended(scene.asked(open_vars, env_vars={"DRY_RUN": "1"}))
    off = scene.agent("off")
    of_off = scene.ended(scene.asked(off))
    Agent.objects.filter(pk=off.pk).update(enabled=False)
    fine = scene.ended(scene.asked(ship))
    path = ticked(AGAIN, secret, variables, of_off, fine)
    kept = "was given secrets or variables, which are not kept: run it again from its page"
    assert sorted(signed_in("olga").get(path).context["skipped"]) == [
        "off #1: is of an agent that is switched off", f"ship #1: {kept}", f"vars #1: {kept}",
    ]  # fmt: skip
    tom = signed_in("tom").get(path)
    assert tom.context["title"] == "Run 0 runs again"
    assert "is of an agent that you may not run" in tom.content.decode()


def test_what_a_full_queue_refuses_says_so_and_a_stopped_identity_is_skipped(ship: Agent, mara: Client) -> None:
    runs = [scene.ended(scene.asked(ship, f"Part {number}")) for number in range(6)]
    path = ticked(AGAIN, *runs)
    assert (
        "3 of them would wait for a slot. 2 would find a full queue and be refused." in mara.get(path).context["lead"]
    )
    told = results(confirmed(mara, path))
    refused = [said for result, said in told.values() if result == "refused"]
    assert len(refused) == 2
    assert all("wait already. Try again in 30 s." in said for said in refused)
    ship.identity.state = "suspended"
    ship.identity.save()
    Execution.objects.queued().update(state=S.IDLE, status="cancelled")
    dialog = mara.get(path)
    assert dialog.context["title"] == "Run 0 runs again"
    assert all(said.endswith("is of an agent whose identity is suspended") for said in dialog.context["skipped"])


def test_the_same_asked_for_a_moment_ago_is_that_run(mara: Client) -> None:
    once = scene.agent("once", deduplicate=True)
    run = scene.ended(scene.asked(once))
    answer = confirmed(mara, ticked(AGAIN, run))
    assert "The same was asked for a moment ago: it is " in results(answer)["once #1"][1]
    assert Execution.objects.count() == 1


@pytest.mark.both_databases
def test_the_dialogs_ask_as_much_about_many_as_about_few(ship: Agent, signed_in: SignedIn) -> None:
    runs = [scene.ended(scene.asked(ship, f"Part {number}")) for number in range(12)]
    for name in ("mara", "tom"):
        client = signed_in(name)
        for path in (CANCEL, AGAIN):
            few = queries(client, ticked(path, *runs[:2]))
            assert queries(client, ticked(path, *runs)) <= few <= 15, (name, path)


def test_all_that_one_has_not_seen_is_run_again(ship: Agent, mara: Client) -> None:
    for _ in range(2):
        scene.ended(scene.asked(ship), S.FAILED, why="It broke.")
    path = f"{AGAIN}?all=1&state=wrong&span=24h&seen=no"
    assert mara.get(path).context["title"] == "Run 2 runs again"
    mara.post(mara.get(f"{RUNS}?state=wrong&seen=no").context["controls"][0].url)
    assert mara.get(path).context["title"] == "Run 0 runs again"
    assert confirmed(mara, path).status_code == 409


def test_the_list_offers_both_to_who_may(ship: Agent, signed_in: SignedIn) -> None:
    scene.asked(ship)
    for name in ("mara", "olga"):
        page = text(signed_in(name), f"{RUNS}?state=queued")
        assert f'formaction="{CANCEL}"' in page and f'formaction="{AGAIN}"' in page
        assert "All in this filter" in page
    assert identity("deploy-bot").owner.username != "tom"
