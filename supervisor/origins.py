"""Who led to a run: who asked for it, ran it again, set up its schedule or spoke in its session."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from common.ids import parse_uuid
from nhi import hooks
from nhi.choices import OriginRole
from nhi.hooks import WorkIds, WorkOrigins, WorkSource
from nhi.models import AuditEvent, User
from supervisor.choices import Direction
from supervisor.models import Execution, Schedule, Session, SessionMessage

#: Key in a run's context: the run whose input it was given again.
AGAIN_OF = "again_of"
#: What a run of a schedule is given. Whoever set one of these last is an author of its runs.
AUTHORED = frozenset({"input_parameters", "agent"})
#: Key of an event whose values were too large to keep.
OMITTED = "omitted_bytes"
MAX_SCHEDULE_EVENTS = 500
#: Runs of one identity that count as its work at a moment, the newest first.
MAX_UNDER_WAY = 200
Roles = dict[UUID, OriginRole]


def again(run: Execution) -> dict[str, str]:
    """What a run that repeats this one keeps in its context."""
    return {AGAIN_OF: str(run.pk)}


def of_work(work: WorkIds) -> WorkOrigins:
    fields = ("identity_id", "started_by_id", "parent_id", "task_id", "schedule_id", "created_at", "context")
    runs = list(Execution.objects.filter(pk__in=work.runs).only(*fields)) if work.runs else []
    roles: Roles = {run.started_by_id: OriginRole.ASKED for run in runs if run.started_by_id is not None}
    roles |= {run.identity_id: OriginRole.MEMBER for run in runs}
    above = {run.parent_id for run in runs} | {parse_uuid(str(run.context.get(AGAIN_OF, ""))) for run in runs}
    for run in runs:
        if run.schedule_id is not None:
            roles |= _of_schedule(run.schedule_id, run.created_at)
    in_sessions, speaking_runs = _of_sessions(work.runs) if runs else ({}, set())
    tasks = {run.task_id for run in runs}
    origins = WorkIds(_ids(above | speaking_runs), _ids(tasks))
    for run in runs:
        if run.started_by_id is not None and not (run.parent_id or run.task_id or run.schedule_id):
            # Asked for with a credential of an agent's own: as part of whatever that agent was working on.
            origins |= hooks.load_current_work(run.started_by_id, run.created_at)
    return WorkOrigins({**roles, **in_sessions}, origins)


def under_way(identity_id: UUID, at: datetime | None) -> WorkIds:
    runs = Execution.objects.filter(identity_id=identity_id).order_by("-created_at", "-id")
    if at is None:
        runs = runs.filter(end_time=None, status=None)
    else:
        runs = runs.filter(Q(end_time=None) | Q(end_time__gt=at), created_at__lte=at)
    return WorkIds(runs=_ids(runs.values_list("pk", flat=True)[:MAX_UNDER_WAY]))


def _of_schedule(schedule_id: UUID, fired_at: datetime) -> Roles:
    """Who made it, and who last changed or resumed it: before this run was asked for, and until now."""
    made = Schedule.objects.filter(pk=schedule_id).values_list("created_by_id", flat=True)
    events = AuditEvent.objects.filter(
        subject_id=schedule_id, event__in=("schedule.changed", "schedule.resumed"), actor_id__isnull=False
    )
    newest = list(events.order_by("-at", "-id").values("at", "event", "actor_id", "after")[:MAX_SCHEDULE_EVENTS])
    before = [event for event in newest if event["at"] <= fired_at]
    people = {*made, *_last_changers(newest), *_last_changers(before)}
    return dict.fromkeys(_ids(people), OriginRole.SCHEDULE)


def _last_changers(newest_first: Iterable[Mapping[str, Any]]) -> set[UUID]:
    """Who last resumed it, last changed anything, and last changed each thing that its runs are given."""
    actors: dict[str, UUID] = {}
    for event in newest_first:
        actors.setdefault(event["event"], event["actor_id"])
        after = event["after"] or {}
        for name in AUTHORED if OMITTED in after else AUTHORED & after.keys():
            actors.setdefault(name, event["actor_id"])
    return set(actors.values())


def _of_sessions(runs: Iterable[UUID]) -> tuple[Roles, set[UUID | None]]:
    """Who opened the sessions of these runs and spoke in them; and the runs that spoke."""
    opened = dict(Session.objects.filter(execution_id__in=runs).values_list("pk", "opened_by_id"))
    if not opened:
        return {}, set()
    messages = SessionMessage.objects.filter(session_id__in=opened, direction=Direction.IN).order_by()
    spoken = set(messages.values_list("said_by_id", "said_by_run_id", "said_by_name").distinct())
    # Messages of before the ids were kept have the name alone.
    names = {name for speaker, _, name in spoken if speaker is None and name}
    named = User.objects.filter(username__in=names).values_list("pk", flat=True) if names else ()
    speakers = {speaker for speaker, _, _ in spoken}
    roles = dict.fromkeys(_ids({*opened.values(), *speakers, *named}), OriginRole.SESSION)
    return roles, {run for _, run, _ in spoken}


def _ids(values: Iterable[UUID | None]) -> frozenset[UUID]:
    return frozenset(value for value in values if value is not None)


SOURCE = WorkSource(of_work, under_way)
