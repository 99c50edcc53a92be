"""The sweep that fires schedules: looked at each second, by any number of processes.

A schedule's row is locked while its due times become rows, its runs are asked for and its next due time is set, all in
one transaction; what another process holds is left to it. Each due time has one row, which the table sees to. So a due
time fires once, whoever looks and however often.
"""

import logging
import time
from collections.abc import Callable, Collection
from typing import Any
from uuid import UUID

from django.db import OperationalError, connection, transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from common.db.clock import MAX_TIME
from nhi.actors import SYSTEM
from nhi.audit import events
from supervisor.choices import FireState, OverlapPolicy
from supervisor.models import Execution, Schedule, ScheduleFire
from supervisor.schedules import clock as schedule_clock
from supervisor.schedules import cron, due_times
from supervisor.schedules.due_times import MOST_OWED, Due, Round
from supervisor.schedules.runs import Batch

log = logging.getLogger(__name__)
BATCH = 25
#: Seconds after which the rest is left to the next sweep.
BUDGET = 5.0
SKIPPED = "The run before it was not done."
WAITS = "It waits for the run before it."
TOO_MANY = f"{MOST_OWED} of its runs wait already, and no more may."
MISSED = "Nobody was there in time."
Handle = Callable[[list[Schedule]], None]


def sweep() -> None:
    """Fire what is due, and begin the runs that waited."""
    until = time.monotonic() + BUDGET
    begin_owed(until)
    left: set[UUID] = set()
    while time.monotonic() < until and (ids := _due(left)):
        left |= ids - _handled(ids, _fire)


def begin_owed(until: float) -> None:
    ids = list(_with_owed_runs().values_list("pk", flat=True))
    for place in range(0, len(ids), BATCH):
        if time.monotonic() < until:
            _handled(set(ids[place : place + BATCH]), _begin_owed)


# ── Which ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def _due(left: Collection[UUID]) -> set[UUID]:
    due = Schedule.objects.active().filter(next_execution__lte=schedule_clock.now()).exclude(pk__in=left)
    return set(due.order_by("next_execution", "pk").values_list("pk", flat=True)[:BATCH])


def _with_owed_runs() -> QuerySet[Schedule]:
    """Those of which a run may be begun that was to come before."""
    owed = ScheduleFire.objects.filter(schedule=OuterRef("pk"), owed=True)
    open_runs = Execution.objects.open().filter(schedule_id=OuterRef("pk"))
    free = Q(overlap_policy=OverlapPolicy.ALLOW) | ~Exists(open_runs)
    return Schedule.objects.active().filter(Exists(owed), free)


def _handled(ids: set[UUID], handle: Handle) -> set[UUID]:
    """Those of these that were handled; where one spoils it for all, each is handled alone."""
    try:
        return _in_one(ids, handle)
    except OperationalError as error:
        log.warning("Schedules are left to the next sweep: %s.", type(error).__name__)
        return set()
    except Exception:
        if len(ids) == 1:
            log.exception("The schedule %s could not be fired.", *ids)
            return set()
    return {pk for one in ids for pk in _handled({one}, handle)}


def _in_one(ids: set[UUID], handle: Handle) -> set[UUID]:
    with transaction.atomic():
        skip = connection.features.has_select_for_update_skip_locked
        rows = Schedule.objects.select_for_update(of=("self",), skip_locked=skip).active().filter(pk__in=ids)
        locked = list(rows.order_by("next_execution", "pk"))
        if locked:
            handle(locked)
    return {schedule.pk for schedule in locked}


# ── Firing ────────────────────────────────────────────────────────────────────────────────────────────────────────
def _fire(locked: list[Schedule]) -> None:
    """A row for each due time that has come, and a run where one is due."""
    batch = Batch(locked)
    rounds = {schedule: _round(schedule, batch) for schedule in locked}
    known, owed = _known(locked), _owed_by(locked)
    rows = []
    for schedule, found in rounds.items():
        fresh = [due for due in found.due if (schedule.pk, due.at) not in known]
        made = [_row(batch, schedule, due, owed) for due in fresh]
        _record_missed(schedule, [row for row in made if row.state == FireState.MISSED])
        schedule.next_execution = found.next
        rows += made
    ScheduleFire.objects.bulk_create(rows)
    _settle(batch, locked)


def _round(schedule: Schedule, batch: Batch) -> Round:
    first = schedule.next_execution
    if first is None or first > batch.now:  # another process was quicker
        return Round((), first)
    rule, zone = due_times.parsed(schedule.cron_expression), cron.zone(schedule.timezone)
    return due_times.come(cron=rule, zone=zone, first=first, now=batch.now, policy=schedule.misfire_policy)


def _row(batch: Batch, schedule: Schedule, due: Due, owed: dict[UUID, int]) -> ScheduleFire:
    row = ScheduleFire(schedule=schedule, due_at=due.at, at=batch.now)
    (_miss if due.missed else _fire_in_time)(batch, schedule, row, due, owed)
    if row.owed:
        owed[schedule.pk] = owed.get(schedule.pk, 0) + 1
    return row


def _fire_in_time(batch: Batch, schedule: Schedule, row: ScheduleFire, due: Due, owed: dict[UUID, int]) -> None:
    waiting = owed.get(schedule.pk, 0)
    if schedule.overlap_policy == OverlapPolicy.ALLOW or not (waiting or schedule.pk in batch.running):
        outcome = batch.begin(schedule, due.at)
        row.state, row.reason, row.execution_id = outcome.state, outcome.reason, outcome.execution_id
    elif schedule.overlap_policy == OverlapPolicy.SKIP:
        row.state, row.reason = FireState.SKIPPED, SKIPPED
    elif waiting >= MOST_OWED:
        row.state, row.reason = FireState.SKIPPED, TOO_MANY
    else:
        row.state, row.reason, row.owed = FireState.QUEUED, WAITS, True


def _miss(batch: Batch, schedule: Schedule, row: ScheduleFire, due: Due, owed: dict[UUID, int]) -> None:
    """Runs for missed times never run beside each other unless the schedule lets them; then they wait."""
    row.state, row.reason = FireState.MISSED, MISSED
    if not due.runs:
        return
    waiting = owed.get(schedule.pk, 0)
    if waiting or _must_wait(batch, schedule):
        row.owed = waiting < MOST_OWED
        row.reason = f"{MISSED} {WAITS if row.owed else TOO_MANY}"
    else:
        _begin(batch, schedule, row)


def _begin(batch: Batch, schedule: Schedule, row: ScheduleFire) -> None:
    """The run of a due time that has passed; it goes on waiting while there is no room."""
    outcome = batch.begin(schedule, row.due_at)
    row.owed, row.execution_id = outcome.passing, outcome.execution_id
    if row.state == FireState.MISSED:
        row.reason = f"{MISSED} {outcome.reason or 'It ran late.'}"[:500]
    elif not outcome.passing:
        row.state, row.reason = outcome.state, outcome.reason


def _must_wait(batch: Batch, schedule: Schedule) -> bool:
    return schedule.pk in batch.running and schedule.overlap_policy != OverlapPolicy.ALLOW


def _known(locked: list[Schedule]) -> set[tuple[UUID, Any]]:
    """Due times that have a row already, as they may when a schedule's clock was set back."""
    first = min(schedule.next_execution or MAX_TIME for schedule in locked)
    rows = ScheduleFire.objects.filter(schedule__in=locked, due_at__gte=first)
    return set(rows.values_list("schedule_id", "due_at"))


def _owed_by(locked: list[Schedule]) -> dict[UUID, int]:
    rows = ScheduleFire.objects.filter(schedule__in=locked, owed=True).order_by()
    return dict(rows.values_list("schedule_id").annotate(Count("pk")))


def _record_missed(schedule: Schedule, missed: list[ScheduleFire]) -> None:
    if missed:
        details = {"count": len(missed), "first": missed[0].due_at.isoformat(), "last": missed[-1].due_at.isoformat()}
        events.write("schedule.missed", actor=SYSTEM, subject=schedule, details=details)


# ── Runs that waited ──────────────────────────────────────────────────────────────────────────────────────────────
def _begin_owed(locked: list[Schedule]) -> None:
    batch, by_id = Batch(locked), {schedule.pk: schedule for schedule in locked}
    full: set[UUID] = set()
    changed = []
    for row in ScheduleFire.objects.filter(schedule__in=locked, owed=True).order_by("due_at"):
        schedule = by_id[row.schedule_id]
        if schedule.pk in full or _must_wait(batch, schedule):
            continue
        _begin(batch, schedule, row)
        changed.append(row)
        if row.owed:
            full.add(schedule.pk)
    ScheduleFire.objects.bulk_update(changed, ["state", "reason", "execution_id", "owed"])
    _settle(batch, locked)


def _settle(batch: Batch, locked: list[Schedule]) -> None:
    batch.keep()
    Schedule.objects.bulk_update(locked, ["next_execution", "last_execution"])
