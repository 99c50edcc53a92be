"""Whom to tell of every event of a task, where its caller asked for that in the protocol's own way."""

from typing import TYPE_CHECKING

from django.db import models

from a2a.models.tasks import Task
from common.ids import uuid7

if TYPE_CHECKING:
    from nhi.actors import Actor


class PushConfigQuerySet(models.QuerySet["PushConfig"]):
    def visible_to(self, actor: "Actor") -> "PushConfigQuerySet":
        """All for who reads what is delivered; else those of tasks that one asked for."""
        return (
            self if actor.may("a2a.view_delivery") else self.filter(task__in=Task.objects.held_by(actor).values("pk"))
        )


class PushConfig(models.Model):
    """A receiver of one task's events. It is the caller's to take away again; what was delivered stays on record."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="push_configs")
    #: The caller's own word for it.
    config_id = models.CharField(max_length=200)
    #: As it may be shown.
    url = models.CharField(max_length=4000)
    #: The configuration as it was given, with its token and credentials.
    sealed = models.TextField(editable=False)
    #: In which version of the protocol it was asked for, and is told.
    wire_version = models.CharField(max_length=5)
    created_at = models.DateTimeField()

    objects = PushConfigQuerySet.as_manager()

    class Meta:
        db_table = "a2a_push_config"
        ordering = ["task", "created_at", "id"]
        default_permissions = ()
        constraints = [models.UniqueConstraint("task", "config_id", name="a2a_push_config_once")]

    def __str__(self) -> str:
        return f"{self.task_id}/{self.config_id}"
