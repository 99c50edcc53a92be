"""Tables that only grow. No foreign keys: names are copied, so that a row still reads when its subject is gone."""

from typing import TYPE_CHECKING, Any, NoReturn

from django.db import models
from django.db.models import Q, QuerySet
from django.utils import timezone

from common.ids import uuid7
from nhi.choices import ActorKind

if TYPE_CHECKING:
    from nhi.actors import Actor


class AppendOnly(TypeError):
    """A record row can neither be changed nor removed."""


class AuditEventQuerySet(QuerySet["AuditEvent"]):
    def visible_to(self, actor: "Actor") -> "AuditEventQuerySet":
        if actor.may("nhi.view_auditevent"):
            return self
        if not actor.is_person:
            # What is written about an identity names people, addresses and targets that it was never shown.
            return self.none()
        return self.filter(Q(actor_id=actor.id) | Q(subject_id=actor.id) | Q(holder_id=actor.id))

    def about(self, one: Any) -> "AuditEventQuerySet":
        """What was done to it, and to grants and roles of which it is a side."""
        return self.filter(Q(subject_id=one) | Q(holder_id=one) | Q(target_id=one))

    def update(self, **_kwargs: Any) -> NoReturn:
        raise AppendOnly("Audit events are never changed.")

    def delete(self) -> NoReturn:
        raise AppendOnly("Audit events are never removed.")


class AuditEvent(models.Model):
    """Who did what to whom, what it was before and after, why, and from where."""

    ROW_VERSION = 1

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    at = models.DateTimeField(default=timezone.now)
    event = models.CharField(max_length=64)
    actor_kind = models.CharField(max_length=16, choices=ActorKind)
    actor_id = models.UUIDField(null=True)
    actor_name = models.CharField(max_length=192, blank=True)
    subject_kind = models.CharField(max_length=32, blank=True)
    subject_id = models.UUIDField(null=True)
    subject_name = models.CharField(max_length=400, blank=True)
    #: The two sides of a grant or an assignment: who holds it, and what it leads to.
    holder_id = models.UUIDField(null=True)
    target_id = models.UUIDField(null=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    details = models.JSONField(default=dict)
    reason = models.CharField(max_length=500, blank=True)
    request_id = models.UUIDField(null=True)
    source = models.CharField(max_length=45, blank=True)
    writer = models.UUIDField()
    writer_seq = models.BigIntegerField()
    row_version = models.PositiveSmallIntegerField(default=ROW_VERSION)
    row_mac = models.CharField(max_length=90)

    objects = AuditEventQuerySet.as_manager()

    class Meta:
        db_table = "nhi_audit_event"
        ordering = ["-at", "-id"]
        default_permissions = ("view",)
        constraints = [models.UniqueConstraint("writer", "writer_seq", name="nhi_audit_event_writer_seq")]
        indexes = [
            models.Index(fields=["-at", "-id"], name="nhi_audit_event_by_time"),
            models.Index(fields=["subject_id", "-at", "-id"], name="nhi_audit_event_by_subject"),
            models.Index(fields=["holder_id", "-at", "-id"], name="nhi_audit_event_by_holder"),
            models.Index(fields=["target_id", "-at", "-id"], name="nhi_audit_event_by_target"),
            models.Index(fields=["actor_id", "-at", "-id"], name="nhi_audit_event_by_actor"),
            models.Index(fields=["event", "-at", "-id"], name="nhi_audit_event_by_event"),
            models.Index(fields=["request_id"], name="nhi_audit_event_by_request"),
        ]

    def __str__(self) -> str:
        return f"{self.actor_name} {self.event} {self.subject_name}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly("Audit events are never changed.")
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise AppendOnly("Audit events are never removed.")
