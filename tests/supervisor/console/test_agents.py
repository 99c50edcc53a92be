"""Agents that run here at the console: the list, the hub, adding, editing, switching, and asking for a run."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from nhi import actors
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.identities import lifecycle
from nhi.models import AuditEvent, User
from supervisor import agents
from supervisor.models import Agent, Execution
from tests.console.conftest import SignedIn, identity
from tests.nhi import cast
from tests.supervisor.console import scene
from tests.supervisor.console.scene import AGENT_TABS, AGENTS, queries, text
from tests.supervisor.rows import EXAMPLE

pytestmark = [pytest.mark.capability("SUP-01", "SUP-10", "CON-05"), pytest.mark.django_db]
DESCRIBED = {
    "name": "summary", "identity": "deploy-bot", "kind": "process", "executable_path": EXAMPLE, "mode": "task",
    "input_pattern": "stdin", "output_pattern": "stdout", "access_type": "read-only", "timeout": "60",
    "queue_depth": "10", "queue_wait": "60", "session_timeout": "60", "idle_timeout": "60", "max_processes": "8",
    "max_memory_mb": "256", "max_cpu_seconds": "0",
    "max_steps": "5", "enabled": "on",
}  # fmt: skip


def hub(agent: Agent, tab: str = "") -> str:
    return f"{AGENTS}{agent.pk}/{tab}"


def test_every_tab_opens_for_every_role_and_an_auditor_sees_no_control(ship: Agent, signed_in: SignedIn) -> None:
    scene.ended(scene.asked(ship))
    for name in ("admin", "mara", "tom", "olga", "ada"):
        client = signed_in(name)
        for path in (AGENTS, *(hub(ship, tab) for tab in AGENT_TABS)):
            page = scene.main_of(text(client, path))
            if name == "ada":
                assert "data-dialog" not in page, path
                assert 'method="post"' not in page, path


def test_the_list_says_what_is_in_use_what_waits_and_how_the_last_run_went(ship: Agent, mara: Client) -> None:
    scene.ended(scene.asked(ship), scene.S.FAILED, why="It broke.")
    scene.started(scene.asked(ship))
    scene.asked(ship)
    page = text(mara, AGENTS)
    assert "1 of 1" in page
    assert "1, queue of 3" in page
    assert "Queued" in page
    assert f'href="{hub(ship, "run/")}"' in page


@pytest.mark.both_databases
def test_many_agents_and_runs_are_listed_in_as_many_queries_as_few(ship: Agent, mara: Client) -> None:
    scene.ended(scene.asked(ship))
    few = {path: queries(mara, path) for path in (AGENTS, *(hub(ship, tab) for tab in AGENT_TABS))}
    for number in range(20):
        scene.ended(scene.asked(scene.agent(f"agent-{number}")))
    scene.many(ship, 2000)
    for path, count in few.items():
        assert queries(mara, path) <= count <= 15, path


def test_an_agent_is_added_by_the_form_and_refusals_stand_beside_their_fields(mara: Client) -> None:
    wrong = {**DESCRIBED, "executable_path": "/bin/sh", "identity": "nobody-here", "envs": "LD_PRELOAD=x"}
    answer = mara.post(f"{AGENTS}add/", wrong)
    assert answer.status_code == 422
    assert "There is no agent nobody-here" in answer.context["form"].errors["identity"][0]
    answer = mara.post(f"{AGENTS}add/", {**wrong, "identity": "deploy-bot"})
    assert answer.status_code == 400
    assert {"executable_path", "envs"} <= answer.context["form"].errors.keys()
    assert "LD_PRELOAD" in answer.context["form"].errors["envs"][0]
    assert not Agent.objects.exists()
    made = mara.post(f"{AGENTS}add/", {**DESCRIBED, "envs": "STAGE=prod", "cli_args": "--short\n--lines={{ lines }}"})
    agent = Agent.objects.get(name="summary")
    assert made.headers["Location"] == hub(agent)
    assert agent.cli_args == ["--short", "--lines={{ lines }}"]
    assert (agent.max_concurrent_executions, agent.max_retries) == (10, 3)
    assert agents.declared(agent) == {"STAGE": "prod"}


@pytest.mark.capability("SUP-06")
def test_what_writes_is_tried_again_only_if_a_number_says_so(mara: Client) -> None:
    page = scene.main_of(text(mara, f"{AGENTS}add/"))
    assert "a read-write agent is not tried again, as nobody knows what it had written by then." in page
    assert "A number here counts for either." in page
    for number, typed, kept in ((1, {}, 0), (2, {"max_retries": ""}, 0), (3, {"max_retries": "2"}, 2)):
        bot = cast.agent(f"writer-{number}")
        given = {**DESCRIBED, "name": bot.name, "identity": bot.name, "access_type": "read-write", **typed}
        assert mara.post(f"{AGENTS}add/", given).status_code == 302
        assert Agent.objects.get(name=bot.name).max_retries == kept


def test_all_that_is_wrong_with_an_agent_is_said_at_once(mara: Client) -> None:
    """Also where one field cannot even be read, and once for each."""
    wrong = {"executable_path": "/bin/sh", "envs": "no pair", "cli_args": "fine\n{{ bad", "timeout": "", "name": ""}
    expected = {"name", "executable_path", "envs", "cli_args", "timeout"}
    for path in (f"{AGENTS}add/", hub(scene.agent("summary"), "change/")):
        answer = mara.post(path, {**DESCRIBED, **wrong})
        assert (answer.status_code, answer.context["form"].errors.keys()) == (422, expected)
        assert [len(said) for said in answer.context["form"].errors.values()] == [1] * len(expected)
        assert "Argument 2: " in answer.context["form"].errors["cli_args"][0]
    empty = mara.post(f"{AGENTS}add/", {})
    assert {"name", "identity", "executable_path"} <= empty.context["form"].errors.keys()
    assert "Give the absolute path of a program." in empty.context["form"].errors["executable_path"]


def test_limits_are_set_by_the_form_and_0_takes_them_away(mara: Client) -> None:
    mara.post(f"{AGENTS}add/", DESCRIBED)
    agent = Agent.objects.get(name="summary")
    assert (agent.max_memory_mb, agent.max_cpu_seconds) == (256, None)
    assert "256 MB together" in text(mara, hub(agent))
    form = mara.get(hub(agent, "change/")).context["form"]
    assert [form[name].value() for name in ("max_memory_mb", "max_cpu_seconds")] == [256, 0]
    assert (
        mara.post(hub(agent, "change/"), {**DESCRIBED, "max_memory_mb": "0", "max_cpu_seconds": "90"}).status_code
        == 302
    )
    agent.refresh_from_db()
    assert (agent.max_memory_mb, agent.max_cpu_seconds) == (None, 90)
    page = text(mara, hub(agent))
    assert "90 s together" in page
    assert "no limit" in page
    refused = mara.post(hub(agent, "change/"), {**DESCRIBED, "max_memory_mb": "3"})
    assert "Use a whole number from 16" in refused.context["form"].errors["max_memory_mb"][0]
    assert mara.get(f"{AGENTS}add/").context["form"]["max_memory_mb"].value() == 2048


def test_a_masked_variable_stays_as_it_is_when_the_rest_is_changed(mara: Client) -> None:
    agent = scene.agent("summary", envs={"API_TOKEN": "sk-live-0123456789abcdef0123", "STAGE": "prod"})
    shown = mara.get(hub(agent, "change/")).context["form"]["envs"].value()
    assert "STAGE=prod" in shown
    assert "sk-live" not in text(mara, hub(agent, "change/"))
    typed = {**DESCRIBED, "envs": shown.replace("STAGE=prod", "STAGE=test")}
    assert mara.post(hub(agent, "change/"), typed).status_code == 302
    agent.refresh_from_db()
    assert agents.declared(agent) == {"API_TOKEN": "sk-live-0123456789abcdef0123", "STAGE": "test"}
    assert "sk-live" not in str(list(AuditEvent.objects.values_list("before", "after")))


def test_only_who_may_add_and_change_agents_does(ship: Agent, signed_in: SignedIn) -> None:
    for name in ("olga", "tom", "ada"):
        client = signed_in(name)
        assert client.get(f"{AGENTS}add/").status_code == 403
        assert client.post(hub(ship, "change/"), DESCRIBED).status_code == 403
        assert "Add program or model" not in text(client, AGENTS)


def test_switching_off_says_what_goes_on_and_what_waits(ship: Agent, signed_in: SignedIn) -> None:
    scene.started(scene.asked(ship))
    scene.asked(ship)
    olga = signed_in("olga")
    dialog = olga.get(hub(ship, "off/"))
    page = dialog.content.decode()
    assert "1 run that is under way goes on" in page
    assert "1 run stays in the queue and is not started" in page
    assert olga.post(hub(ship, "off/"), {"reason": "Maintenance", "seen": dialog.context["seen"]}).status_code == 302
    assert not Agent.objects.get(pk=ship.pk).enabled
    assert AuditEvent.objects.get(event="agent.disabled").reason == "Maintenance"
    assert "Nothing of it is started now. It is switched off." in text(olga, hub(ship))
    assert "It cannot be run now" in text(olga, hub(ship, "run/"))
    assert signed_in("tom").get(hub(ship, "off/")).status_code == 403


def test_the_form_says_what_would_become_of_a_run_before_it_is_asked_for(ship: Agent, mara: Client) -> None:
    form = hub(ship, "run/")
    assert "A slot is free" in text(mara, form)
    scene.started(scene.asked(ship))
    assert "It would wait at place 1: 1 of 1 slots are in use, and nothing else waits before it." in text(mara, form)
    for _ in range(3):
        scene.asked(ship)
    full = "The queue of ship is full: 3 runs wait already. Try again in 30 s."
    assert full in text(mara, form)
    assert "3, full" in text(mara, AGENTS)
    refused = mara.post(form, {"input": "Ship it."})
    assert refused.status_code == 503
    assert full in refused.content.decode()
    assert Execution.objects.count() == 4


def test_the_list_tells_the_queue_that_was_set_and_counts_free_slots_beside_it(mara: Client) -> None:
    """Five slots that no worker has given out yet take five runs, and two more wait behind them."""
    agent = scene.agent("tidy", max_concurrent_executions=5, queue_depth=2)
    for _ in range(6):
        scene.asked(agent)
    assert "It would wait at place 7: 0 of 5 slots are in use, and 6 runs wait before it." in text(
        mara, hub(agent, "run/")
    )
    assert "6, queue of 2" in text(mara, AGENTS)
    overview = text(mara, hub(agent))
    assert "6, queue of 2" in overview
    assert "5 free slots take as many beside it." in overview
    assert mara.post(hub(agent, "run/"), {"input": "Ship it."}).status_code == 302
    assert "The queue of tidy is full: 7 runs wait already." in text(mara, hub(agent, "run/"))
    assert "7, full" in text(mara, AGENTS)
    assert mara.post(hub(agent, "run/"), {"input": "Ship it."}).status_code == 503


def test_the_commands_that_its_pages_offer_are_taken_as_they_stand(ship: Agent, mara: Client) -> None:
    """Pasted with a token: the address, the kind of content, and whatever the body must hold."""
    wants = scene.agent("report", cli_args=["--for", "{{ customer }}"])
    talks = scene.agent("talk", mode="interactive")
    token = credentials.issue(actor=SYSTEM, holder=User.objects.get(username="mara")).token
    for agent, tabs in ((ship, ("", "run/")), (wants, ("", "run/")), (talks, ("",))):
        for tab in tabs:
            page = unescape(text(mara, hub(agent, tab)))
            address, body = re.findall(
                r'curl -X POST \S+?(/api/\S+) \S+\s+-H "Authorization: Bearer \$TOKEN" \S+\s+'
                r"-H \"Content-Type: application/json\" \S+\s+-d '([^']+)'", page
            )[0]  # fmt: skip
            bearer = {"Authorization": f"Bearer {token}"}
            answer = Client().post(address, body, content_type="application/json", headers=bearer)
            assert answer.status_code in {201, 202}, (agent.name, answer.content)


def test_a_model_is_asked_for_nothing_that_it_would_be_refused_for(mara: Client) -> None:
    """What was typed for a program stays out of sight, and out of what is saved, once a model is chosen."""
    for_program = {"envs": "STAGE=prod", "allowed_env_vars": "LINES", "max_concurrent_executions": "1"}
    of_model = {**DESCRIBED, "kind": "model", "base_url": "https://models.example.com/v1", "model": "small"}
    fields = mara.get(f"{AGENTS}add/").context["form"].fields
    for name in ("envs", "allowed_env_vars"):
        assert fields[name].shown_for == "kind=process"
    assert mara.post(f"{AGENTS}add/", {**of_model, **for_program}).status_code == 302
    made = Agent.objects.get(name="summary")
    assert (made.kind, agents.declared(made), made.allowed_env_vars) == ("model", {}, [])
    program = scene.agent("tidy", envs={"STAGE": "prod"}, allowed_env_vars=["LINES"])
    assert mara.post(hub(program, "change/"), {**of_model, **for_program, "name": "tidy"}).status_code == 302
    program.refresh_from_db()
    assert (program.kind, agents.declared(program), program.allowed_env_vars) == ("model", {}, [])


def test_a_limit_of_slots_and_a_key_are_taken_away_by_the_form(mara: Client) -> None:
    agent = scene.agent(
        "planner", kind="model", executable_path="", base_url="https://models.example.com/v1", model="small",
        api_key="key-123",
    )  # fmt: skip
    described = {**DESCRIBED, "name": "planner", "kind": "model", "base_url": agent.base_url, "model": "small"}
    form = hub(agent, "change/")
    assert mara.post(form, {**described, "max_concurrent_executions": "0"}).status_code == 302
    agent.refresh_from_db()
    assert (agent.max_concurrent_executions, bool(agent.sealed_key)) == (None, True)
    assert mara.get(form).context["form"]["max_concurrent_executions"].value() == 0
    assert mara.post(form, {**described, "forget_key": "on"}).status_code == 302
    agent.refresh_from_db()
    assert (agent.max_concurrent_executions, agent.sealed_key) == (None, "")
    assert "forget_key" not in text(mara, form)


def test_a_run_is_asked_for_with_what_its_agent_takes_and_the_same_again(mara: Client, settings: object) -> None:
    agent = scene.agent("summary", cli_args=["--for", "{{ customer }}"], allowed_env_vars=["DRY_RUN"])
    form = hub(agent, "run/")
    wrong = mara.post(form, {"input": "x", "parameter:customer": "-rf", "parameters": "[1]", "timeout": "9999"})
    assert wrong.status_code == 422
    assert {"parameters", "timeout"} <= wrong.context["form"].errors.keys()
    refused = mara.post(form, {"input": "x", "parameter:customer": "-rf"})
    assert "must not begin with -" in refused.context["form"].errors["parameter:customer"][0]
    given = {"input": "Two\r\nlines", "parameter:customer": "acme", "parameters": '{"limit": 3}', "env:DRY_RUN": "1"}
    asked = mara.post(form, given)
    run = Execution.objects.get()
    assert asked.headers["Location"] == f"{scene.RUNS}{run.pk}/"
    assert (run.input, run.parameters) == ("Two\nlines", {"limit": 3, "customer": "acme"})
    assert (run.trigger, run.started_by_name, run.context["env_vars"]) == ("manual", "mara", ["DRY_RUN"])
    again = mara.get(f"{form}?like={run.pk}")
    assert again.context["form"]["parameter:customer"].value() == "acme"
    assert again.context["form"]["input"].value() == "Two\nlines"
    assert "Values of variables are not kept" in again.content.decode()


def test_who_may_not_run_it_is_told_and_an_identity_that_may_not_act_blocks_it(
    ship: Agent, signed_in: SignedIn
) -> None:
    for name in ("tom", "ada"):
        assert signed_in(name).get(hub(ship, "run/")).status_code == 403
        assert f'href="{hub(ship, "run/")}"' not in text(signed_in(name), AGENTS)
    lifecycle.suspend(actor=SYSTEM, identity=identity("deploy-bot"), reason="Leaked token")
    page = text(signed_in("olga"), hub(ship))
    assert "Nothing of it is started now. Its identity is suspended." in page
    assert re.search(r"<button[^>]*disabled[^>]*>.*?Run</button>", page)


def test_the_palette_finds_agents_verbs_and_runs_by_their_id(ship: Agent, signed_in: SignedIn) -> None:
    run = scene.asked(ship)

    def found(name: str, term: str) -> dict[str, list[str]]:
        groups = signed_in(name).get("/admin/search/", {"s": term}).context["groups"]
        return {group.title: [hit.title for hit in group.hits] for group in groups}

    assert found("mara", "ship")["Agents that run here"] == ["ship"]
    assert found("mara", "run shi")["Run verbs"] == ["Run ship…"]
    assert "Run verbs" not in found("tom", "run shi")
    assert found("mara", str(run.pk))["Runs"] == ["Run ship #1"]


def test_an_identity_says_what_runs_as_it(ship: Agent, mara: Client) -> None:
    run = scene.ended(scene.asked(ship))
    here = f"/admin/nhi/identity/{ship.identity_id}/"
    assert f'href="{here}runs/"' in text(mara, here)
    page = text(mara, f"{here}runs/")
    assert f"{scene.RUNS}{run.pk}/" in page
    assert f"{AGENTS}add/?identity={ship.identity_id}" in page
    assert queries(mara, f"{here}runs/") <= 15
    tool = identity("github__create_issue")
    assert f"{tool.pk}/runs/" not in text(mara, f"/admin/nhi/identity/{tool.pk}/")
    assert mara.get(f"/admin/nhi/identity/{tool.pk}/runs/").status_code == 403


def test_an_owner_without_a_console_role_runs_only_what_is_theirs(ship: Agent) -> None:
    assert not Agent.objects.visible_to(actors.person(User.objects.create(username="dev"))).exists()


def test_a_program_that_was_taken_off_the_list_is_said_before_its_runs_fail(
    ship: Agent, mara: Client, settings: Any, tmp_path: Path
) -> None:
    assert "It cannot be started any more" not in text(mara, hub(ship))
    settings.EXECUTABLE_ALLOWLIST = tmp_path / "programs"
    settings.EXECUTABLE_ALLOWLIST.write_text("/usr/bin/true\n")
    for path in (hub(ship), hub(ship, "runs/")):
        page = unescape(scene.main_of(text(mara, path)))
        assert f"It cannot be started any more, and its runs fail. {ship.executable_path} is not in the file" in re.sub(
            "<[^>]+>", "", page
        )
    assert "It cannot be run now." in text(mara, hub(ship, "run/"))
    settings.EXECUTABLE_ALLOWLIST.write_text(f"{ship.executable_path}\n")
    assert "It cannot be started any more" not in text(mara, hub(ship))
