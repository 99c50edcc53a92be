"""What is left of budgets, without a database: never more than the limits, whoever asks in which order."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp.limits.budget_state import BudgetState, consume_all, find_tightest_quota, floor_to_minute

pytestmark = pytest.mark.capability("MCP-08")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLACE = UUID("01a1ef00-0000-7000-8000-000000000000")
RATES = st.floats(0.001, 1000, allow_nan=False)


def purse(**limits: Any) -> BudgetState:
    made = BudgetState(PLACE, "agent", PLACE, "bot", **limits)
    made.refresh(limits.get("tokens_at") or NOON)
    return made


@given(st.integers(1, 50), st.integers(0, 80))
def test_a_quota_lets_through_what_is_left_of_it_and_no_more(quota: int, used: int) -> None:
    one = purse(daily_quota=quota, day=NOON.date(), day_used=used)
    passed = sum(consume_all([one], NOON) is None for _ in range(100))
    assert passed == max(0, quota - used)
    assert one.consumed == passed


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=4))
def test_of_several_budgets_all_are_charged_or_none(limits: list[tuple[int, int, int]]) -> None:
    purses = [purse(daily_quota=day, calls_per_hour=hour, concurrency_limit=flights) for day, hour, flights in limits]
    passed = sum(consume_all(purses, NOON) is None for _ in range(30))
    assert passed == min(min(one) for one in limits)
    assert {one.consumed for one in purses} == {passed}
    assert {(one.day_used, one.hour_used, one.in_flight) for one in purses} == {(passed, passed, passed)}


@given(RATES, st.integers(1, 50), st.lists(st.floats(0, 30), min_size=1, max_size=40))
def test_a_rate_is_never_passed_over_any_time(rate: float, burst: int, waits: list[float]) -> None:
    one, now, passed = purse(requests_per_second=rate, burst_size=burst), NOON, 0
    for wait in waits:
        now += timedelta(seconds=wait)
        one.refresh(now)
        passed += sum(consume_all([one], now) is None for _ in range(60))
    assert passed <= burst + rate * (now - NOON).total_seconds() + 1e-3


@given(RATES, st.floats(0, 0.999))
def test_who_waits_as_long_as_told_passes(rate: float, left: float) -> None:
    one = purse(requests_per_second=rate, burst_size=1, tokens=left, tokens_at=NOON)
    lack = one.find_exceeded_limit(NOON)
    assert lack is not None
    assert lack.reason == "rate_exceeded"
    later = NOON + timedelta(seconds=lack.retry_after)
    one.refresh(later)
    assert one.find_exceeded_limit(later) is None


@pytest.mark.parametrize(
    ("limits", "reason", "wait"),
    [
        ({"daily_quota": 1, "day": NOON.date(), "day_used": 1}, "quota_exceeded", 12 * 3600),
        ({"calls_per_hour": 1, "hour_used": 1, "hour_frees_at": NOON + timedelta(minutes=61)}, "quota_exceeded", 3660),
        ({"calls_per_hour": 1, "hour_used": 1, "hour_frees_at": NOON - timedelta(minutes=1)}, "quota_exceeded", 1),
        ({"concurrency_limit": 1, "in_flight": 1}, "concurrency_exceeded", 1),
        ({"requests_per_second": 0.1, "tokens": 0.0, "tokens_at": NOON}, "rate_exceeded", 10),
    ],
)
def test_each_lack_says_when_to_come_again(limits: dict[str, Any], reason: str, wait: int) -> None:
    lack = purse(**limits).find_exceeded_limit(NOON)
    assert lack is not None
    assert (lack.reason, lack.retry_after) == (reason, wait)
    assert lack.message.startswith(("1 of 1", "bot takes"))


def test_a_new_day_in_utc_begins_anew_and_a_clock_that_goes_back_gives_nothing() -> None:
    before = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)
    one = purse(daily_quota=1, requests_per_second=1.0, burst_size=1, tokens_at=before)
    one.refresh(before)
    assert consume_all([one], before) is None
    assert consume_all([one], before) is not None
    one.refresh(before + timedelta(seconds=1))
    assert consume_all([one], before + timedelta(seconds=1)) is None
    one.refresh(before - timedelta(hours=5))
    assert one.tokens is not None
    assert one.tokens < 1


def test_the_headers_tell_of_the_tightest() -> None:
    wide, tight = purse(daily_quota=100), purse(calls_per_hour=3)
    consume_all([wide, tight], NOON)
    left = find_tightest_quota([wide, tight], NOON)
    assert left is not None
    assert left.remaining == 2
    assert find_tightest_quota([purse(concurrency_limit=1)], NOON) is None


def test_no_sixty_minutes_have_more_than_the_limit() -> None:
    """As the windows count: calls at any second of their minute, over hours, each asking for all it can get."""
    limit, windows, calls = 7, Counter[datetime](), list[datetime]()
    now = NOON
    for step in range(1200):
        now += timedelta(seconds=(step * 37) % 59 + 1)
        since = floor_to_minute(now) - timedelta(minutes=60)
        one = purse(calls_per_hour=limit, hour_used=sum(n for minute, n in windows.items() if minute >= since))
        while consume_all([one], now) is None:
            windows[floor_to_minute(now)] += 1
            calls.append(now)
    for began in calls:
        assert sum(began <= call < began + timedelta(minutes=60) for call in calls) <= limit
