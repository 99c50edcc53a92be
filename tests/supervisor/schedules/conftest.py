"""Schedules, and the clock that they go by, set to whatever moment a test is about."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from common.db import clock
from supervisor import schedules
from supervisor.models import Agent, Execution, Schedule
from tests.nhi import cast

#: A day on which no clock changes, far from the real one.
NOON = datetime(2027, 6, 15, 12, 0, 5, tzinfo=UTC)


@pytest.fixture
def at(db: None, settings: Any) -> Callable[[datetime], datetime]:
    """Sets the clock of schedules; it goes on from there."""

    def set_to(moment: datetime) -> datetime:
        settings.SCHEDULE_CLOCK_SHIFT = round((moment - clock.database_now()).total_seconds())
        return moment

    return set_to


@pytest.fixture
def make_schedule(at: Callable[[datetime], datetime], make_agent: Callable[..., Agent]) -> Callable[..., Schedule]:
    """One that was set up at noon, for an agent of the same name unless another is given."""

    def make(
        *, name: str = "report", agent: Agent | None = None, inputs: dict[str, Any] | None = None, **given: Any
    ) -> Schedule:
        at(NOON)
        described = {"name": name, "cron_expression": "* * * * *", **given}
        whose = agent or make_agent(name=name)
        return schedules.create(actor=cast.admin(), agent=whose, given=described, inputs=inputs)

    return make


def fires(schedule: Schedule) -> list[tuple[str, str, bool]]:
    """Minute, state, and whether there was a run, in order."""
    rows = schedule.fires.order_by("due_at")
    return [(f"{row.due_at:%H:%M}", row.state, row.execution_id is not None) for row in rows]


def runs(schedule: Schedule) -> list[Execution]:
    return list(Execution.objects.filter(schedule_id=schedule.pk).order_by("created_at", "id"))


def finish(run: Execution) -> None:
    """As if it had been run; how runs end is tested elsewhere."""
    Execution.objects.filter(pk=run.pk).update(state="idle", status="success", sealed_input="")
