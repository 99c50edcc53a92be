"""The log summed by hour says what the log says, however often, late or long apart it is summed."""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from common.db import clock
from common.db.clock import start_of_hour
from mcp.gateway import call_statistics
from nhi.models import CallRollup, InvocationLog
from tests.mcp import logged

pytestmark = [
    pytest.mark.capability("MCP-11", "AUD-02"),
    pytest.mark.both_databases,
    pytest.mark.django_db,
]
HOUR = timedelta(hours=1)


def hours_ago(hours: float) -> datetime:
    return start_of_hour(clock.database_now()) - hours * HOUR


def summed() -> int:
    return sum(CallRollup.objects.values_list("calls", flat=True))


def test_a_closed_hour_is_summed_once_and_an_open_one_is_not() -> None:
    closed, still_open = hours_ago(5), clock.database_now()
    logged.write([logged.call(closed + timedelta(minutes=minute)) for minute in range(60)])
    logged.write([logged.call(closed + timedelta(minutes=59, seconds=59.999999)), logged.call(still_open)])
    assert call_statistics.roll_up() == 1
    assert call_statistics.roll_up() == 0
    assert summed() == 61
    assert set(CallRollup.objects.values_list("hour", flat=True)) == {closed}


def test_each_agent_tool_and_status_has_its_own_sum() -> None:
    hour = hours_ago(4)
    rows = [
        logged.call(hour, status, agent=agent, server=server, tool=tool, duration=duration)
        for agent in ("one", "two") for server in ("a", "b") for tool in ("x", "y")
        for status in ("success", "error", "permission_denied") for duration in (1.0, 7.0, 99_999.0)
    ]  # fmt: skip
    logged.write(rows)
    call_statistics.roll_up()
    assert CallRollup.objects.count() == 24
    for row in CallRollup.objects.all():
        assert (row.calls, row.duration_sum) == (3, 100_007.0)
        assert len(row.buckets) == len(CallRollup.BUCKETS) + 1
        assert (row.buckets[0], row.buckets[1], row.buckets[-1]) == (1, 1, 1)


@pytest.mark.parametrize("boundary", [*CallRollup.BUCKETS, 0.0])
def test_a_duration_stands_in_the_bucket_that_it_ends(boundary: float) -> None:
    logged.write([logged.call(hours_ago(4), duration=float(boundary))])
    call_statistics.roll_up()
    [row] = CallRollup.objects.all()
    at = row.buckets.index(1)
    assert sum(row.buckets) == 1
    assert boundary <= CallRollup.BUCKETS[at]
    assert at == 0 or boundary > CallRollup.BUCKETS[at - 1]


def test_long_silence_does_not_end_the_summing() -> None:
    """Hours without calls leave nothing behind; what comes after weeks of them is summed all the same."""
    logged.write([logged.call(hours_ago(24 * 30))])
    assert call_statistics.roll_up() == 1
    logged.write([logged.call(hours_ago(10)), logged.call(hours_ago(5))])
    assert call_statistics.roll_up() == 2
    assert summed() == 3


def test_much_is_caught_up_with_bit_by_bit() -> None:
    logged.write([logged.call(hours_ago(hours)) for hours in range(3, 63)])
    done = [call_statistics.roll_up(), call_statistics.roll_up(), call_statistics.roll_up()]
    assert done == [call_statistics.MAX_HOURS, 60 - call_statistics.MAX_HOURS, 0]
    assert summed() == 60


def test_what_was_just_closed_waits_for_calls_that_began_in_it() -> None:
    now = clock.database_now()
    logged.write([logged.call(start_of_hour(now - call_statistics.SETTLE_DELAY) - timedelta(seconds=1))])
    assert call_statistics.roll_up() == 1
    logged.write([logged.call(start_of_hour(now - call_statistics.SETTLE_DELAY) + timedelta(seconds=1))])
    assert call_statistics.roll_up() == 0


@pytest.mark.parametrize("summed_before", [0, 1, 2])
def test_sums_and_open_hours_together_are_the_log(summed_before: int) -> None:
    """Whatever was summed when: no call is counted twice, and none is left out."""
    ages = [0, 0.5, 1, 1.4, 2, 3, 26, 49, 80, 200]
    for age in sorted(ages, reverse=True):
        logged.write([logged.call(clock.database_now() - age * HOUR)])
        if summed_before == 2 and age >= 3:
            # Later, a younger one's hour may be closed by now, and nothing is written into a closed hour.
            call_statistics.roll_up()
    if summed_before:
        call_statistics.roll_up()
    since = call_statistics.find_open_since(clock.database_now())
    closed = sum(CallRollup.objects.filter(hour__lt=since).values_list("calls", flat=True))
    assert closed + InvocationLog.objects.filter(timestamp__gte=since).count() == len(ages)


def test_sums_of_rows_and_of_the_hour_agree() -> None:
    hour = hours_ago(3)
    logged.write([logged.call(hour, duration=float(3 * number)) for number in range(40)])
    columns = ("agent_id", "agent_name", "tool_name", "method", "status", "duration", "calls")
    [(key, one)] = call_statistics.sum_rows(InvocationLog.objects.values_list(*columns)).items()
    call_statistics.roll_up()
    row = CallRollup.objects.get()
    assert (row.agent_id, row.tool_name, row.method, row.status) == key
    assert (row.calls, row.duration_sum, row.buckets) == (one.calls, one.duration, one.buckets)
    assert Counter(row.buckets)[0] < len(row.buckets)


def test_metrics_are_of_both(django_assert_max_num_queries: object) -> None:
    logged.write([logged.call(hours_ago(30)) for _ in range(5)])
    call_statistics.roll_up()
    logged.write([logged.call(clock.database_now(), "error", 30.0)])
    found = call_statistics._load_statistics(call_statistics.Q(tool_name="peer"), InvocationLog.objects.none(), 1.0)
    assert (found.invocation_count, found.success_count, found.error_count) == (6, 5, 1)
