"""Schedules of a database of the version before: their stored due times follow the rules for clock changes of today."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from supervisor.models import Schedule
from supervisor.schedules import firing
from tests.services.upgrades import back_at

pytestmark = [pytest.mark.capability("SUP-09"), pytest.mark.django_db(transaction=True), pytest.mark.both_databases]
Make = Callable[..., Any]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "upgraded", "stored", "due"),
    [
        # 02:30 is left out. The former rules fired it at 01:30 UTC, those of today do at 01:00 UTC.
        ("30 2 * * *", "2027-03-27T12:00", "2027-03-28T01:30", ["2027-03-28T01:00"]),
        # Upgraded between the two: 01:00 UTC has passed, so the stored time is the one that fires.
        ("30 2 * * *", "2027-03-28T01:10", "2027-03-28T01:30", ["2027-03-28T01:30"]),
        # The former rules rested while the hour was repeated.
        (
            "*/20 * * * *", "2026-10-25T00:50", "2026-10-25T02:00",
            ["2026-10-25T01:00", "2026-10-25T01:20", "2026-10-25T01:40", "2026-10-25T02:00"],
        ),
        ("*/20 * * * *", "2026-10-25T01:30", "2026-10-25T02:00", ["2026-10-25T01:40", "2026-10-25T02:00"]),
        ("30 2 * * *", "2026-10-25T01:10", "2026-10-26T01:30", ["2026-10-26T01:30"]),
        # A due time that has come is fired as it stands.
        ("30 2 * * *", "2026-10-25T00:30", "2026-10-25T00:30", ["2026-10-25T00:30"]),
    ],
)  # fmt: skip
def test_a_schedule_fires_once_across_the_upgrade(
    expression: str, upgraded: str, stored: str, due: list[str], make_schedule: Make, at: Make
) -> None:
    schedule = make_schedule(cron_expression=expression, timezone="Europe/Berlin", overlap_policy="allow")
    now = moment(upgraded) + timedelta(seconds=2)
    at(now)
    with back_at("supervisor", "0006_attempt_last_piece"):
        Schedule.objects.filter(pk=schedule.pk).update(next_execution=moment(stored))
    end = max(moment(stored), now).replace(hour=2, minute=15)
    while now < end:
        at(now)
        firing.sweep()
        now += timedelta(minutes=10)
    assert [row.due_at for row in schedule.fires.order_by("due_at")] == [moment(text) for text in due]


def test_what_cannot_be_read_or_does_not_fire_stays_as_it_is(make_schedule: Make, make_agent: Make, at: Make) -> None:
    agent = make_agent()
    paused, spoilt = (make_schedule(name=name, agent=agent) for name in ("paused", "spoilt"))
    at(moment("2027-03-27T12:00"))
    later = moment("2027-03-28T01:30")
    with back_at("supervisor", "0006_attempt_last_piece"):
        Schedule.objects.filter(pk=paused.pk).update(next_execution=None, paused_at=moment("2027-03-01T00:00"))
        Schedule.objects.filter(pk=spoilt.pk).update(next_execution=later, timezone="Europe/Atlantis")
    assert dict(Schedule.objects.values_list("name", "next_execution")) == {"paused": None, "spoilt": later}
