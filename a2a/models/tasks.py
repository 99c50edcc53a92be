"""Tasks: who asked whom for what, where it stands, and every event on the way."""

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import models
from django.db.models import Q, Subquery
from django.db.models.functions import Now
from django.utils import timezone

from a2a.choices import OPEN, TERMINAL, WORDS, RuntimeKind, TaskState, Word
from a2a.models.runtimes import Runtime
from a2a.models.whose import WhoseQuerySet
from common.db.querysets import NonDeletableModel
from common.ids import short_task_id, uuid7
from nhi.choices import PermissionType
from nhi.models import Identity
from supervisor.models import Execution

if TYPE_CHECKING:
    from nhi.actors import Actor


_GIVEN_UP = Q(state=TaskState.WORKING) & (Q(lease_until=None) | Q(lease_until__lt=Now()))
OFFERED = Q(Q(state=TaskState.SUBMITTED) | _GIVEN_UP, runtime_kind=RuntimeKind.INBOX)

#: To speak in the name of identities that are not one's own.
FOR_ANOTHER = "a2a.send_task_for_another"
WAITS = (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)


class TaskQuerySet(WhoseQuerySet["Task"]):
    def _of_run(self, run_id: UUID) -> Q:
        # An expression in place of a join, so that each side of the OR uses its index.
        own = Subquery(Execution.objects.filter(pk=run_id).order_by().values("task_id"))
        return Q(pk=own) | Q(parent_id=own) | Q(sent_by_run_id=run_id)

    def answerable_by(self, actor: "Actor") -> "TaskQuerySet":
        """Those in which the actor may say more: its own, and in an identity's name who manages it or may send for
        others. Whether they wait for anything is another matter."""
        if actor.only_reads:
            return self.none()
        if actor.run_id is not None:
            return self.held_by(actor)
        theirs = Q(source_id=actor.id) | Q(source_id=None, created_by_id=actor.id)
        if actor.may(FOR_ANOTHER):
            return self.filter(theirs | Q(source_id__isnull=False))
        return self.filter(theirs | Q(source_id__in=Identity.objects.managed_by(actor).values("pk")))

    def waiting(self) -> "TaskQuerySet":
        """Those that go on once their caller has said more or signed in. Where a call waits for an approval, an answer
        is none."""
        return self.open().filter(state__in=WAITS).exclude(state=TaskState.AUTH_REQUIRED, awaited_calls__isnull=False)

    def open(self) -> "TaskQuerySet":
        # As the indexes of open tasks say it: a database that is told of states by parameters could not use them.
        return self.filter(completed_at=None)

    def offered(self) -> "TaskQuerySet":
        """Those of inboxes that nobody works on: new, answered by their caller, or with a worker that was not heard of
        for a whole lease."""
        return self.open().filter(OFFERED)

    def due(self) -> "TaskQuerySet":
        """Those that wait for a dispatcher, or whose dispatcher has to look after them again."""
        return self.filter(dispatch_at__lte=Now())


class Task(NonDeletableModel):
    """Seed 000: A2aTask."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey(Identity, on_delete=models.PROTECT, related_name="tasks")
    agent_name = models.CharField(max_length=192)
    #: Null for people.
    source = models.ForeignKey(Identity, on_delete=models.PROTECT, related_name="asked_tasks", null=True)
    created_by_kind = models.CharField(max_length=16)
    created_by_id = models.UUIDField(null=True)
    created_by_name = models.CharField(max_length=192)
    #: The run whose token it was sent with; null for every other sender, and in rows from before this was recorded.
    sent_by_run_id = models.UUIDField(null=True, editable=False)
    task_type = models.CharField(max_length=200, blank=True)
    context_id = models.CharField(max_length=200)
    metadata = models.JSONField(default=dict)

    state = models.CharField(max_length=16, choices=TaskState, default=TaskState.SUBMITTED, editable=False)
    state_at = models.DateTimeField(default=timezone.now)
    #: What the agent said with its last status: a message of the protocol.
    status_message = models.JSONField(null=True)
    #: The number of the last event.
    last_seq = models.PositiveIntegerField(default=0, editable=False)
    #: Bytes of all its events.
    size = models.PositiveIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    deadline = models.DateTimeField(null=True)
    #: Since when its tally holds it; null for what is counted as it stands.
    tallied_at = models.DateTimeField(null=True, editable=False)

    #: Whether something that its caller said is kept as it was sent, too, for its agent.
    is_sealed = models.BooleanField(default=False, editable=False)
    #: As it may be shown.
    input = models.JSONField(null=True)
    result = models.JSONField(null=True)
    #: It was answered by a message, which is its last status's.
    is_answered = models.BooleanField(default=False, editable=False)
    error_code = models.CharField(max_length=100, blank=True)
    error_message = models.CharField(max_length=1000, blank=True)
    #: For people: the message with paths, names of settings and the like, where there is more than its sender may know.
    operator_message = models.CharField(max_length=1000, blank=True, default="", db_default="", editable=False)

    parent = models.ForeignKey("self", on_delete=models.PROTECT, related_name="children", null=True)
    #: Who asked whom: `[{id, name}]`, from the first who asked to this task's caller.
    chain = models.JSONField(default=list)
    #: How it was asked for: whether the agent acts with its own rights or on its caller's behalf.
    permission_type = models.CharField(max_length=16, choices=PermissionType, default=PermissionType.CALL)
    #: On behalf of how many of the last in the chain the agent acts (`nhi.decisions.delegation`).
    behalf = models.PositiveSmallIntegerField(default=0)
    #: The task that all of its tree are parts of; its own id where that is itself.
    root_id = models.UUIDField(null=True, editable=False)
    #: The grant that it was sent by; null for people, whose right is in `allowed_by`.
    grant_id = models.UUIDField(null=True)
    allowed_by = models.JSONField(default=dict)
    request_id = models.UUIDField(null=True)

    #: What does it, as it was when the task was sent: another choice is for new tasks.
    runtime_kind = models.CharField(
        max_length=6, choices=RuntimeKind, default=RuntimeKind.INBOX, editable=False
    )  # fmt: skip
    #: The choice itself; null where nobody made one.
    runtime = models.ForeignKey(Runtime, on_delete=models.PROTECT, related_name="+", null=True, editable=False)
    #: The supervised agent that runs it, and its run.
    runs_agent_id = models.UUIDField(null=True, editable=False)
    execution_id = models.UUIDField(null=True, editable=False)
    #: The number of the last piece of that run's output that its events tell of.
    relayed = models.IntegerField(default=0, editable=False)
    #: When a dispatcher is to look at it; null once there is nothing left for one to do.
    dispatch_at = models.DateTimeField(null=True, editable=False)
    #: Which process carries it to its remote server, until when nobody else does, and how often that broke down.
    carrier_mark = models.UUIDField(null=True, editable=False)
    carried_until = models.DateTimeField(null=True, editable=False)
    breakdowns = models.PositiveIntegerField(default=0, editable=False)

    #: Which of the agent's workers has it, until when, and how often it was taken.
    lease_mark = models.BinaryField(max_length=32, null=True, editable=False)
    lease_until = models.DateTimeField(null=True)
    lease_seconds = models.PositiveIntegerField(default=0)
    claims = models.PositiveIntegerField(default=0)
    cancelled_by_name = models.CharField(max_length=192, blank=True)
    #: For the console: who sent it is told `error_message` alone.
    cancel_reason = models.CharField(max_length=500, blank=True, editable=False)

    #: Whom to tell of its end, as it may be shown; and as it was given, where that is another.
    callback_url = models.CharField(max_length=4000, blank=True)
    sealed_callback_url = models.TextField(blank=True, editable=False)
    #: Whether anybody ever asked to be told of every event.
    pushes = models.BooleanField(default=False, editable=False)

    #: The message that it began with, for whoever has just written it.
    first_message: Mapping[str, Any] | None = None

    objects = TaskQuerySet.as_manager()

    class Meta:
        db_table = "a2a_task"
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=TaskState.values), name="a2a_task_state"),
            models.CheckConstraint(
                condition=Q(state__in=sorted(TERMINAL), completed_at__isnull=False)
                | Q(state__in=sorted(OPEN), completed_at=None),
                name="a2a_task_completed",
            ),
            models.CheckConstraint(condition=Q(runtime_kind__in=RuntimeKind.values), name="a2a_task_runtime"),
        ]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="a2a_task_newest"),
            models.Index(fields=["agent", "-created_at", "-id"], name="a2a_task_by_agent"),
            models.Index(fields=["source", "-created_at", "-id"], name="a2a_task_by_source"),
            models.Index(fields=["created_by_id", "-created_at", "-id"], name="a2a_task_by_creator"),
            models.Index(fields=["agent", "created_at", "id"], condition=Q(completed_at=None), name="a2a_task_waiting"),
            # The protocol's list is of a caller's own at one agent, the latest change first.
            models.Index(
                fields=["source", "agent", "-state_at", "-id"],
                condition=Q(source__isnull=False),
                name="a2a_task_listed",
            ),
            models.Index(
                fields=["created_by_id", "agent", "-state_at", "-id"],
                condition=Q(source=None),
                name="a2a_task_of_person",
            ),
            models.Index(fields=["grant_id", "created_at"], name="a2a_task_by_grant"),
            models.Index(fields=["root_id", "created_at", "id"], name="a2a_task_by_root"),
            models.Index(fields=["sent_by_run_id"], condition=Q(sent_by_run_id__isnull=False), name="a2a_task_by_run"),
            models.Index(
                fields=["deadline"], condition=Q(completed_at=None, deadline__isnull=False), name="a2a_task_due"
            ),
            # What is counted one by one, read from here alone; what has ended stands together, for who adds it up.
            models.Index(
                fields=["completed_at", "agent", "source", "created_by_id", "state", "tallied_at"],
                condition=Q(tallied_at=None),
                name="a2a_task_untallied",
            ),
            models.Index(fields=["dispatch_at"], condition=Q(dispatch_at__isnull=False), name="a2a_task_dispatch"),
            models.Index(
                fields=["execution_id"],
                condition=Q(completed_at=None, execution_id__isnull=False),
                name="a2a_task_running",
            ),
        ]

    def __str__(self) -> str:
        return f"task {self.short_id} for {self.agent_name}"

    @property
    def short_id(self) -> str:
        return short_task_id(self.pk)

    @property
    def word(self) -> Word:
        return WORDS[TaskState(self.state)]

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def asked_by(self) -> str:
        """In whose name it was sent."""
        return self.source.name if self.source is not None else self.created_by_name

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.lease_seconds)
