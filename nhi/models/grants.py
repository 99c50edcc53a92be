"""The three kinds of grant. Grants are never deleted, only revoked; a new grant is a new row."""

from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from common.db.querysets import TimeBoxedQuerySet
from common.ids import uuid7
from nhi.choices import Level, PermissionType
from nhi.models.credentials import TimeBoxed
from nhi.models.identities import Identity

if TYPE_CHECKING:
    from nhi.actors import Actor


class Grant(TimeBoxed):
    """Base of the grants. Without `expires_at` a grant does not expire."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    reason = models.CharField(max_length=500)
    granted_by_id = models.UUIDField(null=True, editable=False)
    granted_by_name = models.CharField(max_length=192, editable=False)

    class Meta:
        abstract = True

    @property
    def sides(self) -> tuple[UUID, UUID]:
        """The ids of holder and target, for the audit log."""
        raise LookupError(f"{type(self).__name__} does not name its sides")


class ToolPermissionQuerySet(TimeBoxedQuerySet["ToolPermission"]):
    """Grants from agents to tools.

    Without the view right, an actor sees the grants of the agents and tools that it sees.
    """

    def visible_to(self, actor: "Actor") -> "ToolPermissionQuerySet":
        if actor.may("nhi.view_toolpermission"):
            return self
        mine = Identity.objects.visible_to(actor).values("pk")
        return self.filter(Q(agent__in=mine) | Q(tool__in=mine))


class ToolPermission(Grant):
    """An agent may call a tool."""

    agent = models.ForeignKey(Identity, on_delete=models.PROTECT, related_name="tool_permissions")
    tool = models.ForeignKey(Identity, on_delete=models.PROTECT, related_name="agent_permissions")
    allowed_parameters = models.JSONField(null=True, blank=True)
    #: For a grant from before limits were validated: every call passes its schema. New limits of this kind are refused.
    limits_nothing = models.BooleanField(default=False, db_default=False, editable=False)
    max_calls_per_hour = models.PositiveIntegerField(null=True, blank=True)
    requires_approval = models.BooleanField(default=False)

    objects = ToolPermissionQuerySet.as_manager()

    class Meta:
        db_table = "nhi_tool_permission"
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint("agent", "tool", condition=Q(revoked_at=None), name="nhi_tool_permission_once"),
            models.CheckConstraint(condition=~Q(agent=F("tool")), name="nhi_tool_permission_not_to_self"),
            models.CheckConstraint(
                condition=Q(max_calls_per_hour=None) | Q(max_calls_per_hour__gt=0), name="nhi_tool_permission_limit"
            ),
        ]
        indexes = [
            models.Index(fields=["agent", "tool", "-created_at"], name="nhi_tool_permission_pair"),
            models.Index(fields=["-created_at", "-id"], name="nhi_tool_permission_new"),
            models.Index(fields=["expires_at"], name="nhi_tool_permission_end", condition=Q(revoked_at=None)),
            models.Index(
                fields=["created_at"],
                name="nhi_tool_permission_void",
                condition=Q(limits_nothing=True, revoked_at=None),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.agent} → {self.tool}"

    @property
    def sides(self) -> tuple[UUID, UUID]:
        return self.agent_id, self.tool_id


class NhiPermissionQuerySet(TimeBoxedQuerySet["NhiPermission"]):
    """Grants between identities.

    Without the view right, an actor sees the grants from and to the identities that it sees.
    """

    def visible_to(self, actor: "Actor") -> "NhiPermissionQuerySet":
        if actor.may("nhi.view_nhipermission"):
            return self
        mine = Identity.objects.visible_to(actor).values("pk")
        return self.filter(Q(source__in=mine) | Q(target__in=mine))


class NhiPermission(Grant):
    """An identity may call another, or delegate to it."""

    source = models.ForeignKey(Identity, on_delete=models.PROTECT, related_name="callee_permissions")
    target = models.ForeignKey(Identity, on_delete=models.PROTECT, related_name="caller_permissions")
    permission_type = models.CharField(max_length=16, choices=PermissionType, default=PermissionType.CALL)
    #: Globs for the task type or tool name; null allows all, empty allows none.
    allowed_actions = models.JSONField(null=True, blank=True)
    max_calls_per_hour = models.PositiveIntegerField(null=True, blank=True)

    objects = NhiPermissionQuerySet.as_manager()

    class Meta:
        db_table = "nhi_nhi_permission"
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                "source", "target", "permission_type", condition=Q(revoked_at=None), name="nhi_nhi_permission_once"
            ),
            models.CheckConstraint(condition=~Q(source=F("target")), name="nhi_nhi_permission_not_to_self"),
            models.CheckConstraint(
                condition=Q(max_calls_per_hour=None) | Q(max_calls_per_hour__gt=0), name="nhi_nhi_permission_limit"
            ),
        ]
        indexes = [
            models.Index(fields=["source", "target", "-created_at"], name="nhi_nhi_permission_pair"),
            models.Index(fields=["-created_at", "-id"], name="nhi_nhi_permission_new"),
        ]

    def __str__(self) -> str:
        return f"{self.source} → {self.target}"

    @property
    def sides(self) -> tuple[UUID, UUID]:
        return self.source_id, self.target_id


class UserPermissionQuerySet(TimeBoxedQuerySet["UserPermission"]):
    """The permissions of people to use, manage or administer identities.

    Without the view right, a person sees their own, and those to identities whose description they may change.
    """

    def visible_to(self, actor: "Actor") -> "UserPermissionQuerySet":
        if actor.may("nhi.view_userpermission"):
            return self
        if not actor.is_person:
            return self.filter(nhi_id=actor.id)
        return self.filter(Q(user_id=actor.id) | Q(nhi__in=Identity.objects.edited_by(actor).values("pk")))


class UserPermission(Grant):
    """A person may use, manage or administer an identity."""

    nhi = models.ForeignKey(Identity, on_delete=models.PROTECT, related_name="user_permissions")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="nhi_permissions")
    level = models.CharField(max_length=16, choices=Level, default=Level.USE)

    objects = UserPermissionQuerySet.as_manager()

    class Meta:
        db_table = "nhi_user_permission"
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint("nhi", "user", condition=Q(revoked_at=None), name="nhi_user_permission_once")
        ]
        indexes = [
            models.Index(fields=["user", "nhi", "-created_at"], name="nhi_user_permission_pair"),
            models.Index(fields=["-created_at", "-id"], name="nhi_user_permission_new"),
        ]

    def __str__(self) -> str:
        return f"{self.user} → {self.nhi}"

    @property
    def sides(self) -> tuple[UUID, UUID]:
        return self.user_id, self.nhi_id


AnyGrant = ToolPermission | NhiPermission | UserPermission
