"""Setting schedules up, changing, pausing, removing and running them out of turn: who may, what is refused, what is
on record."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from common.errors import Conflict, Duplicate, InvalidInput, NotAllowed
from nhi import actors
from nhi.actors import SYSTEM
from nhi.identities import lifecycle
from nhi.models import AuditEvent
from supervisor import agents, schedules
from supervisor.access import Caller
from supervisor.models import Agent, Schedule
from supervisor.schedules import facts as schedule_facts
from supervisor.schedules import firing, pausing
from tests.nhi import cast
from tests.supervisor.schedules.conftest import NOON, finish, fires, runs

pytestmark = [pytest.mark.capability("SUP-09"), pytest.mark.django_db]
Make = Callable[..., Any]


def fresh(schedule: Schedule) -> Schedule:
    return Schedule.objects.select_related("agent").get(pk=schedule.pk)


def test_a_new_schedule_waits_for_its_first_due_time(make_schedule: Make) -> None:
    schedule = make_schedule(cron_expression="30 9 * * MON-FRI", timezone="Europe/Berlin")
    assert f"{schedule.next_execution:%a %H:%M}" == "Wed 07:30"
    assert [f"{due:%d %H:%M}" for due in schedule_facts.upcoming(schedule)] == [
        "16 07:30", "17 07:30", "18 07:30", "21 07:30", "22 07:30",
    ]  # fmt: skip
    assert (schedule.active, schedule_facts.state(schedule, runs=False)) == (True, "active")
    assert (schedule.misfire_policy, schedule.overlap_policy, schedule.last_execution) == ("skip", "skip", None)
    assert cast.events(schedule) == ["schedule.added"]


def test_one_that_is_not_enabled_is_only_set_up(make_schedule: Make) -> None:
    schedule = make_schedule(enabled=False)
    assert (schedule.next_execution, len(schedule_facts.upcoming(schedule))) == (None, 5)
    assert schedule_facts.state(schedule, runs=False) == "created"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"cron_expression": "0 0 9 * * *"}, "cron_expression"),
        ({"cron_expression": "@sometimes"}, "cron_expression"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"misfire_policy": "never"}, "misfire_policy"),
        ({"overlap_policy": ""}, "overlap_policy"),
        ({"name": ""}, "name"),
        ({"inputs": {"input": "x" * (1024 * 1024 + 1), "parameters": {"topic": "x"}}}, "input_parameters.input"),
        ({"inputs": {"parameters": {"topic": "--help"}}}, "input_parameters.parameters.topic"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(
    given: dict[str, Any], field: str, make_schedule: Make, make_agent: Make
) -> None:
    agent = make_agent(cli_args=["{{topic}}"])
    with pytest.raises(InvalidInput) as refused:
        make_schedule(**{"agent": agent, "inputs": {"parameters": {"topic": "x"}}, **given})
    assert [problem.field for problem in refused.value.fields] == [field]


def test_only_an_agent_that_runs_tasks_and_is_on_gets_one(make_schedule: Make, make_agent: Make) -> None:
    for agent in (make_agent(name="off", enabled=False), make_agent(name="talks", mode="interactive")):
        with pytest.raises(InvalidInput) as refused:
            make_schedule(agent=agent)
        assert [problem.field for problem in refused.value.fields] == ["agent_id"]


def test_a_name_is_free_again_when_its_schedule_is_removed(make_schedule: Make) -> None:
    schedule = make_schedule()
    with pytest.raises(Duplicate):
        make_schedule(agent=schedule.agent)
    removed = schedules.remove(actor=cast.admin(), schedule=schedule)
    assert (removed.active, removed.next_execution) == (False, None)
    make_schedule(agent=schedule.agent)
    with pytest.raises(Conflict):
        schedules.remove(actor=cast.admin(), schedule=schedule)
    with pytest.raises(Conflict):
        schedules.change(actor=cast.admin(), schedule=schedule, name="other")
    assert cast.events(schedule) == ["schedule.added", "schedule.removed"]


def test_secrets_of_the_input_are_kept_sealed_and_shown_masked(make_schedule: Make, at: Make) -> None:
    secret = "password=hunter2-and-more"
    schedule = make_schedule(inputs={"input": secret, "parameters": {"api_key": "k-1234567890"}})
    shown = str(schedule.input_parameters) + schedule.sealed_input
    said = make_schedule(name="said", inputs={"input": "with k-1234567890", "parameters": {"api_key": "k-1234567890"}})
    shown += str(said.input_parameters)
    assert "hunter2" not in shown and "k-1234567890" not in shown
    assert schedule_facts.opened(fresh(schedule)) == {"input": secret, "parameters": {"api_key": "k-1234567890"}}
    schedules.change(actor=cast.admin(), schedule=schedule, name="renamed")
    assert schedule_facts.opened(fresh(schedule))["input"] == secret


def test_what_is_masked_is_not_handed_to_another_agent(make_schedule: Make, make_agent: Make) -> None:
    mara, other = cast.admin(), make_agent(name="other")
    schedule = make_schedule(inputs={"parameters": {"api_key": "k-1234567890"}})
    with pytest.raises(InvalidInput) as refused:
        schedules.change(actor=mara, schedule=schedule, agent=other)
    assert [problem.field for problem in refused.value.fields] == ["input_parameters"]
    moved = schedules.change(actor=mara, schedule=schedule, agent=other, inputs={"input": "anew"})
    assert (moved.agent, schedule_facts.opened(fresh(moved))["parameters"]) == (other, {})
    assert schedules.change(actor=mara, schedule=schedule, agent=make_agent(name="third")).agent.name == "third"


def test_one_is_switched_off_whatever_its_agent_wants_by_now(make_schedule: Make, make_agent: Make) -> None:
    mara, agent = cast.admin(), make_agent()
    schedule = make_schedule(agent=agent)
    agents.change(actor=mara, agent=agent, cli_args=["{{topic}}"])
    assert not schedules.change(actor=mara, schedule=schedule, enabled=False, name="rest").active
    for asked in ({"enabled": True}, {"inputs": {"input": "x"}}):
        with pytest.raises(InvalidInput, match=r"input_parameters\.parameters\.topic"):
            schedules.change(actor=mara, schedule=schedule, **asked)


def test_an_input_that_nobody_can_read_any_more_is_given_anew(make_schedule: Make) -> None:
    mara, schedule = cast.admin(), make_schedule(inputs={"input": "now"})
    Schedule.objects.filter(pk=schedule.pk).update(sealed_input="gone.AAAA")
    assert schedules.change(actor=mara, schedule=schedule, name="renamed").name == "renamed"
    with pytest.raises(Conflict, match="Give it again"):
        schedules.run_now(caller=Caller(mara), schedule=fresh(schedule))
    schedules.change(actor=mara, schedule=schedule, inputs={"input": "anew"})
    assert schedules.run_now(caller=Caller(mara), schedule=fresh(schedule)).execution.input == "anew"


def test_another_rule_sets_another_next_due_time_and_nothing_else_does(make_schedule: Make, at: Make) -> None:
    schedule = make_schedule()
    at(NOON + timedelta(minutes=10))
    same = schedules.change(actor=cast.admin(), schedule=schedule, misfire_policy="all")
    assert same.next_execution == schedule.next_execution
    other = schedules.change(actor=cast.admin(), schedule=schedule, cron_expression="0 18 * * *", timezone="UTC")
    assert f"{other.next_execution:%H:%M}" == "18:00"
    off = schedules.change(actor=cast.admin(), schedule=schedule, enabled=False)
    assert (off.active, off.next_execution) == (False, None)
    assert cast.events(schedule) == ["schedule.added", *["schedule.changed"] * 3]


def test_a_pause_is_not_made_up_for(make_schedule: Make, at: Make) -> None:
    schedule = make_schedule(misfire_policy="all")
    paused = pausing.pause(actor=cast.acting("otto", "operator"), schedule=schedule, reason="Maintenance")
    assert (paused.active, paused.next_execution, paused.pause_reason) == (False, None, "Maintenance")
    assert schedule_facts.state(paused, runs=False) == "paused"
    with pytest.raises(Conflict):
        pausing.pause(actor=SYSTEM, schedule=schedule)
    at(NOON + timedelta(minutes=30))
    pausing.resume(actor=SYSTEM, schedule=schedule)
    with pytest.raises(Conflict):
        pausing.resume(actor=SYSTEM, schedule=schedule)
    firing.sweep()
    assert fires(schedule) == []
    at(NOON + timedelta(minutes=31))
    firing.sweep()
    assert fires(schedule) == [("12:31", "fired", True)]


def test_a_run_out_of_turn_leaves_the_next_due_time(make_schedule: Make, at: Make) -> None:
    schedule = make_schedule(inputs={"input": "now"})
    otto = cast.acting("otto", "operator")
    run = schedules.run_now(caller=Caller(otto), schedule=schedule).execution
    assert (run.trigger, run.schedule_id, run.input, run.started_by_name) == ("manual", schedule.pk, "now", "otto")
    now = fresh(schedule)
    assert now.next_execution == schedule.next_execution
    assert now.last_execution is not None
    assert schedule_facts.running([now]) == {now.pk}
    finish(run)
    assert schedule_facts.running([now]) == set()


def test_who_may(make_schedule: Make, make_agent: Make) -> None:
    """Set up by security admins, worked by operators; who handles the agent's identity may do both."""
    agent: Agent = make_agent(name="report", identity=cast.agent("report", owner=cast.user("lena")))
    schedule = make_schedule(agent=agent)
    cast.user_grant(agent.identity, cast.user("max"), level="manage")
    cast.user_grant(agent.identity, cast.user("ute"), level="use")
    may = {
        "mara": (True, True),
        "otto": (False, True),
        "lena": (True, True),
        "max": (True, True),
        "ute": (False, False),
    }
    roles = {"mara": ["security-admin"], "otto": ["operator"]}
    for name, wanted in {**may, "ada": (False, False)}.items():
        actor = cast.acting(name, *roles.get(name, []), *(["auditor"] if name == "ada" else []))
        tried = (
            lambda who=actor: schedules.change(actor=who, schedule=schedule, timezone="UTC"),
            lambda who=actor: schedules.run_now(caller=Caller(who), schedule=schedule),
        )
        assert tuple(_works(act) for act in tried) == wanted, name
    with pytest.raises(NotAllowed):
        pausing.pause(actor=actors.identity(agent.identity), schedule=schedule)


def _works(act: Callable[[], Any]) -> bool:
    try:
        act()
    except NotAllowed:
        return False
    return True


@pytest.mark.capability("NHI-03")
@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_the_kill_switch_pauses_the_schedules_of_an_identitys_agents(
    make_schedule: Make, make_agent: Make, at: Make
) -> None:
    bot = cast.agent("bot")
    agent = make_agent(identity=bot)
    first, second = make_schedule(name="first", agent=agent), make_schedule(name="second", agent=agent)
    make_schedule(name="off", agent=agent, enabled=False)
    other = make_schedule(name="other")
    assert pausing.STEP.count([bot]) == 2
    stopped = lifecycle.suspend(actor=SYSTEM, identity=bot, reason="Leak")
    assert (stopped.stopped["schedules"], stopped.pending) == (2, [])
    for schedule in (first, second):
        now = fresh(schedule)
        assert (now.active, now.next_execution, now.pause_reason) == (False, None, "bot was suspended: Leak")
        assert now.paused_by_name == "Gatehouse"
        paused = AuditEvent.objects.get(event="schedule.paused", subject_id=schedule.pk)
        assert paused.reason == "bot was suspended by Gatehouse: Leak"
        assert cast.events(schedule) == ["schedule.added", "schedule.paused"]
    at(NOON + timedelta(minutes=1))
    firing.sweep()
    assert runs(first) == runs(second) == []
    assert len(runs(other)) == 1
