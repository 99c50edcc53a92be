"""Schedules over the API: the whole life of one, who sees it, what is refused, when a rule would be due."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nhi.models import AuditEvent, Identity
from supervisor.models import Agent, Schedule
from supervisor.schedules import firing
from tests.api.callers import ABSENT, Caller, calling
from tests.nhi import cast
from tests.supervisor.schedules.conftest import NOON, finish, runs

pytestmark = [pytest.mark.capability("SUP-09", "SUP-10"), pytest.mark.django_db]
PATH = "supervisor/schedules"
Make = Callable[..., Any]


@pytest.fixture
def mara(db: None) -> Caller:
    return calling(cast.user("mara", "security-admin"))


@pytest.fixture
def agent(make_agent: Make) -> Agent:
    made: Agent = make_agent(name="report", identity=cast.agent("report", owner=cast.user("lena")))
    return made


def given(agent: Agent, **more: Any) -> dict[str, Any]:
    return {"name": "morning", "agent_id": str(agent.pk), "cron_expression": "30 9 * * 1-5", **more}


def test_a_schedule_from_its_first_day_to_its_last(mara: Caller, agent: Agent, at: Make) -> None:
    at(NOON)
    inputs = {"input": "the figures", "parameters": {"depth": 2}}
    more = {"timezone": "Europe/Berlin", "input_parameters": inputs, "misfire_policy": "once"}
    made = mara.post(PATH, given(agent, **more))
    assert made.status == 201
    wanted = {
        **given(agent, **more), "agent_name": "report", "enabled": True, "active": True, "state": "active",
        "overlap_policy": "skip", "last_execution": None, "next_execution": "2027-06-16T07:30:00.000000Z",
        "words": "at 09:30 on Monday to Friday", "paused_by": "", "pause_reason": "", "created_by": "mara",
    }  # fmt: skip
    assert {name: made.body[name] for name in wanted} == wanted
    assert made.body["next_five"] == [f"2027-06-{day}T07:30:00.000000Z" for day in (16, 17, 18, 21, 22)]
    place = f"{PATH}/{made.body['id']}"
    assert mara.get(place).body == made.body
    assert mara.get(PATH, agent_id=str(agent.pk), active="true").body["schedules"] == [made.body]
    assert mara.get(PATH, active="false").body["total"] == 0

    changed = mara.patch(place, {"cron_expression": "@hourly", "timezone": "UTC"})
    assert (changed.body["next_execution"], changed.body["words"]) == ("2027-06-15T13:00:00.000000Z", "every hour")
    at(NOON + timedelta(hours=1))
    firing.sweep()
    assert mara.get(place).body["state"] == "executing"
    schedule = Schedule.objects.get()
    [run] = runs(schedule)
    fires = mara.get(f"{place}/fires").body
    fired = {"due_at": "2027-06-15T13:00:00.000000Z", "state": "fired", "reason": "", "execution_id": str(run.pk)}
    assert fires == {"fires": [fired], "next_cursor": None}
    finish(run)

    assert mara.post(f"{place}/run", {"bogus": 1}).fields == ["bogus"]
    again = mara.send("POST", f"{place}/run")
    assert (again.status, again.body["id"], again.body["state"]) == (200, made.body["id"], "executing")
    assert again.body["next_execution"] == "2027-06-15T14:00:00.000000Z"
    assert again.body["execution_id"] == str(runs(schedule)[1].pk)

    paused = mara.post(f"{place}/pause")
    assert (paused.status, paused.body["active"], paused.body["next_execution"]) == (200, False, None)
    assert paused.body["next_five"] == again.body["next_five"]
    assert mara.post(f"{place}/pause", {"reason": "Again"}).is_refused(409, "Conflict")
    resumed = mara.post(f"{place}/resume", {"reason": "Back"})
    assert (resumed.status, resumed.body["active"]) == (200, True)
    assert mara.post(f"{place}/resume").is_refused(409, "Conflict")

    assert mara.send("DELETE", place, query={"reason": "x" * 501}).fields == ["reason"]
    gone = mara.send("DELETE", place, query={"reason": "Not needed any more"})
    assert AuditEvent.objects.get(event="schedule.removed").reason == "Not needed any more"
    assert (gone.status, gone.body["id"], gone.body["active"]) == (200, made.body["id"], False)
    assert mara.get(place).is_refused(404, "NotFound")
    assert mara.post(f"{place}/run").is_refused(404, "NotFound")
    assert mara.post(PATH, given(agent)).status == 201
    other = mara.post(PATH, given(agent, name="other")).body["id"]
    assert mara.send("DELETE", f"{PATH}/{other}").status == 200
    assert mara.post(PATH, given(agent)).is_refused(409, "Conflict", "duplicate")


@pytest.mark.parametrize(
    ("wrong", "fields"),
    [
        ({"cron_expression": "0 0 9 * * 1-5"}, ["cron_expression"]),
        ({"cron_expression": "@every 5m"}, ["cron_expression"]),
        ({"timezone": "Berlin"}, ["timezone"]),
        ({"agent_id": ABSENT}, ["agent_id"]),
        ({"misfire_policy": "maybe"}, ["misfire_policy"]),
        ({"overlap_policy": "maybe"}, ["overlap_policy"]),
        ({"next_execution": "2027-01-01T00:00:00Z"}, ["next_execution"]),
        ({"active": True}, ["active"]),
        ({"input_parameters": {"text": "x"}}, ["input_parameters.text"]),
        ({"input_parameters": "x"}, ["input_parameters"]),
        ({"cron_expression": "x", "timezone": "y"}, ["cron_expression", "timezone"]),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(mara: Caller, agent: Agent, wrong: dict[str, Any], fields: list[str]) -> None:
    answer = mara.post(PATH, given(agent, **wrong))
    assert answer.is_refused(400, "InvalidParameters")
    assert answer.fields == fields


@pytest.mark.django_db(transaction=True)
def test_next_execution_is_null_while_it_does_not_fire_and_next_five_says_when_it_is_due(
    mara: Caller, agent: Agent, at: Make
) -> None:
    at(NOON)
    made = mara.post(PATH, given(agent, cron_expression="30 9 * * *")).body
    place, identity = f"{PATH}/{made['id']}", f"identities/{agent.identity_id}"
    due = [f"2027-06-{day}T09:30:00.000000Z" for day in (16, 17, 18, 19, 20)]

    def is_due(*, fires: bool) -> None:
        listed = mara.get(PATH).body["schedules"]
        for body in (mara.get(place).body, *listed):
            assert (body["next_execution"], body["next_five"]) == (due[0] if fires else None, due)

    is_due(fires=True)
    assert mara.patch(place, {"enabled": False}).status == 200
    is_due(fires=False)
    assert mara.patch(place, {"enabled": True}).status == 200
    assert mara.post(f"{place}/pause").status == 200
    is_due(fires=False)
    assert mara.post(f"{place}/resume").status == 200
    is_due(fires=True)
    agent_place = f"supervisor/agents/{agent.pk}"
    assert mara.patch(agent_place, {"enabled": False}).status == 200
    is_due(fires=False)
    assert mara.patch(agent_place, {"enabled": True}).status == 200
    is_due(fires=True)
    Identity.objects.filter(pk=agent.identity_id).update(expires_at=timezone.now())
    is_due(fires=False)
    Identity.objects.filter(pk=agent.identity_id).update(expires_at=None)
    assert mara.post(f"{identity}/suspend", {"reason": "Leak"}).status == 200
    is_due(fires=False)
    assert mara.post(f"{identity}/activate", {"reason": "Sealed"}).status == 200
    is_due(fires=False)
    assert mara.post(f"{place}/resume").status == 200
    is_due(fires=True)


def test_pages_read_the_clock_once_for_all_schedules(mara: Caller, agent: Agent) -> None:
    mara.post(PATH, given(agent, name="first", enabled=False))
    with CaptureQueriesContext(connection) as few:
        assert mara.get(PATH).body["total"] == 1
    for number in range(20):
        mara.post(PATH, given(agent, name=f"s{number}", enabled=False))
    with CaptureQueriesContext(connection) as many:
        assert mara.get(PATH).body["total"] == 21
    assert len(many) <= len(few)


def test_who_sees_one_and_who_may_do_what(mara: Caller, agent: Agent) -> None:
    place = f"{PATH}/{mara.post(PATH, given(agent)).body['id']}"
    lena, bot = calling(cast.user("lena")), calling(agent.identity)
    otto, ada = calling(cast.user("otto", "operator")), calling(cast.user("ada", "auditor"))
    stranger, other = calling(cast.user("sam")), calling(cast.agent("other"))
    for who in (lena, bot, otto, ada):
        assert who.get(place).status == 200
    for who in (stranger, other):
        assert who.get(place).is_refused(404, "NotFound")
        assert who.get(PATH).body["total"] == 0
        assert who.post(f"{place}/run").is_refused(404, "NotFound")
    assert lena.patch(place, {"overlap_policy": "queue"}).status == 200
    for who in (otto, ada, bot):
        assert who.patch(place, {"overlap_policy": "skip"}).is_refused(403, "Unauthorized")
        assert who.send("DELETE", place).is_refused(403, "Unauthorized")
    for who in (ada, bot):
        assert who.post(f"{place}/run").is_refused(403, "Unauthorized")
    for who in (lena, otto, mara):
        assert who.post(f"{place}/run").status == 200
    assert otto.post(PATH, given(agent, name="mine")).is_refused(403, "Unauthorized")
    assert lena.post(PATH, given(agent, name="mine")).status == 201


def test_a_run_that_cannot_be_is_refused_as_the_agents_own(mara: Caller, make_agent: Make) -> None:
    full = make_agent(name="full", queue_depth=0, max_concurrent_executions=1)
    place = f"{PATH}/{mara.post(PATH, given(full)).body['id']}"
    assert mara.post(f"{place}/run").status == 200
    assert mara.post(f"{place}/run").is_refused(503, "ExecutionFailed", "queue_full")
    Agent.objects.update(enabled=False)
    assert mara.post(f"{place}/run").is_refused(409, "Conflict", "agent_disabled")
    off = mara.post(PATH, given(full, name="off"))
    assert off.is_refused(400, "InvalidParameters")
    assert off.fields == ["agent_id"]


def test_a_zone_that_is_no_more_spoils_no_list(mara: Caller, agent: Agent) -> None:
    fine, spoilt = (mara.post(PATH, given(agent, name=name)).body for name in ("fine", "spoilt"))
    Schedule.objects.filter(pk=spoilt["id"]).update(timezone="Europe/Atlantis")
    told = {one["name"]: one for one in mara.get(PATH).body["schedules"]}
    assert told["fine"] == fine
    assert told["spoilt"]["next_five"] == []
    assert "'Europe/Atlantis' is no time zone" in told["spoilt"]["problem"]
    assert mara.post(f"{PATH}/{spoilt['id']}/pause").status == 200
    assert mara.post(f"{PATH}/{spoilt['id']}/resume").is_refused(409, "Conflict")


def test_due_times_are_listed_latest_first_by_cursor(mara: Caller, agent: Agent, at: Make) -> None:
    at(NOON)
    place = f"{PATH}/{mara.post(PATH, given(agent, cron_expression='* * * * *')).body['id']}"
    at(NOON + timedelta(minutes=5))
    firing.sweep()
    found, cursor = [], {}
    while cursor is not None:
        page = mara.get(f"{place}/fires", limit=2, **cursor).body
        found += [(fire["due_at"][11:16], fire["state"]) for fire in page["fires"]]
        cursor = {"cursor": page["next_cursor"]} if page["next_cursor"] else None
    missed = [(minute, "missed") for minute in ("12:04", "12:03", "12:02", "12:01")]
    assert found == [("12:05", "fired"), *missed]
    assert len(mara.get(f"{place}/fires", state="missed").body["fires"]) == 4


def test_a_rule_is_tried_without_a_schedule(mara: Caller) -> None:
    rule = {"cron_expression": "30 2 * * *", "timezone": "Europe/Berlin", "after": "2026-10-23T12:00:00Z", "count": 3}
    times = ["2026-10-24T00:30:00.000000Z", "2026-10-25T00:30:00.000000Z", "2026-10-26T01:30:00.000000Z"]
    for who in (mara, calling(cast.agent("bot"))):
        assert who.post(f"{PATH}/preview", rule).body == {"times": times}
    assert len(mara.post(f"{PATH}/preview", {"cron_expression": "@daily"}).body["times"]) == 5
    assert len(mara.post(f"{PATH}/preview", {"cron_expression": "0 0 29 2 *", "count": 100}).body["times"]) == 100
    for wrong, field in (
        ({"count": 101}, "count"), ({"count": 0}, "count"), ({"cron_expression": "* * * * * *"}, "cron_expression"),
        ({"timezone": "x"}, "timezone"), ({"after": "2026-10-23T12:00:00"}, "after"),
        ({"after": "9999-10-23T12:00:00Z"}, "after"),
    ):  # fmt: skip
        answer = mara.post(f"{PATH}/preview", {**rule, **wrong})
        assert (answer.status, answer.fields) == (400, [field])
