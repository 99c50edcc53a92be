"""Refusals past the first of a minute: counted here, until their minute has ended and the log gets one row for each."""

from django.db import models

from common.ids import uuid7


class RefusalTotal(models.Model):
    """How many refusals one identity had in one minute, over all processes and both logs."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # No foreign key: this is written in the deciding transaction, which must not wait for the identity's row.
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
    """Refusals of one identity that are no rows: how many of each object and reason there were in one minute."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    identity_id = models.UUIDField()
    #: The audit event that each of them would have been; empty for calls.
    event = models.CharField(max_length=64, blank=True)
    #: What was asked for; the nil UUID for whatever does not exist.
    object_id = models.UUIDField()
    reason = models.CharField(max_length=64, blank=True)
    minute = models.DateTimeField()
    count = models.PositiveIntegerField(default=0)
    #: The first of them, as its row would have been.
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
