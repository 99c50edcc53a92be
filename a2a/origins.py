"""Who led to a task: who created it and answered in it, in whose name, and from which run."""

from datetime import datetime
from uuid import UUID

from django.db.models import Q

from a2a.models import Task
from common.ids import parse_uuid
from nhi import hooks
from nhi.choices import OriginRole
from nhi.hooks import WorkIds, WorkOrigins, WorkSource
from nhi.models import AuditEvent

#: Key in the events of a task: the run whose token sent the task, or answered in it.
RUN = "run"
FIELDS = ("agent_id", "source_id", "created_by_id", "parent_id", "sent_by_run_id", "created_at")
#: Tasks of one identity that count as its work at a moment, the newest first.
MAX_UNDER_WAY = 200


def of_work(work: WorkIds) -> WorkOrigins:
    """A message of a task has no name, but each one has an event on record, and events are never removed."""
    if not work.tasks:
        return WorkOrigins({})
    roles, above = dict[UUID, OriginRole](), WorkIds()
    for task in Task.objects.filter(pk__in=work.tasks).only(*FIELDS):
        roles |= {one: OriginRole.MEMBER for one in (task.agent_id, task.source_id) if one is not None}
        roles |= {task.created_by_id: OriginRole.TASK} if task.created_by_id is not None else {}
        if task.parent_id is not None:
            above |= WorkIds(tasks=frozenset({task.parent_id}))
        if task.source_id is not None and task.sent_by_run_id is None:
            # Sent with a credential of the agent's own: as part of whatever it was working on, beside what it names.
            above |= hooks.load_current_work(task.source_id, task.created_at)
    events = AuditEvent.objects.filter(subject_id__in=work.tasks, event__in=("task.sent", "task.answered"))
    runs = set[UUID]()
    for actor_id, details in events.order_by().values_list("actor_id", "details"):
        roles |= {actor_id: OriginRole.TASK} if actor_id is not None else {}
        run = parse_uuid(str(details.get(RUN, "")))
        runs |= {run} if run is not None else set()
    return WorkOrigins(roles, above | WorkIds(frozenset(runs)))


def under_way(identity_id: UUID, at: datetime | None) -> WorkIds:
    """Tasks that were not taken up yet count too: their agent can read them."""
    tasks = Task.objects.filter(agent_id=identity_id).order_by("-created_at", "-id")
    if at is None:
        tasks = tasks.filter(completed_at=None)
    else:
        tasks = tasks.filter(Q(completed_at=None) | Q(completed_at__gt=at), created_at__lte=at)
    return WorkIds(tasks=frozenset(tasks.values_list("pk", flat=True)[:MAX_UNDER_WAY]))


SOURCE = WorkSource(of_work, under_way)
