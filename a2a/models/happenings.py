"""What happens in a task: its events, what is said, what is made, and the calls that wait for a person."""

from django.db import models

from a2a.choices import EventKind, Role
from a2a.models.tasks import Task
from common.db.querysets import NonDeletableModel
from common.ids import uuid7


class TaskEvent(NonDeletableModel):
    """One thing that happened to a task, in the protocol's words. Numbered by task, without gaps."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="events")
    seq = models.PositiveIntegerField()
    kind = models.CharField(max_length=8, choices=EventKind)
    body = models.JSONField()
    #: Bytes of that; null in what was written before they were counted.
    size = models.IntegerField(null=True, editable=False)
    at = models.DateTimeField()

    class Meta:
        db_table = "a2a_task_event"
        ordering = ["task", "seq"]
        default_permissions = ()
        constraints = [models.UniqueConstraint("task", "seq", name="a2a_event_once")]

    def __str__(self) -> str:
        return f"{self.task_id}/{self.seq}"


class TaskMessage(NonDeletableModel):
    """What was said in a task, from either side."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="messages")
    position = models.PositiveIntegerField()
    role = models.CharField(max_length=5, choices=Role)
    #: A message of the protocol, as it may be shown.
    body = models.JSONField()
    #: As it was sent, while the task is open and where that is another; what the agent is given.
    sealed_body = models.TextField(blank=True, editable=False)
    at = models.DateTimeField()

    class Meta:
        db_table = "a2a_task_message"
        ordering = ["task", "position"]
        default_permissions = ()
        constraints = [models.UniqueConstraint("task", "position", name="a2a_message_once")]

    def __str__(self) -> str:
        return f"{self.task_id}/{self.position}"


class Artifact(NonDeletableModel):
    """What an agent made."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="artifacts")
    artifact_id = models.CharField(max_length=200)
    position = models.PositiveIntegerField()
    #: An artifact of the protocol; without its parts where it has pieces.
    body = models.JSONField()

    class Meta:
        db_table = "a2a_artifact"
        ordering = ["task", "position"]
        default_permissions = ()
        constraints = [models.UniqueConstraint("task", "artifact_id", name="a2a_artifact_once")]

    def __str__(self) -> str:
        return f"{self.task_id}/{self.artifact_id}"


class ArtifactPiece(models.Model):
    """Parts of an artifact that was made in pieces, numbered from what it was begun with. Another one under the same
    name takes its place, and theirs."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    artifact = models.ForeignKey(Artifact, on_delete=models.PROTECT, related_name="pieces")
    number = models.PositiveIntegerField()
    parts = models.JSONField()
    #: Of the parts in this one and all before it.
    bytes = models.PositiveIntegerField()

    class Meta:
        db_table = "a2a_artifact_piece"
        ordering = ["artifact", "number"]
        default_permissions = ()
        constraints = [models.UniqueConstraint("artifact", "number", name="a2a_artifact_piece_once")]

    def __str__(self) -> str:
        return f"{self.artifact_id}/{self.number}"


class AwaitedCall(models.Model):
    """A call within a task that waits for a person; the task says so until there is none left."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="awaited_calls")
    #: Of the approval; no foreign key, which would wait behind whoever decides.
    approval_id = models.UUIDField()

    class Meta:
        db_table = "a2a_awaited_call"
        default_permissions = ()
        constraints = [models.UniqueConstraint("task", "approval_id", name="a2a_awaited_call_once")]
        indexes = [models.Index(fields=["approval_id"], name="a2a_awaited_call_by")]

    def __str__(self) -> str:
        return f"{self.task_id} waits for {self.approval_id}"
