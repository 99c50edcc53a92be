"""What callers sent under a key of theirs, so that the same is not done twice."""

from django.db import models

from a2a.models.tasks import Task
from common.ids import uuid7


class SentOnce(models.Model):
    """An `Idempotency-Key` of one caller, for a day."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    caller_id = models.UUIDField()
    key = models.CharField(max_length=200)
    body_hash = models.CharField(max_length=64)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField()

    class Meta:
        db_table = "a2a_sent_once"
        default_permissions = ()
        constraints = [models.UniqueConstraint("caller_id", "key", name="a2a_sent_once_key")]
        indexes = [models.Index(fields=["at"], name="a2a_sent_once_old")]

    def __str__(self) -> str:
        return f"{self.caller_id}/{self.key}"
