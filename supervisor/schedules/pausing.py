"""Pausing schedules and resuming them: by people, and by the kill switch."""

from collections.abc import Sequence

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from common.errors import Conflict
from nhi.actors import SYSTEM, Actor
from nhi.audit import events
from nhi.hooks import StopStep
from nhi.identities import lifecycle as identities
from nhi.models import Identity
from nhi.validation import Problems
from supervisor import cancelling
from supervisor.choices import FireState
from supervisor.models import Schedule, ScheduleFire
from supervisor.schedules import clock as schedule_clock
from supervisor.schedules import facts as schedule_facts
from supervisor.schedules import rights as schedule_rights


def pause(*, actor: Actor, schedule: Schedule, reason: str = "") -> Schedule:
    """Let it fire no more until somebody resumes it. Due times that pass meanwhile are not missed."""
    schedule_rights.require_operate(actor, schedule)
    _check_reason(reason)
    with transaction.atomic():
        if not _pause(Schedule.objects.kept().filter(pk=schedule.pk), actor.name, reason):
            raise Conflict(f"{schedule} is paused already. Nothing was changed.")
        events.write("schedule.paused", actor=actor, subject=schedule, reason=reason)
    return read(schedule)


def resume(*, actor: Actor, schedule: Schedule, reason: str = "") -> Schedule:
    """Let it fire again, from the next due time on."""
    schedule_rights.require_operate(actor, schedule)
    _check_reason(reason)
    with transaction.atomic():
        current = locked(schedule)
        if current.paused_at is None:
            raise Conflict(f"{schedule} is not paused. Nothing was changed.")
        if said := schedule_facts.problem(current):
            raise Conflict(f"{schedule} cannot fire: {said}")
        current.paused_at, current.paused_by_name, current.pause_reason = None, "", ""
        current.next_execution = schedule_facts.next_due(current)
        current.save()
        events.write("schedule.resumed", actor=actor, subject=schedule, reason=reason)
    return current


def read(schedule: Schedule) -> Schedule:
    return Schedule.objects.select_related("agent", "agent__identity").get(pk=schedule.pk)


def locked(schedule: Schedule) -> Schedule:
    """Its row as it is now, which nobody else changes in this transaction."""
    rows = Schedule.objects.select_for_update(of=("self",)).select_related("agent", "agent__identity")
    found = rows.get(pk=schedule.pk)
    if found.removed_at is not None:
        raise Conflict(f"{schedule} was removed. Nothing was changed.")
    return found


def forgive(schedules: QuerySet[Schedule], reason: str) -> None:
    """Runs that are owed will not come."""
    owed = ScheduleFire.objects.filter(schedule__in=schedules.values("pk"), owed=True)
    owed.filter(state=FireState.QUEUED).update(state=FireState.SKIPPED, owed=False, reason=reason)
    owed.update(owed=False, reason=reason)


def stop(identity: Identity) -> int:
    """Pause what would run its agents. Runs that are being asked for just now end with its other runs."""
    with transaction.atomic():
        # In one order, so that two who stop the same do not wait for each other.
        rows = _of([identity]).select_for_update(of=("self",)).order_by("pk")
        paused = list(rows)
        found = Schedule.objects.filter(pk__in=[schedule.pk for schedule in paused])
        _pause(found, identity.state_by, cancelling.stopped(identity))
        for schedule in paused:
            events.write("schedule.paused", actor=SYSTEM, subject=schedule, reason=identities.why_inactive(identity))
    return len(paused)


def count(identities: Sequence[Identity]) -> int:
    return _of(identities).count()


def _of(identities: Sequence[Identity]) -> QuerySet[Schedule]:
    return Schedule.objects.active().filter(agent__identity__in=[identity.pk for identity in identities])


def _pause(rows: QuerySet[Schedule], who: str, reason: str) -> int:
    ids = list(rows.filter(paused_at=None).values_list("pk", flat=True))
    found = Schedule.objects.filter(pk__in=ids, paused_at=None).update(
        paused_at=schedule_clock.now(), paused_by_name=who, pause_reason=reason, next_execution=None, updated_at=Now()
    )
    forgive(Schedule.objects.filter(pk__in=ids), "The schedule was paused.")
    return found


def _check_reason(reason: str) -> None:
    problems = Problems()
    problems.check_reason(reason, required=False)
    problems.raise_if_any()


def still_paused(identity: Identity) -> int:
    return Schedule.objects.kept().filter(agent__identity=identity, paused_at__isnull=False).count()


STEP = StopStep("schedules", stop, count, still_paused)
