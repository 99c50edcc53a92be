"""Runs: what was asked, what state they are in, what came of them."""

from typing import TYPE_CHECKING
from uuid import UUID

from django.db import models
from django.db.models import Q
from django.utils import timezone

from common.db.querysets import NonDeletableModel, NonDeletableQuerySet
from common.ids import uuid7
from nhi.models import Identity
from supervisor.choices import OUTCOMES, ErrorCategory, ExecutionState, ExecutionStatus, Mode, Stream, Trigger
from supervisor.models.agents import Agent

if TYPE_CHECKING:
    from nhi.actors import Actor

UNDER_WAY = (ExecutionState.STARTING, ExecutionState.RUNNING)


class ExecutionQuerySet(NonDeletableQuerySet["Execution"]):
    def visible_to(self, actor: "Actor") -> "ExecutionQuerySet":
        """All for who reads them; else those one started, and those of the agents one handles or is."""
        if actor.may("supervisor.view_execution"):
            return self
        started = Q(started_by_id=actor.id)
        if actor.is_person:
            return self.filter(started | Q(identity_id__in=Identity.objects.managed_by(actor).values("pk")))
        return self.filter(started | Q(identity_id=actor.id)).within_run(actor.run_id)

    def within_run(self, run_id: UUID | None) -> "ExecutionQuerySet":
        """All of them where no run acts; else that run, and the runs that it asked for."""
        return self if run_id is None else self.filter(Q(pk=run_id) | Q(parent_id=run_id))

    def done(self) -> "ExecutionQuerySet":
        return self.filter(status__isnull=False)

    def open(self) -> "ExecutionQuerySet":
        return self.filter(status=None)

    def queued(self) -> "ExecutionQuerySet":
        return self.filter(state=ExecutionState.QUEUED)

    def active(self) -> "ExecutionQuerySet":
        return self.filter(state__in=UNDER_WAY)

    def said_to_be(self, state: str) -> "ExecutionQuerySet":
        """`completed` and the like mean the outcome: a run is in that state itself for a moment only."""
        if state in OUTCOMES:
            return self.filter(status=OUTCOMES[ExecutionState(state)])
        return self.filter(state=state)


class Execution(NonDeletableModel):
    """One run of an agent. Seed 001: AgentExecution."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="executions")
    agent_name = models.CharField(max_length=100)
    identity_id = models.UUIDField()
    identity_name = models.CharField(max_length=192)
    #: Counted by agent: "deploy #88".
    number = models.PositiveBigIntegerField()
    mode = models.CharField(max_length=12, choices=Mode, default=Mode.TASK)

    state = models.CharField(max_length=10, choices=ExecutionState, default=ExecutionState.QUEUED, editable=False)
    previous_state = models.CharField(max_length=10, choices=ExecutionState, blank=True, editable=False)
    status = models.CharField(max_length=10, choices=ExecutionStatus, null=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    #: When its agent's patience with one that waits ends.
    wait_until = models.DateTimeField()
    start_time = models.DateTimeField(null=True)
    end_time = models.DateTimeField(null=True)
    last_state_change = models.DateTimeField(default=timezone.now)
    #: How many moves there have been, which is the number of the last one.
    moves = models.PositiveIntegerField(default=0, editable=False)

    #: As it may be shown; what the agent is given is `sealed_input`, which is emptied when the run is done.
    input = models.TextField(blank=True)
    input_bytes = models.PositiveBigIntegerField(default=0)
    parameters = models.JSONField(default=dict)
    sealed_input = models.TextField(blank=True, editable=False)
    #: Tells the same input again, and nothing else.
    input_mark = models.CharField(max_length=64, blank=True, editable=False)
    working_directory = models.CharField(max_length=1000, blank=True)
    timeout = models.PositiveIntegerField()
    max_retries = models.PositiveIntegerField(default=0)
    retry_count = models.PositiveIntegerField(default=0)

    trigger = models.CharField(max_length=8, choices=Trigger, default=Trigger.API)
    started_by_kind = models.CharField(max_length=16)
    started_by_id = models.UUIDField(null=True)
    started_by_name = models.CharField(max_length=192)
    schedule_id = models.UUIDField(null=True)
    task_id = models.UUIDField(null=True)
    #: The run that asked for it.
    parent_id = models.UUIDField(null=True, editable=False)
    request_id = models.UUIDField(null=True)
    context = models.JSONField(default=dict)

    process_id = models.PositiveBigIntegerField(null=True)
    exit_code = models.IntegerField(null=True)
    error_message = models.CharField(max_length=1000, blank=True)
    error_category = models.CharField(max_length=12, choices=ErrorCategory, blank=True)

    #: Which of the agent's slots it holds, from its start until all is cleaned up.
    slot = models.PositiveIntegerField(null=True, editable=False)
    #: Whose process it is; that runner's heartbeat is the lease of all its runs.
    runner_id = models.UUIDField(null=True, editable=False)
    cancel_requested_at = models.DateTimeField(null=True, editable=False)
    cancelled_by_name = models.CharField(max_length=192, blank=True)
    cancel_reason = models.CharField(max_length=500, blank=True)
    #: Seconds between asking its processes to end and ending them.
    cancel_grace = models.FloatField(default=5.0, editable=False)

    objects = ExecutionQuerySet.as_manager()

    class Meta:
        db_table = "supervisor_execution"
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=ExecutionState.values), name="supervisor_execution_state"),
            # Two processes of one slot are two of a read-write agent.
            models.UniqueConstraint(
                "agent", "slot", condition=Q(slot__isnull=False), name="supervisor_execution_slot_once"
            ),
            models.UniqueConstraint("agent", "number", name="supervisor_execution_number"),
            models.CheckConstraint(
                condition=Q(status=None)
                | Q(state__in=[*(state.value for state in OUTCOMES), ExecutionState.CLEANUP, ExecutionState.IDLE]),
                name="supervisor_execution_done",
            ),
        ]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="supervisor_run_newest"),
            models.Index(fields=["agent", "-created_at", "-id"], name="supervisor_run_by_agent"),
            models.Index(
                fields=["agent", "created_at", "id"], condition=Q(state="queued"), name="supervisor_run_waiting"
            ),
            models.Index(fields=["runner_id"], condition=Q(slot__isnull=False), name="supervisor_run_held"),
            models.Index(fields=["identity_id"], condition=Q(status=None), name="supervisor_run_open"),
            models.Index(fields=["schedule_id", "-created_at"], name="supervisor_run_by_schedule"),
            models.Index(fields=["status", "-created_at", "-id"], name="supervisor_run_by_outcome"),
            models.Index(fields=["task_id"], condition=Q(task_id__isnull=False), name="supervisor_run_by_task"),
            models.Index(fields=["parent_id"], condition=Q(parent_id__isnull=False), name="supervisor_run_by_parent"),
        ]

    def __str__(self) -> str:
        return f"{self.agent_name} #{self.number}"

    @property
    def outcome(self) -> str:
        """The one word for people: the outcome once there is one, else the state."""
        words = {status: state for state, status in OUTCOMES.items()}
        return words[ExecutionStatus(self.status)] if self.status else self.state


class ExecutionTransition(NonDeletableModel):
    """One move from state to state."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    execution = models.ForeignKey(Execution, on_delete=models.PROTECT, related_name="transitions")
    #: Counted by run, from 1.
    seq = models.PositiveIntegerField()
    from_state = models.CharField(max_length=10, choices=ExecutionState, blank=True)
    to_state = models.CharField(max_length=10, choices=ExecutionState)
    at = models.DateTimeField()
    reason = models.CharField(max_length=1000, blank=True)

    objects = NonDeletableQuerySet["ExecutionTransition"].as_manager()

    class Meta:
        db_table = "supervisor_execution_transition"
        ordering = ["execution", "seq"]
        default_permissions = ()
        constraints = [models.UniqueConstraint("execution", "seq", name="supervisor_transition_once")]

    def __str__(self) -> str:
        return f"{self.from_state} to {self.to_state}"


class Attempt(NonDeletableModel):
    """An attempt that failed for a passing reason, and was followed by another."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    execution = models.ForeignKey(Execution, on_delete=models.PROTECT, related_name="attempts")
    attempt = models.PositiveIntegerField()
    start_time = models.DateTimeField(null=True)
    end_time = models.DateTimeField()
    exit_code = models.IntegerField(null=True)
    error_category = models.CharField(max_length=12, choices=ErrorCategory)
    error_message = models.CharField(max_length=1000, blank=True)
    #: The number of the last piece of output by then: what comes after it is of the next.
    last_piece = models.IntegerField(default=0, editable=False)

    class Meta:
        db_table = "supervisor_attempt"
        ordering = ["execution", "attempt"]
        default_permissions = ()
        constraints = [models.UniqueConstraint("execution", "attempt", name="supervisor_attempt_once")]

    def __str__(self) -> str:
        return f"attempt {self.attempt} of {self.execution_id}"


class ExecutionResult(NonDeletableModel):
    """What a run said and did. Text is redacted before it is stored."""

    execution = models.OneToOneField(Execution, on_delete=models.PROTECT, primary_key=True, related_name="result")
    status = models.CharField(max_length=10, choices=ExecutionStatus)
    output = models.TextField(blank=True)
    error = models.TextField(blank=True)
    #: Milliseconds.
    execution_time = models.PositiveBigIntegerField(default=0)
    #: What was written, of which the texts hold the beginning.
    output_bytes = models.PositiveBigIntegerField(default=0)
    error_bytes = models.PositiveBigIntegerField(default=0)
    output_truncated = models.BooleanField(default=False)
    error_truncated = models.BooleanField(default=False)
    redacted = models.BooleanField(default=False)

    class Meta:
        db_table = "supervisor_execution_result"
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.execution_id)


class ResourceUsage(models.Model):
    """What a run used, as the operating system counted it."""

    execution = models.OneToOneField(Execution, on_delete=models.PROTECT, primary_key=True, related_name="usage")
    cpu_percent = models.FloatField(default=0.0)
    cpu_seconds = models.FloatField(default=0.0)
    memory_mb = models.FloatField(default=0.0)
    peak_memory_mb = models.FloatField(default=0.0)
    disk_read_mb = models.FloatField(default=0.0)
    disk_write_mb = models.FloatField(default=0.0)
    processes = models.PositiveIntegerField(default=0)
    #: `[seconds since the start, CPU %, MB, MB read, MB written]`, thinned out as a run gets long.
    samples = models.JSONField(default=list)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "supervisor_resource_usage"
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.execution_id)


class OutputChunk(models.Model):
    """A piece of what a run writes, as it comes."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    execution = models.ForeignKey(Execution, on_delete=models.PROTECT, related_name="chunks")
    #: Counted by run over both streams, from 1: what a reader goes on from.
    seq = models.PositiveIntegerField()
    stream = models.CharField(max_length=3, choices=Stream)
    at = models.DateTimeField()
    text = models.TextField()

    class Meta:
        db_table = "supervisor_output_chunk"
        ordering = ["execution", "seq"]
        default_permissions = ()
        constraints = [models.UniqueConstraint("execution", "seq", name="supervisor_chunk_once")]

    def __str__(self) -> str:
        return f"{self.execution_id}/{self.seq}"
