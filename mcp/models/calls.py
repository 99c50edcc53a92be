"""Calls that are under way, and calls that wait for a person."""

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
    """The lease of a call in flight: written by the transaction that allowed it, taken away by the one that logs it.

    No foreign keys: they would wait behind the locks of the rows they point at.
    """

    #: The id that its log row will have.
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent_id = models.UUIDField()
    server_id = models.UUIDField()
    tool_id = models.UUIDField()
    #: The process that makes the call and renews this.
    owner = models.UUIDField()
    #: Past it the call counts as lost, and its row is written for it.
    deadline = models.DateTimeField()
    #: Why its owner should give it up; empty while nothing speaks against it.
    stop_reason = models.CharField(max_length=64, blank=True)
    #: The log row as far as it is known when the call begins.
    row = models.JSONField()

    class Meta:
        db_table = "mcp_call"
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["deadline"], name="mcp_call_by_deadline"),
            models.Index(fields=["agent_id"], name="mcp_call_by_agent"),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class CallSlot(models.Model):
    """A call in flight counts against one budget's concurrency. Held while its lease is live, and gone with it."""

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
    def visible_to(self, actor: "Actor") -> "CallApprovalQuerySet":
        if actor.may("mcp.view_callapproval"):
            return self
        if not actor.is_person:
            rows = self.filter(agent_id__in=[actor.id])
            # An approval has the id of the call that first asked for it.
            asked = InvocationLog.objects.visible_to(actor).values("pk")
            return rows if actor.run_id is None else rows.filter(pk__in=asked)
        return self.filter(agent_id__in=Identity.objects.managed_by(actor).values("pk"))

    def waiting(self) -> "CallApprovalQuerySet":
        return self.filter(state=ApprovalState.PENDING, expires_at__gt=timezone.now())

    def barring(self, actor: "Actor") -> "CallApprovalQuerySet":
        """Those behind which this person stands, as is recorded with them or as identities are handled now."""
        return self.filter(_bars(actor))

    def decidable_by(self, actor: "Actor") -> "CallApprovalQuerySet":
        """Waiting calls about which this person may decide: the same for the list, the count and the decision."""
        if not actor.is_person or actor.only_reads or not actor.may("mcp.decide_approval"):
            return self.none()
        return self.waiting() if actor.is_superuser else self.waiting().exclude(_bars(actor))


def _bars(actor: "Actor") -> Q:
    if not actor.is_person:
        return Q(pk__in=[])
    handled = Identity.objects.handled_by(actor).values("pk")
    is_behind = Q(kind=OriginKind.PERSON, object_id=actor.id) | Q(kind=OriginKind.IDENTITY, object_id__in=handled)
    origins = CallApprovalOrigin.objects.filter(is_behind, approval=OuterRef("pk"))
    # Approvals of before origins were recorded have the agent and its owner of then.
    return Q(owner_id=actor.id) | Q(agent_id__in=handled) | Q(Exists(origins))


class CallApproval(models.Model):
    """A call that waits for a person; once approved, a permit for one such call within fifteen minutes."""

    #: The id of the call that first asked.
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent_id = models.UUIDField()
    agent_name = models.CharField(max_length=192)
    tool_id = models.UUIDField()
    tool_name = models.CharField(max_length=192)
    args_hash = models.CharField(max_length=64)
    #: The arguments as they were sent, encrypted until somebody decides; empty from then on.
    sealed_arguments = models.TextField(blank=True, editable=False)
    #: What is kept of them afterwards, redacted.
    arguments = models.JSONField(null=True, editable=False)
    #: What the caller said of why: the conversation, the user's instruction.
    context = models.JSONField(default=dict, editable=False)
    grant_id = models.UUIDField(null=True)
    #: What the yes is for besides the arguments: definition, the server's revision, grant, the caller's access.
    terms = models.CharField(max_length=160, default="", editable=False)
    #: The owner of the agent at that time: not the one to approve.
    owner_id = models.UUIDField(null=True)
    state = models.CharField(max_length=16, choices=ApprovalState, default=ApprovalState.PENDING, editable=False)
    asked_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    attempts = models.PositiveIntegerField(default=1)
    decided_at = models.DateTimeField(null=True)
    decided_by_id = models.UUIDField(null=True)
    decided_by_name = models.CharField(max_length=192, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    #: The call that used the permit up.
    used_by = models.UUIDField(null=True)
    #: Nobody else may decide: whoever holds the right stands behind the call.
    needs_superuser = models.BooleanField(default=False, db_default=False, editable=False)
    #: A superuser decided who stands behind the call.
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
    """Something behind a waiting call: a run or a task that it was made in, an identity of its chain, or a person who
    may not decide about it, and why."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    approval = models.ForeignKey(CallApproval, on_delete=models.CASCADE, related_name="origins")
    kind = models.CharField(max_length=8, choices=OriginKind)
    #: Its subject may belong to another app, so its key stands here alone.
    object_id = models.UUIDField()
    role = models.CharField(max_length=16, choices=OriginRole, default=OriginRole.MEMBER)

    class Meta:
        db_table = "mcp_call_approval_origin"
        default_permissions = ()
        constraints = [models.UniqueConstraint("approval", "object_id", name="mcp_call_approval_origin_once")]
        indexes = [models.Index(fields=["object_id", "kind"], name="mcp_approval_origin_by_object")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.object_id}"
