"""Who led to a task: who created it and answered in it, in whose name, and from which run."""

from uuid import UUID

from a2a.choices import TaskState
from a2a.models import Task
from common.ids import parse_uuid
from nhi.choices import OriginRole
from nhi.models import AuditEvent
from nhi.registry import Work, WorkOrigins, WorkSource

#: Key in the events of a task: the run whose token sent the task, or answered in it.
RUN = "run"
#: Taken up by its agent, and not ended.
UNDER_WAY = (TaskState.WORKING, TaskState.AUTH_REQUIRED, TaskState.INPUT_REQUIRED)


def of_work(work: Work) -> WorkOrigins:
    """A message of a task has no name, but each one has an event on record, and events are never removed."""
    if not work.tasks:
        return WorkOrigins({})
    tasks = Task.objects.filter(pk__in=work.tasks).values_list("agent_id", "source_id", "created_by_id", "parent_id")
    roles, parents = dict[UUID, OriginRole](), set[UUID]()
    for agent_id, source_id, created_by_id, parent_id in tasks:
        roles |= {one: OriginRole.MEMBER for one in (agent_id, source_id) if one is not None}
        roles |= {created_by_id: OriginRole.TASK} if created_by_id is not None else {}
        parents |= {parent_id} if parent_id is not None else set()
    events = AuditEvent.objects.filter(subject_id__in=work.tasks, event__in=("task.sent", "task.answered"))
    runs = set[UUID]()
    for actor_id, details in events.order_by().values_list("actor_id", "details"):
        roles |= {actor_id: OriginRole.TASK} if actor_id is not None else {}
        run = parse_uuid(str(details.get(RUN, "")))
        runs |= {run} if run is not None else set()
    return WorkOrigins(roles, Work(frozenset(runs), frozenset(parents)))


def under_way(identity_id: UUID) -> Work:
    tasks = Task.objects.open().filter(agent_id=identity_id, state__in=UNDER_WAY)
    return Work(tasks=frozenset(tasks.values_list("pk", flat=True)))


SOURCE = WorkSource(of_work, under_way)
