"""Agents that run here: how input goes in and output comes out, how many at once, how long."""

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from common.db.querysets import NonDeletableModel, NonDeletableQuerySet
from common.ids import uuid7
from nhi.models import Identity, NhiPermission
from supervisor.choices import AccessType, InputPattern, Kind, Mode, OutputPattern

if TYPE_CHECKING:
    from nhi.actors import Actor


class AgentQuerySet(NonDeletableQuerySet["Agent"]):
    def visible_to(self, actor: "Actor") -> "AgentQuerySet":
        """All for who reads the register; people see those of identities they see, identities what they may call."""
        if actor.may("supervisor.view_agent"):
            return self
        if actor.is_person:
            return self.filter(identity__in=Identity.objects.visible_to(actor).values("pk"))
        # Whoever held a grant is told why it no longer counts; to others it is not there.
        held = NhiPermission.objects.filter(source_id=actor.id).values("target_id")
        return self.filter(Q(identity_id=actor.id) | Q(identity__in=held))

    def open_to(self, actor: "Actor") -> "AgentQuerySet":
        """Those whose configuration they read whole; who may merely run an agent is told how to ask it."""
        if actor.may("supervisor.view_agent"):
            return self
        return self.filter(identity__in=Identity.objects.managed_by(actor).values("pk"))

    def with_openness(self, actor: "Actor") -> "AgentQuerySet":
        """Each with `is_open`: whether it is one of those."""
        return self.annotate(is_open=Exists(Agent.objects.open_to(actor).filter(pk=OuterRef("pk"))))

    def enabled(self) -> "AgentQuerySet":
        return self.filter(enabled=True)


class Agent(NonDeletableModel):
    """A command-line agent or a model, made a governed one by configuration alone. Seed 001: AgentConfiguration."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100, unique=True)
    #: Who it is: its grants, its credentials, its kill switch.
    identity = models.ForeignKey(Identity, on_delete=models.PROTECT, related_name="agents")
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.PROCESS)
    executable_path = models.CharField(max_length=1000, blank=True)
    working_directory = models.CharField(max_length=1000, blank=True)
    #: A JSON object of variables, encrypted: values may be secrets.
    sealed_envs = models.TextField(blank=True, editable=False)
    cli_args = models.JSONField(default=list, blank=True)
    mode = models.CharField(max_length=12, choices=Mode, default=Mode.TASK)
    input_pattern = models.CharField(max_length=8, choices=InputPattern, default=InputPattern.STDIN)
    output_pattern = models.CharField(max_length=8, choices=OutputPattern, default=OutputPattern.STDOUT)
    input_file_template = models.CharField(max_length=200, blank=True)
    output_file_template = models.CharField(max_length=200, blank=True)
    access_type = models.CharField(max_length=10, choices=AccessType, default=AccessType.READ_ONLY)
    #: Null is no limit but that of the workers.
    max_concurrent_executions = models.PositiveIntegerField(null=True, blank=True)
    #: Seconds.
    timeout = models.PositiveIntegerField(default=300)
    session_timeout = models.PositiveIntegerField(default=1800)
    idle_timeout = models.PositiveIntegerField(default=300)
    #: A session is not ended for being idle.
    keep_alive = models.BooleanField(default=False)
    max_retries = models.PositiveIntegerField(default=3)
    allowed_env_vars = models.JSONField(default=list, blank=True)
    #: How many may wait, and for how many seconds.
    queue_depth = models.PositiveIntegerField(default=10)
    queue_wait = models.PositiveIntegerField(default=1800)
    #: The same input within a minute gets the run that is there.
    deduplicate = models.BooleanField(default=False)
    max_processes = models.PositiveIntegerField(default=64)
    #: Of all processes of a run together; null is no limit.
    max_memory_mb = models.PositiveIntegerField(null=True, blank=True, default=2048)
    max_cpu_seconds = models.PositiveIntegerField(null=True, blank=True)
    enabled = models.BooleanField(default=True)

    #: Of a model: where it is asked, by which name, and what it is told first.
    base_url = models.CharField(max_length=2000, blank=True)
    model = models.CharField(max_length=200, blank=True)
    instructions = models.TextField(blank=True)
    sealed_key = models.TextField(blank=True, editable=False)
    max_steps = models.PositiveIntegerField(default=20)

    #: How many runs there have been, which is the number of the last one.
    runs = models.PositiveBigIntegerField(default=0, editable=False)
    created_by_id = models.UUIDField(null=True, editable=False)
    created_by_name = models.CharField(max_length=192, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = AgentQuerySet.as_manager()

    class Meta:
        db_table = "supervisor_agent"
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=Kind.values), name="supervisor_agent_kind"),
            models.CheckConstraint(condition=Q(mode__in=Mode.values), name="supervisor_agent_mode"),
            models.CheckConstraint(condition=Q(input_pattern__in=InputPattern.values), name="supervisor_agent_input"),
            models.CheckConstraint(
                condition=Q(output_pattern__in=OutputPattern.values), name="supervisor_agent_output"
            ),
            models.CheckConstraint(condition=Q(timeout__gte=1, session_timeout__gte=1), name="supervisor_agent_times"),
            models.CheckConstraint(
                condition=Q(access_type=AccessType.READ_ONLY)
                | Q(access_type=AccessType.READ_WRITE, max_concurrent_executions=1),
                name="supervisor_agent_writes_alone",
            ),
            models.CheckConstraint(
                condition=(Q(kind=Kind.PROCESS) & ~Q(executable_path="")) | (Q(kind=Kind.MODEL) & ~Q(base_url="")),
                name="supervisor_agent_has_something_to_run",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def agent_type(self) -> str:
        """Seed 001's word for both patterns."""
        if self.input_pattern == self.output_pattern:
            return str(self.input_pattern)
        return f"{self.input_pattern}-{self.output_pattern}"

    @property
    def writes(self) -> bool:
        return self.access_type == AccessType.READ_WRITE
