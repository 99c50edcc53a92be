"""Conversations with an agent that stays: one process, messages in order both ways."""

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q
from django.utils import timezone

from common.db.querysets import NonDeletableModel, NonDeletableQuerySet
from common.ids import uuid7
from nhi.models import Identity
from supervisor.choices import Direction, SessionState
from supervisor.models.agents import Agent
from supervisor.models.executions import Execution

if TYPE_CHECKING:
    from nhi.actors import Actor


class SessionQuerySet(NonDeletableQuerySet["Session"]):
    def visible_to(self, actor: "Actor") -> "SessionQuerySet":
        """What is said in one is for who opened it, who handles its agent, and who reads all of them."""
        if actor.may("supervisor.view_session"):
            return self
        opened = Q(opened_by_id=actor.id)
        if actor.is_person:
            return self.filter(opened | Q(agent__identity__in=Identity.objects.managed_by(actor).values("pk")))
        if actor.run_id is not None:
            return self.filter(opened, execution__parent_id=actor.run_id)
        return self.filter(opened)

    def open(self) -> "SessionQuerySet":
        return self.filter(state=SessionState.OPEN)


class Session(NonDeletableModel):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="sessions")
    #: The run that holds its process.
    execution = models.OneToOneField(Execution, on_delete=models.PROTECT, related_name="session")
    state = models.CharField(max_length=6, choices=SessionState, default=SessionState.OPEN, editable=False)
    opened_by_id = models.UUIDField(null=True)
    opened_by_name = models.CharField(max_length=192)
    created_at = models.DateTimeField(default=timezone.now)
    #: Of both directions; what the idle time counts from.
    last_message_at = models.DateTimeField(default=timezone.now)
    #: How many messages there are, which is the number of the last one.
    messages_count = models.PositiveIntegerField(default=0, editable=False)
    messages_bytes = models.PositiveBigIntegerField(default=0, editable=False)
    close_requested_at = models.DateTimeField(null=True, editable=False)
    closed_at = models.DateTimeField(null=True, editable=False)
    close_reason = models.CharField(max_length=500, blank=True, editable=False)

    objects = SessionQuerySet.as_manager()

    class Meta:
        db_table = "supervisor_session"
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["-created_at", "-id"], name="supervisor_session_newest")]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=SessionState.values), name="supervisor_session_state")
        ]

    def __str__(self) -> str:
        return f"session with {self.agent}"

    @property
    def is_closing(self) -> bool:
        return self.state == SessionState.OPEN and self.close_requested_at is not None


class SessionMessage(NonDeletableModel):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    session = models.ForeignKey(Session, on_delete=models.PROTECT, related_name="messages")
    seq = models.PositiveIntegerField()
    direction = models.CharField(max_length=3, choices=Direction)
    #: Who said it; empty for what the agent says.
    said_by_name = models.CharField(max_length=192, blank=True)
    #: The person or the identity, and the run whose token it showed; null in messages of before they were kept.
    said_by_id = models.UUIDField(null=True, editable=False)
    said_by_run_id = models.UUIDField(null=True, editable=False)
    #: As it may be shown.
    text = models.TextField(blank=True)
    #: What the agent is given, encrypted until it has it.
    sealed_text = models.TextField(blank=True, editable=False)
    at = models.DateTimeField(default=timezone.now)
    #: When the agent's input took it; null for one that waits, and for its own.
    taken_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "supervisor_session_message"
        ordering = ["session", "seq"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint("session", "seq", name="supervisor_message_once"),
            models.CheckConstraint(condition=Q(direction__in=Direction.values), name="supervisor_message_direction"),
        ]

    def __str__(self) -> str:
        return f"{self.session_id}/{self.seq}"
