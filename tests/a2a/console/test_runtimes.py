"""What does an agent's tasks, at the console: told beside them, chosen in a dialog by who may."""

import pytest
from django.test import Client

from a2a import carriers, dispatching, runtimes
from a2a.carriers import Carrier
from a2a.choices import RuntimeKind
from a2a.models import Runtime, Task
from nhi.models import AuditEvent, Identity
from supervisor.models import Agent
from tests.a2a import rows
from tests.console.conftest import SignedIn, hub, identity
from tests.supervisor.console.scene import AGENTS, main_of, text
from tests.supervisor.console.test_agents import DESCRIBED
from tests.supervisor.rows import keep

pytestmark = [pytest.mark.capability("A2A-07", "CON-05"), pytest.mark.django_db]


def tab() -> str:
    return hub("triage-bot", "tasks/")


def change() -> str:
    return hub("triage-bot", "runtime/")


@pytest.fixture
def bot(seeded: None) -> Identity:
    return identity("triage-bot")


@pytest.fixture
def runs(bot: Identity) -> Agent:
    return keep(bot, "sorts").agent


def test_the_tab_says_where_tasks_go(bot: Identity, runs: Agent, mara: Client, signed_in: SignedIn) -> None:
    page = main_of(text(mara, tab()))
    assert "sorts (program)" in page and "nobody chose" in page
    assert change() in page
    for name in ("tom", "olga", "ada"):
        page = main_of(text(signed_in(name), tab()))
        assert "sorts (program)" in page and change() not in page, name
    assert "Tasks go to" not in main_of(text(mara, f"{tab()}?side=from"))


def test_a_choice_is_made_and_taken_back(
    bot: Identity, runs: Agent, mara: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carriers, "_carriers", {})
    drawn = text(mara, change())
    assert "Whatever runs as it" in drawn and "Another A2A server" not in drawn and "Word before the" not in drawn
    done = mara.post(change(), {"to": "inbox"})
    assert (done.status_code, done["Location"]) == (302, tab())
    assert runtimes.of(bot).kind == "inbox"
    assert "chosen by mara" in main_of(text(mara, tab()))
    mara.post(change(), {"to": f"runs:{runs.pk}"})
    assert runtimes.of(bot).agent == runs
    mara.post(change(), {"to": "open"})
    assert not Runtime.objects.in_force().exists()


def test_only_who_may_chooses(bot: Identity, signed_in: SignedIn) -> None:
    for name in ("tom", "olga", "ada"):
        assert signed_in(name).get(change()).status_code == 403, name
    assert signed_in("mara").get(hub("ci", "runtime/")).status_code == 404


def test_a_server_is_chosen_where_something_speaks_to_servers(
    bot: Identity, mara: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_: object) -> None: ...

    monkeypatch.setattr(carriers, "_carriers", {RuntimeKind.REMOTE: Carrier(nothing, nothing)})
    monkeypatch.setattr("a2a.runtime_checks.look_up", lambda _url: None)
    assert "Another A2A server" in text(mara, change())
    given = {"to": "remote", "url": "https://agents.example.com/", "wire_version": "auto", "binding": "auto"}
    refused = mara.post(change(), {**given, "url": "http://10.0.0.1/"})
    assert refused.status_code == 400
    assert refused.context["form"].errors["url"]
    mara.post(change(), {**given, "credential": "s3cret-value", "timeout": "20"})
    row = Runtime.objects.in_force().get()
    assert (row.url, row.timeout, runtimes.credential(row)) == ("https://agents.example.com/", 20, "s3cret-value")
    assert "s3cret" not in text(mara, change())
    assert "agents.example.com" in main_of(text(mara, tab()))
    mara.post(change(), {**given, "forget": "on"})
    assert runtimes.credential(Runtime.objects.in_force().get()) == ""


@pytest.mark.django_db(transaction=True)
def test_a_task_leads_to_its_run(bot: Identity, runs: Agent, mara: Client) -> None:
    task = rows.sent(bot)
    path = f"/admin/a2a/task/{task.pk}/"
    assert "waits for a place in the queue of runs" in main_of(text(mara, path))
    assert dispatching.dispatch(runs.pk) == 1
    page = main_of(text(mara, path))
    assert "Its run waits for a place." in page
    assert f"/admin/supervisor/execution/{Task.objects.get(pk=task.pk).execution_id}/" in page
    assert "Stops run " in text(mara, f"{path}cancel/")
    assert "triage-bot" not in main_of(text(mara, "/admin/tasks/inboxes/"))


def followed(bot: Identity) -> list[tuple[str, str]]:
    """Of the moves of its tasks that nobody chose: what did them before, and after."""
    rows = AuditEvent.objects.filter(event="runtime.followed", subject_id=bot.pk).order_by("at", "id")
    return [tuple(side.get("agent") or side["kind"] for side in (row.before, row.after)) for row in rows]


def test_what_runs_as_an_agent_moves_its_tasks_and_says_so_where_it_is_decided(bot: Identity, mara: Client) -> None:
    form = {**DESCRIBED, "name": "sorts", "identity": "triage-bot"}
    page = main_of(text(mara, f"{AGENTS}add/?identity={bot.pk}"))
    assert "Now: Tasks of triage-bot go to its inbox, for its own workers." in page
    rows.sent(bot)
    assert "1 open task stays in its inbox." in main_of(text(mara, f"{AGENTS}add/?identity={bot.pk}"))
    made = mara.post(f"{AGENTS}add/", form, follow=True)
    said = "sorts was added. Tasks of triage-bot go to sorts (program). 1 open task stays in its inbox."
    assert said in made.content.decode()
    agent = Agent.objects.get(name="sorts")
    assert "Tasks of triage-bot go to sorts (program)." in text(mara, f"{AGENTS}{agent.pk}/change/")
    dialog = text(mara, f"{AGENTS}{agent.pk}/off/")
    assert "New tasks of triage-bot go to its inbox, for its own workers." in dialog
    # What moves nothing says where they go, and is on no record of the identity's.
    mara.post(f"{AGENTS}{agent.pk}/change/", {**form, "timeout": "70"})
    off = mara.post(f"{AGENTS}{agent.pk}/off/", {"reason": "Maintenance", "seen": ""}, follow=True)
    assert "sorts is switched off. Tasks of triage-bot go to its inbox" in off.content.decode()
    assert followed(bot) == [("inbox", "sorts"), ("sorts", "inbox")]
    assert "New tasks of triage-bot go to sorts (program)." in text(mara, f"{AGENTS}{agent.pk}/on/")
    changes = main_of(text(mara, hub("triage-bot", "changes/")))
    assert "changed what runs as" in changes and "and its tasks follow that" in changes


def test_what_runs_as_an_agent_moves_nothing_that_somebody_chose(bot: Identity, mara: Client) -> None:
    mara.post(change(), {"to": "inbox"})
    runs = keep(bot, "sorts").agent
    assert followed(bot) == []
    page = text(mara, f"{AGENTS}{runs.pk}/change/")
    assert "Tasks of triage-bot go to its inbox, for its own workers, as mara chose." in page
