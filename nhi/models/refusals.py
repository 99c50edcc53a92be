"""Counts of refusals over the limit of a minute, until `nhi.audit.refusal_limits` writes them to the logs."""

from django.db import models

from common.ids import uuid7


class RefusalTotal(models.Model):
    """The number of refusals of one identity in one minute, over all processes and both logs."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # No foreign key: the deciding transaction writes this row and must not wait for the identity's row.
    identity_id = models.UUIDField()
    minute = models.DateTimeField()
    total = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "nhi_refusal_total"
        default_permissions = ()
        constraints = [models.UniqueConstraint("identity_id", "minute", name="nhi_refusal_total_once")]
        indexes = [models.Index(fields=["minute"], name="nhi_refusal_total_by_minute")]

    def __str__(self) -> str:
        return f"{self.total} at {self.minute:%H:%M}"


class RefusalCount(models.Model):
    """The number of refusals of one identity without a log row, by event, object, reason and minute."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    identity_id = models.UUIDField()
    #: The code of the audit events that were not written; empty for calls.
    event = models.CharField(max_length=64, blank=True)
    #: The requested object; the nil UUID for any object that does not exist.
    object_id = models.UUIDField()
    reason = models.CharField(max_length=64, blank=True)
    minute = models.DateTimeField()
    count = models.PositiveIntegerField(default=0)
    #: The values of the first refusal's log row.
    row = models.JSONField(default=dict)

    class Meta:
        db_table = "nhi_refusal_count"
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                "identity_id", "event", "object_id", "reason", "minute", name="nhi_refusal_count_once"
            )
        ]
        indexes = [models.Index(fields=["minute"], name="nhi_refusal_count_by_minute")]

    def __str__(self) -> str:
        return f"{self.count} {self.reason} at {self.minute:%H:%M}"
