"""Refused calls without bound: the first of an identity's minute are rows, the others are counted, and none is lost."""

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from common import crypto
from common.db import clock
from mcp.gateway import call_statistics, pipeline
from mcp.models import CallApproval
from mcp.server import rest_renderer
from nhi.audit import invocations, refusal_limits, row_macs
from nhi.models import CallRollup, InvocationLog, RefusalCount, RefusalTotal
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, run, scene
from tests.mcp.test_desk import at_once, desks, wish

pytestmark = [
    pytest.mark.capability("AUD-02", "AUD-03"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
LIMIT = 5


@pytest.fixture
def made(server: Peer, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(refusal_limits, "MAX_ROWS_PER_MINUTE", LIMIT)
    return scene(server.url, agents=["bot", "stranger", "other"], without=["stranger", "other"])


@pytest.fixture(autouse=True)
def _one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that runs over the end of a minute counts as one."""
    monkeypatch.setattr(refusal_limits, "minute_of", hour_of)


def hour_of(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def end_the_minute(back: timedelta = timedelta(0)) -> None:
    at = clock.database_now().replace(second=0, microsecond=0) - timedelta(minutes=2) - back
    RefusalCount.objects.update(minute=at)
    RefusalTotal.objects.update(minute=at)


def logged(**where: Any) -> int:
    return sum(InvocationLog.objects.filter(**where).values_list("calls", flat=True))


def test_the_limit_is_what_the_contract_says() -> None:
    assert refusal_limits.MAX_ROWS_PER_MINUTE == 600


def test_past_the_limit_a_refusal_is_counted_and_names_no_call(made: Scene) -> None:
    replies = [rest_renderer.render_result(made.call(agent="stranger")) for _ in range(LIMIT + 3)]
    assert ["X-Call-ID" in reply.headers for reply in replies] == [True] * LIMIT + [False] * 3
    assert [reply.status for reply in replies] == [404] * (LIMIT + 3)
    assert InvocationLog.objects.count() == LIMIT
    assert RefusalCount.objects.get().count == 3
    end_the_minute()
    assert refusal_limits.flush_counts() == 1
    row = InvocationLog.objects.get(calls__gt=1)
    assert (row.calls, row.details["count"], row.status, row.reason) == (3, 3, "permission_denied", "no_grant")
    assert (row.agent_name, row.tool_name, row.method) == ("stranger", "peer", "echo")
    assert row.error_message == "3 more calls refused in this minute"
    assert (row.args_hash, row.source, row.request_id) == ("", "", row.pk)
    assert row_macs.is_intact(row)
    assert logged() == len(replies)
    assert refusal_limits.flush_counts() == 0, "once"
    assert not RefusalCount.objects.exists()


def test_a_refusal_that_was_held_carries_no_id_in_its_body_either(made: Scene) -> None:
    made.tool().server.__class__.objects.update(enabled=False)
    bodies = [rest_renderer.render_result(made.call()) for _ in range(LIMIT + 1)]
    assert "call_id" in bodies[0].body["details"]
    assert "call_id" not in bodies[-1].body["details"]
    assert bodies[-1].body["details"]["reason"] == "server_disabled"


def test_what_is_allowed_is_never_counted_away(made: Scene) -> None:
    for _ in range(LIMIT + 2):
        made.call("nothing")
    assert [made.call().status for _ in range(3)] == ["success"] * 3
    assert InvocationLog.objects.filter(status="success").count() == 3


def test_another_identity_has_rows_of_its_own(made: Scene) -> None:
    for _ in range(LIMIT + 2):
        made.call(agent="stranger")
    assert rest_renderer.render_result(made.call(agent="other")).headers["X-Call-ID"]
    assert InvocationLog.objects.filter(agent_name="other").count() == 1


def test_names_that_no_tool_has_are_one_object(made: Scene) -> None:
    for number in range(LIMIT + 20):
        made.call(f"peer__invented_{number}", agent="stranger")
    assert RefusalCount.objects.get().count == 20
    end_the_minute()
    refusal_limits.flush_counts()
    row = InvocationLog.objects.get(calls=20)
    assert (row.tool_name, row.method, row.tool_id) == ("*", "*", None)
    assert row_macs.is_intact(row)


def test_it_is_exact_over_processes(made: Scene) -> None:
    """Each desk has a thread and a connection of its own, as each process has."""
    count = 10
    with desks(4) as several:
        stranger = Scene({**made.made, "tokens": {"bot": made.made["tokens"]["stranger"]}}, made.name)

        def flood(one: Any) -> list[Any]:
            futures = [one.decide(*wish(stranger)) for _ in range(count)]
            return [future.result(20) for future in futures]

        answers = [answer for found in at_once([lambda one=one: flood(one) for one in several]) for answer in found]
    assert sum(answer.recorded for answer in answers) == LIMIT
    assert InvocationLog.objects.count() == LIMIT
    assert sum(RefusalCount.objects.values_list("count", flat=True)) == 4 * count - LIMIT
    rows = set(InvocationLog.objects.values_list("pk", flat=True))
    assert {answer.call_id for answer in answers if answer.recorded} == rows
    end_the_minute()
    refusal_limits.flush_counts()
    assert logged() == 4 * count


def test_two_that_flush_at_once_write_each_count_once(made: Scene) -> None:
    for name in ("echo", "nothing"):
        for _ in range(LIMIT):
            made.call(name, agent="stranger")
    end_the_minute()
    at_once([refusal_limits.flush_counts] * 3)
    assert logged() == 2 * LIMIT


def test_a_flush_that_fails_half_way_loses_nothing(made: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(LIMIT + 2):
        made.call(agent="stranger")
        made.call("nothing", agent="stranger")
    end_the_minute()
    with monkeypatch.context() as broken:
        broken.setattr(RefusalCount.objects.none().__class__, "delete", lambda _self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            refusal_limits.flush_counts()
    assert InvocationLog.objects.count() == LIMIT
    refusal_limits.flush_counts()
    assert logged() == 2 * (LIMIT + 2)


def test_the_minute_is_left_open_until_it_has_ended(made: Scene) -> None:
    for _ in range(LIMIT + 1):
        made.call(agent="stranger")
    RefusalCount.objects.update(minute=clock.database_now().replace(second=0, microsecond=0))
    assert refusal_limits.flush_counts() == 0
    assert RefusalCount.objects.exists()


def test_a_call_that_waits_for_approval_keeps_its_row_and_is_followed_by_it(made: Scene, server: Peer) -> None:
    made.tool().__class__.objects.update(requires_approval=True)
    for _ in range(LIMIT + 1):
        made.call("nothing")
    first = made.call(arguments={"n": 1})
    assert (first.status, first.recorded) == ("pending_approval", True)
    again = rest_renderer.render_result(made.call(arguments={"n": 1}))
    assert again.status == 202
    assert "X-Call-ID" not in again.headers
    approval = CallApproval.objects.get()
    assert again.body["call_id"] == str(approval.pk) == str(first.call_id)
    assert InvocationLog.objects.filter(pk=approval.pk).exists()


def test_whoever_counts_calls_counts_them(made: Scene) -> None:
    for _ in range(LIMIT + 7):
        made.call(agent="stranger")
    end_the_minute()
    refusal_limits.flush_counts()
    assert call_statistics.load_server_statistics(made.server).invocation_count == LIMIT + 7
    hour = hour_of(clock.database_now() - timedelta(minutes=2))
    call_statistics._sum_hour(hour)
    call_statistics._sum_hour(hour + timedelta(hours=1))
    assert sum(CallRollup.objects.values_list("calls", flat=True)) == LIMIT + 7


def test_a_count_that_comes_late_stands_where_sums_still_look(made: Scene) -> None:
    for _ in range(LIMIT + 1):
        made.call(agent="stranger")
    end_the_minute(timedelta(hours=3))
    minute = RefusalCount.objects.get().minute
    before = clock.database_now()
    refusal_limits.flush_counts()
    row = InvocationLog.objects.get(details__has_key="count")
    assert row.timestamp >= before
    assert row.details["minute"] == minute.isoformat()


def test_a_row_of_the_version_before_stays_intact_and_stands_for_one_call(made: Scene) -> None:
    begun = invocations.begin(
        call_id=made.call().call_id, at=clock.database_now(), agent=(made.tool().identity.pk, "bot"), tool_id=None,
        tool_name="peer", method="echo", args_hash="0" * 64, request_id=made.tool().identity.pk, source="",
    )  # fmt: skip
    old = {**invocations.end(begun, status="success"), "row_version": 1}
    old["row_mac"] = crypto.compute_row_mac(invocations.mac_input(old))
    assert row_macs.is_intact(InvocationLog(**old))
    assert not row_macs.is_intact(InvocationLog(**{**old, "calls": 1000}))
    new = invocations.end(begun, status="success")
    assert not row_macs.is_intact(InvocationLog(**{**new, "calls": 1000}))


def test_a_lease_of_the_version_before_becomes_a_row(made: Scene) -> None:
    begun = invocations.begin(
        call_id=made.tool().pk, at=clock.database_now(), agent=(made.tool().identity.pk, "bot"), tool_id=None,
        tool_name="peer", method="echo", args_hash="0" * 64, request_id=made.tool().pk, source="",
    )  # fmt: skip
    del begun["calls"]
    lease = json.loads(json.dumps(invocations.as_json(begun)))
    row = InvocationLog(**invocations.end(invocations.from_json(lease), status="error", reason="lost"))
    row.save()
    assert InvocationLog.objects.get(pk=row.pk).calls == 1


def test_all_of_a_flood_are_in_the_log(made: Scene) -> None:
    async def flood() -> list[Any]:
        return await asyncio.gather(*(pipeline.call_tool(made.ask(agent="stranger")) for _ in range(120)))

    outcomes = run(flood())
    assert sum(outcome.recorded for outcome in outcomes) == LIMIT
    end_the_minute()
    refusal_limits.flush_counts()
    assert logged(agent_name="stranger") == 120
