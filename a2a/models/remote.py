"""Tasks that were carried on to another A2A server: under which id they go on there, and how far we are."""

from django.db import models
from django.db.models import F, Q

from a2a.choices import TERMINAL
from a2a.models.tasks import Task


class RemoteTaskQuerySet(models.QuerySet["RemoteTask"]):
    def going_on(self) -> "RemoteTaskQuerySet":
        """Those that ended here, may go on there, and were not told so yet."""
        return self.filter(task__state__in=sorted(TERMINAL), over=False, cancel_settled=False)


class RemoteTask(models.Model):
    """What is written before a message leaves, and what came back: a restart goes on from here."""

    task = models.OneToOneField(Task, on_delete=models.PROTECT, primary_key=True, related_name="remote")
    #: The interface that it went to, and goes on at.
    url = models.CharField(max_length=4000)
    version = models.CharField(max_length=8)
    binding = models.CharField(max_length=16)
    tenant = models.CharField(max_length=200, blank=True)
    streaming = models.BooleanField(default=False)

    #: The task's own context, so that the next in it goes on with what the remote agent calls it.
    context_id = models.CharField(max_length=200)
    remote_task_id = models.CharField(max_length=500, blank=True)
    remote_context_id = models.CharField(max_length=500, blank=True)
    #: The position of the message that is on its way, of which nobody knows yet whether it arrived.
    leaving = models.PositiveIntegerField(null=True)
    #: The position of the last message that arrived.
    arrived = models.PositiveIntegerField(default=0)
    #: When the last message left.
    left_at = models.DateTimeField(null=True)
    #: What its last status is known by again.
    status_mark = models.CharField(max_length=64, blank=True)
    #: It ended there.
    over = models.BooleanField(default=False)
    #: That it ended here was told there, or cannot be.
    cancel_settled = models.BooleanField(default=False)

    objects = RemoteTaskQuerySet.as_manager()

    class Meta:
        db_table = "a2a_remote_task"
        default_permissions = ()
        constraints = [
            models.CheckConstraint(condition=Q(leaving=None) | Q(leaving__gt=F("arrived")), name="a2a_remote_leaving")
        ]
        indexes = [
            models.Index(fields=["context_id"], name="a2a_remote_by_context"),
        ]

    def __str__(self) -> str:
        return f"{self.task_id} at {self.url}"
