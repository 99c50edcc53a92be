"""Many schedules that are due in the same minute, and how late their runs are."""

from datetime import datetime, timedelta

from django.conf import settings

from benchmarks.runs import rows, waiting
from benchmarks.runs.programs import INSTANT, Programs
from supervisor import schedules
from supervisor.models import Execution, Schedule, ScheduleFire
from supervisor.schedules import clock as schedule_clock

#: They share so many agents, each with its own places.
AGENTS = 10
#: Seconds that setting one up may take.
EACH = 0.05


def fire(programs: Programs, count: int) -> tuple[list[float], list[float]]:
    """Seconds from the due time until each run was asked for, and until its program says that it began."""
    agents = [rows.add(f"{INSTANT}-{number}", programs.path(INSTANT)) for number in range(min(AGENTS, count))]
    due = _next_minute(1 + EACH * count)
    made = [
        schedules.create(
            actor=rows.caller().actor, agent=agents[number % len(agents)],
            given={"name": f"due-{number}", "cron_expression": f"{due.minute} {due.hour} * * *"},
        )
        for number in range(count)
    ]  # fmt: skip
    if any(schedule.next_execution != due for schedule in made):
        raise SystemExit("Setting the schedules up took longer than there was time for.")
    waiting.until(lambda: _done(made) == count, f"{count} scheduled runs were done")
    return _lateness(made, due)


def _next_minute(seconds: float) -> datetime:
    """The first full one by the clock of schedules that is at least so far away."""
    first = schedule_clock.now() + timedelta(seconds=seconds + 60)
    return first.replace(second=0, microsecond=0)


def _done(made: list[Schedule]) -> int:
    return Execution.objects.done().filter(schedule_id__in=[schedule.pk for schedule in made]).count()


def _lateness(made: list[Schedule], due: datetime) -> tuple[list[float], list[float]]:
    fires = ScheduleFire.objects.filter(schedule__in=made, due_at=due, state="fired")
    runs = list(Execution.objects.filter(pk__in=fires.values("execution_id")).values_list("pk", "created_at"))
    if len(runs) != len(made):
        raise SystemExit(f"{len(runs)} of {len(made)} schedules have fired.")
    at = due.timestamp() - settings.SCHEDULE_CLOCK_SHIFT
    asked = [created.timestamp() - at for _, created in runs]
    return asked, [float(rows.output(pk).split()[0]) - at for pk, _ in runs]
