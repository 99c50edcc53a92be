"""Results of server health checks."""

from django.db import models
from django.utils import timezone

from common.ids import uuid7
from mcp.choices import HealthStatus
from mcp.models.servers import Server


class HealthReport(models.Model):
    """One handshake that Gatehouse made with a server, on demand or periodically, and its result."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    server = models.ForeignKey(Server, on_delete=models.CASCADE, related_name="health_reports")
    timestamp = models.DateTimeField(default=timezone.now)
    status = models.CharField(max_length=12, choices=HealthStatus)
    handshake_success = models.BooleanField()
    handshake_latency_ms = models.FloatField(null=True)
    error_message = models.CharField(max_length=500, blank=True)
    server_capabilities = models.JSONField(default=list)
    protocol_version = models.CharField(max_length=16, blank=True)
    #: The name of the person who requested the check; empty for scheduled checks.
    asked_by = models.CharField(max_length=192, blank=True)

    class Meta:
        db_table = "mcp_health_report"
        ordering = ["-timestamp", "-id"]
        default_permissions = ("view",)
        indexes = [models.Index(fields=["server", "-timestamp", "-id"], name="mcp_health_by_server")]

    def __str__(self) -> str:
        return f"{self.server}: {self.status}"
