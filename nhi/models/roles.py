"""Roles: named sets of capability patterns that are assigned to identities."""

from typing import TYPE_CHECKING
from uuid import UUID

from django.db import models
from django.db.models import Q
from django.utils import timezone

from common.db.querysets import NonDeletableModel, NonDeletableQuerySet, TimeBoxedQuerySet
from common.ids import uuid7
from nhi.models.grants import Grant
from nhi.models.identities import Identity

if TYPE_CHECKING:
    from nhi.actors import Actor


class RoleQuerySet(NonDeletableQuerySet["Role"]):
    """Roles of identities. Without the view right, an actor sees the roles of the identities that it sees."""

    def visible_to(self, actor: "Actor") -> "RoleQuerySet":
        if actor.may("nhi.view_role"):
            return self
        live_assignments = RoleAssignment.objects.live().filter(
            identity__in=Identity.objects.visible_to(actor).values("pk")
        )
        return self.filter(pk__in=live_assignments.values("role_id"))


class Role(NonDeletableModel):
    """A named set of capability patterns for identities. The console roles of people are Django groups."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=63, unique=True)
    description = models.CharField(max_length=1000, blank=True)
    created_by_id = models.UUIDField(null=True, editable=False)
    created_by_name = models.CharField(max_length=192, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects = RoleQuerySet.as_manager()

    class Meta:
        db_table = "nhi_role"
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name


class RoleCapabilityQuerySet(NonDeletableQuerySet["RoleCapability"]):
    """Patterns of roles, including removed ones."""

    def effective(self) -> "RoleCapabilityQuerySet":
        """Approved and not removed. Only these allow a call."""
        return self.filter(removed_at=None, approved_at__isnull=False)

    def current(self) -> "RoleCapabilityQuerySet":
        return self.filter(removed_at=None)


class RoleCapability(NonDeletableModel):
    """A pattern of a role. `*.*` needs approval by a second admin; adding any other pattern approves it."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    role = models.ForeignKey(Role, on_delete=models.PROTECT, related_name="capabilities")
    pattern = models.CharField(max_length=200)
    #: The pattern up to its final `*`; null for a single capability, empty for `*.*`.
    prefix = models.CharField(max_length=200, null=True, editable=False)
    added_by_id = models.UUIDField(null=True, editable=False)
    added_by_name = models.CharField(max_length=192, editable=False)
    added_at = models.DateTimeField(default=timezone.now, editable=False)
    approved_by_name = models.CharField(max_length=192, blank=True, editable=False)
    approved_at = models.DateTimeField(null=True, editable=False)
    removed_by_name = models.CharField(max_length=192, blank=True, editable=False)
    removed_at = models.DateTimeField(null=True, editable=False)

    objects = RoleCapabilityQuerySet.as_manager()

    class Meta:
        db_table = "nhi_role_capability"
        verbose_name_plural = "role capabilities"
        ordering = ["pattern", "id"]
        constraints = [
            models.UniqueConstraint("role", "pattern", condition=Q(removed_at=None), name="nhi_role_capability_once")
        ]

    def __str__(self) -> str:
        return self.pattern


class RoleAssignmentQuerySet(TimeBoxedQuerySet["RoleAssignment"]):
    """Assignments of roles to identities. Without the view right, an actor sees those of identities that it sees."""

    def visible_to(self, actor: "Actor") -> "RoleAssignmentQuerySet":
        if actor.may("nhi.view_roleassignment"):
            return self
        return self.filter(identity__in=Identity.objects.visible_to(actor).values("pk"))


class RoleAssignment(Grant):
    """A role that is assigned to an identity."""

    role = models.ForeignKey(Role, on_delete=models.PROTECT, related_name="assignments")
    identity = models.ForeignKey(Identity, on_delete=models.PROTECT, related_name="role_assignments")

    objects = RoleAssignmentQuerySet.as_manager()

    class Meta:
        db_table = "nhi_role_assignment"
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint("role", "identity", condition=Q(revoked_at=None), name="nhi_role_assignment_once")
        ]
        indexes = [models.Index(fields=["identity", "role", "-created_at"], name="nhi_role_assignment_pair")]

    def __str__(self) -> str:
        return f"{self.identity} holds {self.role}"

    @property
    def sides(self) -> tuple[UUID, UUID]:
        return self.identity_id, self.role_id
