"""The append-only logs and their hourly sums. Rows copy names instead of foreign keys, to outlive their subjects."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

from django.db import models
from django.db.models import F, OuterRef, Q, QuerySet
from django.utils import timezone

from common.fastsql import compiled_queries
from common.ids import uuid7
from nhi.choices import ActorKind, CallStatus
from nhi.models.identities import Identity

if TYPE_CHECKING:
    from nhi.actors import Actor


class AppendOnlyViolation(TypeError):
    """Raised when a log row is changed or deleted."""


class AuditEventQuerySet(QuerySet["AuditEvent"]):
    """Audit events. Rows cannot be changed or deleted."""

    def visible_to(self, actor: "Actor") -> "AuditEventQuerySet":
        if actor.may("nhi.view_auditevent"):
            return self
        if not actor.is_person:
            # Events about an identity contain people, addresses and targets that it may not see.
            return self.none()
        return self.filter(Q(actor_id=actor.id) | Q(subject_id=actor.id) | Q(holder_id=actor.id))

    def about(self, object_id: Any) -> "AuditEventQuerySet":
        """Events about the object, and about grants and role assignments in which it is holder or target."""
        return self.filter(Q(subject_id=object_id) | Q(holder_id=object_id) | Q(target_id=object_id))

    def update(self, **_kwargs: Any) -> NoReturn:
        raise AppendOnlyViolation("Audit events are never changed.")

    def delete(self) -> NoReturn:
        raise AppendOnlyViolation("Audit events are never removed.")


class AuditEvent(models.Model):
    """An operation with its actor, subject, reason and source, and the subject's values before and after."""

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
    #: The holder and the target of a grant or a role assignment.
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

    def save(self, *_args: Any, **_kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnlyViolation("Audit events are never changed.")
        compiled_queries.insert_rows(self)

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise AppendOnlyViolation("Audit events are never removed.")


class InvocationLogQuerySet(QuerySet["InvocationLog"]):
    """Rows of the call log. They cannot be changed or deleted."""

    def visible_to(self, actor: "Actor") -> "InvocationLogQuerySet":
        """All rows for readers of the log; own calls for identities; calls of managed identities for people."""
        if actor.may("nhi.view_invocationlog"):
            return self
        if not actor.is_person:
            rows = self.filter(agent_id__in=[actor.id])
            return rows if actor.run_id is None else rows.in_runs([actor.run_id])
        return self.filter(agent_id__in=Identity.objects.managed_by(actor).values("pk"))

    def in_runs(self, run_ids: Collection[UUID | OuterRef]) -> "InvocationLogQuerySet":
        """Calls made with the tokens of these runs.

        In rows of version 1, `run_id` is the caller's request id if no run made the call.
        """
        rows = self.filter(run_id__in=run_ids)  # type: ignore[misc]  # django-stubs: "in" takes expressions too
        return rows.exclude(row_version=1, request_id=F("run_id"))

    def update(self, **_kwargs: Any) -> NoReturn:
        raise AppendOnlyViolation("The invocation log is never changed.")

    def delete(self) -> NoReturn:
        raise AppendOnlyViolation("The invocation log is never shortened.")


class InvocationLog(models.Model):
    """One row for each tool call, whatever its outcome. The row's id is the id of the call.

    A row with `details.count` represents that many calls of one identity, refused for the same reason in one minute.
    """

    #: Since version 2 `run_id` never comes from the caller, and `calls` is the number of calls in the row.
    ROW_VERSION = 2

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    timestamp = models.DateTimeField(default=timezone.now)
    #: The run whose token made the call; the call's own id if no run did.
    run_id = models.UUIDField()
    agent_id = models.UUIDField()
    agent_name = models.CharField(max_length=192)
    #: The role that allowed the call; empty for a direct grant.
    agent_role = models.CharField(max_length=192, blank=True)
    #: The tool's identity; empty for an unknown tool name.
    tool_id = models.UUIDField(null=True)
    #: The server's name, and the tool's own name on it.
    tool_name = models.CharField(max_length=192)
    method = models.CharField(max_length=192)
    args_hash = models.CharField(max_length=64)
    redaction_applied = models.BooleanField(default=False)
    #: Milliseconds.
    duration = models.FloatField(default=0)
    status = models.CharField(max_length=20, choices=CallStatus)
    error_code = models.CharField(max_length=40, blank=True)
    error_message = models.CharField(max_length=500, blank=True)
    reason = models.CharField(max_length=64, blank=True)
    request_id = models.UUIDField()
    thread_id = models.CharField(max_length=200, blank=True)
    session_id = models.CharField(max_length=200, blank=True)
    task_id = models.CharField(max_length=200, blank=True)
    decision_id = models.UUIDField(null=True)
    grant_id = models.UUIDField(null=True)
    role_id = models.UUIDField(null=True)
    chain = models.JSONField(default=list)
    source = models.CharField(max_length=45, blank=True)
    #: The context of the call: timings, states of budgets and breaker, the approval.
    details = models.JSONField(default=dict)
    #: How many calls the row represents. Counts of calls must sum this column.
    calls = models.IntegerField(default=1, db_default=1)
    writer = models.UUIDField()
    writer_seq = models.BigIntegerField()
    row_version = models.PositiveSmallIntegerField(default=ROW_VERSION)
    row_mac = models.CharField(max_length=90)

    objects = InvocationLogQuerySet.as_manager()

    class Meta:
        db_table = "nhi_invocation_log"
        ordering = ["-timestamp", "-id"]
        default_permissions = ("view",)
        constraints = [models.UniqueConstraint("writer", "writer_seq", name="nhi_invocation_writer_seq")]
        indexes = [
            models.Index(fields=["-timestamp", "-id"], name="nhi_invocation_by_time"),
            models.Index(fields=["agent_id", "-timestamp", "-id"], name="nhi_invocation_by_agent"),
            models.Index(fields=["tool_name", "method", "-timestamp", "-id"], name="nhi_invocation_by_tool"),
            models.Index(fields=["status", "-timestamp", "-id"], name="nhi_invocation_by_status"),
            models.Index(fields=["request_id"], name="nhi_invocation_by_request"),
            models.Index(fields=["run_id"], name="nhi_invocation_by_run"),
            models.Index(fields=["task_id"], name="nhi_invocation_by_task", condition=~Q(task_id="")),
        ]

    def __str__(self) -> str:
        return f"{self.method} on {self.tool_name} by {self.agent_name}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnlyViolation("The invocation log is never changed.")
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise AppendOnlyViolation("The invocation log is never shortened.")

    @property
    def execution_id(self) -> UUID | None:
        """The run whose token made the call, or None."""
        is_own_id = self.run_id == self.pk or (self.row_version == 1 and self.run_id == self.request_id)
        return None if is_own_id else self.run_id


class CallRollup(models.Model):
    """Hourly sums of the invocation log, for charts and counts. They are derived data."""

    #: Upper bounds of the latency buckets in milliseconds; one more bucket has no bound.
    BUCKETS = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    hour = models.DateTimeField()
    agent_id = models.UUIDField()
    agent_name = models.CharField(max_length=192)
    tool_name = models.CharField(max_length=192)
    method = models.CharField(max_length=192)
    status = models.CharField(max_length=20, choices=CallStatus)
    calls = models.PositiveIntegerField()
    duration_sum = models.FloatField()
    #: Calls by latency bucket, in the order of BUCKETS, then the unbounded one.
    buckets = models.JSONField(default=list)

    class Meta:
        db_table = "nhi_call_rollup"
        ordering = ["-hour"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint("hour", "agent_id", "tool_name", "method", "status", name="nhi_call_rollup_once")
        ]
        indexes = [
            models.Index(fields=["agent_id", "-hour"], name="nhi_call_rollup_by_agent"),
            models.Index(fields=["tool_name", "method", "-hour"], name="nhi_call_rollup_by_tool"),
        ]

    def __str__(self) -> str:
        return f"{self.calls} calls of {self.method} on {self.tool_name} by {self.agent_name}"
