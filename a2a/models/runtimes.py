"""What does an agent's tasks, where somebody has chosen: a row per choice, of which one is in force."""

from django.db import models
from django.db.models import Q

from a2a.choices import Binding, RuntimeKind, WireVersion
from common.db.querysets import NonDeletableModel, NonDeletableQuerySet
from common.ids import uuid7
from nhi.models import Identity
from supervisor.models import Agent

RUN_HERE = Q(kind__in=[RuntimeKind.CLI, RuntimeKind.MODEL])


class RuntimeQuerySet(NonDeletableQuerySet["Runtime"]):
    def in_force(self) -> "RuntimeQuerySet":
        return self.filter(replaced_at=None)


class Runtime(NonDeletableModel):
    """One choice. Another replaces it and leaves it as it was: tasks go on as they were sent."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    identity = models.ForeignKey(Identity, on_delete=models.PROTECT, related_name="runtimes")
    kind = models.CharField(max_length=6, choices=RuntimeKind)
    #: Of a program and of a model: what runs.
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+", null=True)

    #: Of a remote server: where its card or its door is, how it is spoken to, and what is shown to it.
    url = models.CharField(max_length=2000, blank=True)
    wire_version = models.CharField(max_length=4, choices=WireVersion, default=WireVersion.AUTO)
    binding = models.CharField(max_length=9, choices=Binding, default=Binding.AUTO)
    #: The credential goes into this header, behind this word: `Authorization: Bearer …`.
    header = models.CharField(max_length=100, blank=True)
    scheme = models.CharField(max_length=40, blank=True)
    sealed_credential = models.TextField(blank=True, editable=False)
    #: Seconds that one answer of it may take.
    timeout = models.PositiveIntegerField(default=120)

    created_at = models.DateTimeField()
    created_by_name = models.CharField(max_length=192)
    replaced_at = models.DateTimeField(null=True)

    objects = RuntimeQuerySet.as_manager()

    class Meta:
        db_table = "a2a_runtime"
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint("identity", condition=Q(replaced_at=None), name="a2a_runtime_one_in_force"),
            models.CheckConstraint(condition=Q(kind__in=RuntimeKind.values), name="a2a_runtime_kind"),
            models.CheckConstraint(
                condition=(RUN_HERE & Q(agent__isnull=False)) | (~RUN_HERE & Q(agent=None)), name="a2a_runtime_runs"
            ),
            models.CheckConstraint(
                condition=~Q(kind=RuntimeKind.REMOTE, url="") & (Q(kind=RuntimeKind.REMOTE) | Q(url="")),
                name="a2a_runtime_remote",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.identity_id}: {self.kind}"
