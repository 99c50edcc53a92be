"""Processes of this installation and their last heartbeats."""

from datetime import datetime
from typing import TYPE_CHECKING

from django.db import models

from common.ids import uuid7

if TYPE_CHECKING:
    from nhi.actors import Actor


class ProcessKind(models.TextChoices):
    """The kind of a process of the installation. `STDIO_OWNER` is the stdio host."""

    WEB = "web", "Web"
    WORKER_CONTROL = "worker-control", "Worker (control)"
    WORKER_RUNS = "worker-runs", "Worker (runs)"
    BEAT = "beat", "Beat"
    STDIO_OWNER = "stdio-owner", "Stdio owner"
    GRPC = "grpc", "A2A over gRPC"


class ProcessQuerySet(models.QuerySet["Process"]):
    """Processes. Without the view right, an actor sees none."""

    def visible_to(self, actor: "Actor") -> "ProcessQuerySet":
        return self if actor.may("nhi.view_process") else self.none()

    def seen_since(self, moment: datetime) -> "ProcessQuerySet":
        return self.filter(seen_at__gte=moment)

    def silent_since(self, moment: datetime) -> "ProcessQuerySet":
        return self.filter(seen_at__lt=moment)


class Process(models.Model):
    """One process of this installation and its last heartbeat.

    The row of a process without a heartbeat for an hour is removed.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=16, choices=ProcessKind)
    host = models.CharField(max_length=255)
    pid = models.PositiveBigIntegerField()
    version = models.CharField(max_length=32, blank=True)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()

    objects = ProcessQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "processes"
        ordering = ["kind", "host", "pid"]
        constraints = [models.UniqueConstraint(fields=["kind", "host", "pid"], name="nhi_process_once")]
        indexes = [models.Index(fields=["kind", "seen_at"], name="nhi_process_seen")]

    def __str__(self) -> str:
        return f"{self.kind} {self.host}:{self.pid}"
