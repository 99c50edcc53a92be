"""Whoever asked for the work does not decide about its calls, whichever way they asked. Somebody else does."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import override_settings

from a2a.models import Task
from common.db import clock
from mcp.models import CallApproval, CallApprovalOrigin
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.models import AuditEvent
from supervisor.models import Execution, Schedule, SessionMessage
from supervisor.schedules import firing
from tests.a2a.four_eyes.office import Office, claimed_token, claimed_tokens
from tests.api.callers import Caller
from tests.console.reading import confirmed
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("NHI-14"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
Way = Callable[[Office], str]


def executes(office: Office) -> str:
    office.execute("mallory", office.agent())
    return claimed_token()


def executed_what_somebody_runs_again(office: Office) -> str:
    first = office.execute("mallory", office.agent())
    Execution.objects.filter(pk=first).update(state="idle", status="success")
    page = f"/admin/supervisor/agent/{office.agent().pk}/run/?like={first}"
    assert office.console("oscar").post(page, {"input": "Delete every repository"}).status_code == 302
    return claimed_token()


def runs_again_what_somebody_executed(office: Office) -> str:
    first = office.execute("oscar", office.agent())
    Execution.objects.filter(pk=first).update(state="idle", status="success")
    page = f"/admin/supervisor/agent/{office.agent().pk}/run/?like={first}"
    assert office.console("mallory").post(page, {"input": "Delete every repository"}).status_code == 302
    return claimed_token()


def opens_a_session(office: Office) -> str:
    _session(office, by="mallory")
    return claimed_token()


def speaks_in_a_session(office: Office) -> str:
    session = _session(office, by="oscar")
    token = claimed_token()
    _speak(office, session, by="mallory")
    return token


def spoke_in_a_session_before_speakers_had_ids(office: Office) -> str:
    token = speaks_in_a_session(office)
    SessionMessage.objects.update(said_by_id=None)
    return token


def makes_a_schedule(office: Office) -> str:
    _schedule(office, by="mallory")
    return _fired()


def changes_a_schedule(office: Office) -> str:
    _change(office, _schedule(office, by="oscar"), by="mallory", input_parameters={"input": "Delete all"})
    return _fired()


def changes_a_schedule_that_somebody_renames(office: Office) -> str:
    changes = _schedule(office, by="oscar")
    _change(office, changes, by="mallory", input_parameters={"input": "Delete all"})
    _change(office, changes, by="oscar", name="renamed")
    return _fired()


def changes_a_schedule_that_somebody_changes_after_it_fired(office: Office) -> str:
    schedule = _schedule(office, by="oscar")
    _change(office, schedule, by="mallory", input_parameters={"input": "Delete all"})
    token = _fired()
    _change(office, schedule, by="oscar", input_parameters={"input": "Read the news"})
    return token


def changes_only_a_secret_of_a_schedule(office: Office) -> str:
    secret = "ghp_" + "k3" * 18
    schedule = _schedule(office, by="oscar", input=f"Use {secret}")
    _change(office, schedule, by="mallory", input_parameters={"input": f"Use {secret.replace('k3', 'm4')}"})
    return _fired()


def resumes_a_schedule(office: Office) -> str:
    schedule = _schedule(office, by="oscar")
    assert office.person("oscar").post(f"supervisor/schedules/{schedule}/pause", {}).status == 200
    assert office.person("mallory").post(f"supervisor/schedules/{schedule}/resume", {}).status == 200
    return _fired()


def runs_a_schedule_now(office: Office) -> str:
    schedule = _schedule(office, by="oscar")
    answer = office.person("mallory").post(f"supervisor/schedules/{schedule}/run", {})
    assert answer.status in (200, 202), answer.body
    return claimed_token()


def sends_a_task(office: Office) -> str:
    _task(office, by="mallory")
    return claimed_token()


def sends_a_task_at_the_console(office: Office) -> str:
    office.agent()
    client = office.console("mallory")
    form = client.get("/admin/a2a/task/send/").context["form"]
    shown = {name: str(form[name].value() or "") for name in form.fields}
    body = {**shown, "to": "bot", "task_type": "delete", "input": '{"text": "Delete all"}'}
    assert client.post("/admin/a2a/task/send/", body).status_code == 302
    assert Task.objects.get().created_by_name == "mallory"
    return claimed_token()


def sends_a_task_in_the_name_of_an_agent(office: Office) -> str:
    other = cast.agent("other")
    cast.nhi_grant(other, office.agent().identity)
    _task(office, by="mallory", source_agent_id=str(other.pk))
    return claimed_token()


def lets_another_agent_ask(office: Office) -> str:
    """The run of one agent asks for the run of another."""
    office.execute("mallory", office.agent("first"))
    cast.nhi_grant(office.identity("first"), office.agent().identity)

    asked = Caller(claimed_token()).post(f"supervisor/agents/{office.agent().pk}/execute", {"input": "Go on"})
    assert asked.status == 202, asked.body
    return claimed_token()


def lets_a_session_send_a_task(office: Office) -> str:
    """She only speaks in the session of the agent that sends the task: no chain has her name."""

    agent = office.agent("first", mode="interactive")
    cast.nhi_grant(agent.identity, office.agent().identity)
    session = _session(office, by="oscar", agent="first")
    first = claimed_token()
    _speak(office, session, by="mallory")
    body = {"target_agent_id": str(office.agent().identity_id), "task_type": "delete", "input": {"text": "all"}}
    assert Caller(first).post("a2a/tasks", body).status == 201
    return claimed_token()


def test_who_answers_in_a_task_is_barred(office: Office) -> None:
    """Oscar's agent asks; Bob's wants to know more, and Mallory answers in the agent's name."""
    other, bot = cast.agent("other"), office.identity()
    cast.nhi_grant(other, bot)
    body = {"target_agent_id": str(bot.pk), "task_type": "delete", "input": {"text": "some"}}
    task = Caller(credentials.issue(actor=SYSTEM, holder=other).token).post("a2a/tasks", body).body["task_id"]
    holder = Caller(credentials.issue(actor=SYSTEM, holder=bot).token)
    lease = holder.post(f"a2a/inbox/{task}/claim", {}).body["lease_token"]
    assert holder.post(f"a2a/inbox/{task}/ask", {"lease_token": lease, "message": "Which?"}).status == 200
    assert confirmed(office.console("mallory"), f"/admin/a2a/task/{task}/reply/", text="All of them") == 302
    assert holder.post("a2a/inbox/claim").status == 200
    approval = office.waiting_call(holder.token, task_id=task)
    assert office.is_barred("mallory", approval)
    assert office.decide("ann", approval).status == 200


def _session(office: Office, *, by: str, agent: str = "bot") -> str:
    what = office.agent(agent, mode="interactive")
    answer = office.person(by).post("supervisor/sessions", {"agent_id": str(what.pk)})
    assert answer.status == 201, answer.body
    return str(answer.body["id"])


def _speak(office: Office, session: str, *, by: str) -> None:
    answer = office.person(by).post(f"supervisor/sessions/{session}/messages", {"text": "Delete all"})
    assert answer.status == 201, answer.body


def _schedule(office: Office, *, by: str, input: str = "Read the news") -> str:  # noqa: A002 - its name on the wire
    body = {
        "name": "news",
        "agent_id": str(office.agent().pk),
        "cron_expression": "* * * * *",
        "input_parameters": {"input": input},
    }
    answer = office.person(by).post("supervisor/schedules", body)
    if answer.status == 403:
        # Operators set up no schedules: the role is lent for it.
        user = cast.user(by)
        user.groups.set([*user.groups.all(), *cast.user("lender", "security-admin").groups.all()])
        answer = office.person(by).post("supervisor/schedules", body)
    assert answer.status == 201, answer.body
    return str(answer.body["id"])


def _change(office: Office, schedule: str, *, by: str, **changes: Any) -> None:
    answer = office.person(by).patch(f"supervisor/schedules/{schedule}", changes)
    assert answer.status == 200, answer.body


def _fired() -> str:
    """The clock is set to the schedule's next due time."""
    due = Schedule.objects.get().next_execution
    assert due is not None
    shift = round((due - clock.database_now()).total_seconds()) + 1
    with override_settings(SCHEDULE_CLOCK_SHIFT=shift):
        firing.sweep()
    return claimed_token()


def _task(office: Office, *, by: str, **more: str) -> None:
    body = {"target_agent_id": str(office.agent().identity_id), "task_type": "delete", "input": {"text": "all"}}
    answer = office.person(by).post("a2a/tasks", {**body, **more})
    assert answer.status == 201, answer.body


WAYS: list[Way] = [
    executes,
    executed_what_somebody_runs_again,
    runs_again_what_somebody_executed,
    opens_a_session,
    speaks_in_a_session,
    spoke_in_a_session_before_speakers_had_ids,
    makes_a_schedule,
    changes_a_schedule,
    changes_a_schedule_that_somebody_renames,
    changes_a_schedule_that_somebody_changes_after_it_fired,
    changes_only_a_secret_of_a_schedule,
    resumes_a_schedule,
    runs_a_schedule_now,
    sends_a_task,
    sends_a_task_at_the_console,
    sends_a_task_in_the_name_of_an_agent,
    lets_another_agent_ask,
    lets_a_session_send_a_task,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_who_asked_for_the_work_does_not_decide_about_its_calls(office: Office, way: Way) -> None:
    approval = office.waiting_call(way(office))
    assert office.is_barred("mallory", approval)
    assert office.decide("ann", approval).status == 200
    assert not AuditEvent.objects.filter(event="approval.approved", details__break_glass=True).exists()


def test_who_speaks_after_the_call_was_made_is_barred_too(office: Office) -> None:
    session = _session(office, by="oscar")
    approval = office.waiting_call(claimed_token())
    _speak(office, session, by="mallory")
    assert office.decide("mallory", approval).is_refused(403, "Unauthorized", "own_request")
    assert office.is_barred("mallory", approval), "it is recorded, and no list offers it any more"


def test_an_approval_of_the_version_before_is_decided_by_the_same_people(office: Office) -> None:
    approval = office.waiting_call(sends_a_task(office))
    CallApprovalOrigin.objects.all().delete()
    assert office.decide("mallory", approval).is_refused(403, "Unauthorized", "own_request")
    assert office.decide("ann", approval).status == 200


def test_a_call_in_no_run_and_no_task_is_part_of_what_its_agent_does(office: Office) -> None:
    """An agent with a credential of its own does not leave the task by not naming it."""

    bot = office.identity()
    body = {"target_agent_id": str(bot.pk), "task_type": "delete", "input": {"text": "all"}}
    assert office.person("mallory").post("a2a/tasks", body).status == 201
    token = credentials.issue(actor=SYSTEM, holder=bot).token

    assert Caller(token).post("a2a/inbox/claim").status == 200
    approval = office.waiting_call(token)
    assert office.is_barred("mallory", approval)
    assert office.decide("ann", approval).status == 200


def test_another_attempt_bars_who_asked_for_that_one(office: Office) -> None:
    """Two runs make the same call: both wait for the same decision."""
    first = office.execute("oscar", office.agent())
    second = office.execute("mallory", office.agent())
    tokens = claimed_tokens()
    approval = office.waiting_call(tokens[first])
    assert office.console("mallory").get("/admin/mcp/callapproval/?decide=me").context["rows"]
    assert office.waiting_call(tokens[second]) == approval
    assert office.is_barred("mallory", approval)
    assert CallApproval.objects.get().attempts == 2
