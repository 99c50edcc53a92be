"""The processes that run agents, by when they were last heard of."""

from django.db import models
from django.utils import timezone

from common.ids import uuid7


class Runner(models.Model):
    """One worker process. Its heartbeat is the lease of every run that it holds."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    host = models.CharField(max_length=255)
    pid = models.PositiveBigIntegerField()
    #: When that process began, and the boot it belongs to: a number comes round again.
    process_start = models.FloatField()
    boot = models.CharField(max_length=64)
    capacity = models.PositiveIntegerField()
    used = models.PositiveIntegerField(default=0)
    #: How its host was doing when it was heard of last.
    memory_percent = models.FloatField(default=0.0)
    disk_free_mb = models.FloatField(default=0.0)
    load_per_cpu = models.FloatField(default=0.0)
    started_at = models.DateTimeField(default=timezone.now)
    seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "supervisor_runner"
        ordering = ["host", "pid"]
        default_permissions = ()
        indexes = [models.Index(fields=["seen_at"], name="supervisor_runner_seen")]

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"
