"""Leases and slots of active calls, and calls that wait for approval. The call log is in `nhi.models.audit`."""

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from common.ids import uuid7
from mcp.choices import ApprovalState, OriginKind
from nhi.choices import OriginRole
from nhi.models import Identity, InvocationLog

if TYPE_CHECKING:
    from nhi.actors import Actor


class Call(models.Model):
    """A call that is being made, with its lease. Finished calls are in the call log, `InvocationLog`.

    The transaction that allows the call creates the row, and the transaction that logs the call deletes it. There are
    no foreign keys: their checks would wait for locks of the referenced rows.
    """

    #: The id of the future log row.
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent_id = models.UUIDField()
    server_id = models.UUIDField()
    tool_id = models.UUIDField()
    #: The process that makes the call and renews the lease.
    owner = models.UUIDField()
    #: After the deadline the call counts as lost, and another process writes its log row.
    deadline = models.DateTimeField()
    #: Why the owner must cancel the call; empty while the call may continue.
    stop_reason = models.CharField(max_length=64, blank=True)
    #: The key by which the client cancels the call; empty where a closed connection cancels it.
    cancel_key = models.CharField(max_length=64, blank=True, default="", db_default="", editable=False)
    #: The fields of the log row that are known before the call.
    row = models.JSONField()

    class Meta:
        db_table = "mcp_call"
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["deadline"], name="mcp_call_by_deadline"),
            models.Index(fields=["agent_id"], name="mcp_call_by_agent"),
            models.Index(fields=["cancel_key"], condition=~Q(cancel_key=""), name="mcp_call_by_cancel_key"),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class CallSlot(models.Model):
    """One active call in the concurrency limit of one budget. The slot exists as long as the call's lease."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    budget_id = models.UUIDField()
    call_id = models.UUIDField()
    deadline = models.DateTimeField()

    class Meta:
        db_table = "mcp_call_slot"
        default_permissions = ()
        indexes = [
            models.Index(fields=["budget_id", "deadline"], name="mcp_call_slot_by_budget"),
            models.Index(fields=["call_id"], name="mcp_call_slot_by_call"),
        ]

    def __str__(self) -> str:
        return f"{self.call_id} of {self.budget_id}"


class CallApprovalQuerySet(QuerySet["CallApproval"]):
    """Call approvals. People without the view right see those for the identities that they manage."""

    def visible_to(self, actor: "Actor") -> "CallApprovalQuerySet":
        if actor.may("mcp.view_callapproval"):
            return self
        if not actor.is_person:
            rows = self.filter(agent_id__in=[actor.id])
            # An approval has the id of the first call that needed it.
            own_calls = InvocationLog.objects.visible_to(actor).values("pk")
            return rows if actor.run_id is None else rows.filter(pk__in=own_calls)
        return self.filter(agent_id__in=Identity.objects.managed_by(actor).values("pk"))

    def waiting(self) -> "CallApprovalQuerySet":
        return self.filter(state=ApprovalState.PENDING, expires_at__gt=timezone.now())

    def barring(self, actor: "Actor") -> "CallApprovalQuerySet":
        """Approvals about which this person may not decide.

        The person is a recorded origin of the call, or handles an identity among its origins now.
        """
        return self.filter(_bars(actor))

    def decidable_by(self, actor: "Actor") -> "CallApprovalQuerySet":
        """Waiting calls about which this person may decide. Lists, counts and decisions all use this filter."""
        if not actor.is_person or actor.only_reads or not actor.may("mcp.decide_approval"):
            return self.none()
        return self.waiting() if actor.is_superuser else self.waiting().exclude(_bars(actor))


def _bars(actor: "Actor") -> Q:
    if not actor.is_person:
        return Q(pk__in=[])
    handled_identities = Identity.objects.handled_by(actor).values("pk")
    is_origin = Q(kind=OriginKind.PERSON, object_id=actor.id) | Q(
        kind=OriginKind.IDENTITY, object_id__in=handled_identities
    )
    origins = CallApprovalOrigin.objects.filter(is_origin, approval=OuterRef("pk"))
    # Older approvals have no recorded origins, only the agent and the owner of that time.
    return Q(owner_id=actor.id) | Q(agent_id__in=handled_identities) | Q(Exists(origins))


class CallApproval(models.Model):
    """A call that waits for a person. Once approved, it allows one such call within fifteen minutes."""

    #: The id of the first call that needed the approval.
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent_id = models.UUIDField()
    agent_name = models.CharField(max_length=192)
    tool_id = models.UUIDField()
    tool_name = models.CharField(max_length=192)
    args_hash = models.CharField(max_length=64)
    #: The original arguments, encrypted until a person decides; empty afterwards.
    sealed_arguments = models.TextField(blank=True, editable=False)
    #: The redacted arguments, stored with the decision.
    arguments = models.JSONField(null=True, editable=False)
    #: The context that the caller sent: the conversation, the user's instruction.
    context = models.JSONField(default=dict, editable=False)
    grant_id = models.UUIDField(null=True)
    #: The approval's scope besides the arguments: definition, server revision, grant, the caller's access.
    terms = models.CharField(max_length=160, default="", editable=False)
    #: The owner of the agent at that time, who may not approve.
    owner_id = models.UUIDField(null=True)
    state = models.CharField(max_length=16, choices=ApprovalState, default=ApprovalState.PENDING, editable=False)
    asked_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    attempts = models.PositiveIntegerField(default=1)
    decided_at = models.DateTimeField(null=True)
    decided_by_id = models.UUIDField(null=True)
    decided_by_name = models.CharField(max_length=192, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    #: The call that used the approval.
    used_by = models.UUIDField(null=True)
    #: Only a superuser may decide: all holders of the permission are origins of the call.
    needs_superuser = models.BooleanField(default=False, db_default=False, editable=False)
    #: The deciding superuser is an origin of the call.
    break_glass = models.BooleanField(default=False, db_default=False, editable=False)

    objects = CallApprovalQuerySet.as_manager()

    class Meta:
        db_table = "mcp_call_approval"
        ordering = ["-asked_at", "-id"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=ApprovalState.values), name="mcp_call_approval_state"),
            models.UniqueConstraint(
                "agent_id", "tool_id", "args_hash",
                condition=Q(state__in=[ApprovalState.PENDING, ApprovalState.APPROVED]),
                name="mcp_call_approval_one_open",
            ),
        ]  # fmt: skip
        indexes = [models.Index(fields=["state", "expires_at"], name="mcp_call_approval_by_state")]

    def __str__(self) -> str:
        return f"{self.tool_name} by {self.agent_name}"


class CallApprovalOrigin(models.Model):
    """An origin of a waiting call: its run or task, an identity of its delegation chain, or a person.

    A person with an origin row may not decide about the call; `role` tells why.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    approval = models.ForeignKey(CallApproval, on_delete=models.CASCADE, related_name="origins")
    kind = models.CharField(max_length=8, choices=OriginKind)
    #: A plain key, because the object may belong to another app.
    object_id = models.UUIDField()
    role = models.CharField(max_length=16, choices=OriginRole, default=OriginRole.MEMBER)

    class Meta:
        db_table = "mcp_call_approval_origin"
        default_permissions = ()
        constraints = [models.UniqueConstraint("approval", "object_id", name="mcp_call_approval_origin_once")]
        indexes = [models.Index(fields=["object_id", "kind"], name="mcp_approval_origin_by_object")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.object_id}"
