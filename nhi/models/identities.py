"""Identities: agents, service accounts and tools."""

from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from common.db.querysets import NonDeletableModel, NonDeletableQuerySet, build_live_condition
from common.ids import uuid7
from nhi.choices import Kind, Level, State, StopCause

if TYPE_CHECKING:
    from nhi.actors import Actor


class IdentityQuerySet(NonDeletableQuerySet["Identity"]):
    """Identities. Owners and people with a grant have access without a console role."""

    def of_kind(self, *kinds: Kind) -> "IdentityQuerySet":
        return self.filter(kind__in=kinds)

    def usable(self) -> "IdentityQuerySet":
        """Identities that may call or be called now."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=Now()), state=State.ACTIVE)

    def visible_to(self, actor: "Actor") -> "IdentityQuerySet":
        """All for actors with the view right; else the actor itself, owned identities and granted ones."""
        if actor.may("nhi.view_identity"):
            return self
        if not actor.is_person:
            return self.filter(pk__in=[actor.id])
        return self.filter(_owned_by(actor) | _granted_to(actor, Level.USE))

    def used_by(self, actor: "Actor") -> "IdentityQuerySet":
        """Identities that the actor may use without a console role."""
        if not actor.is_person:
            return self.none()
        return self.filter(_owned_by(actor) | _granted_to(actor, Level.USE))

    def managed_by(self, actor: "Actor") -> "IdentityQuerySet":
        """Identities whose lifecycle and credentials the actor may manage without a console role."""
        if not actor.is_person:
            return self.none()
        return self.filter(_owned_by(actor) | _granted_to(actor, Level.MANAGE))

    def edited_by(self, actor: "Actor") -> "IdentityQuerySet":
        """Identities whose description the actor may change without a console role."""
        if not actor.is_person:
            return self.none()
        return self.filter(_owned_by(actor) | _granted_to(actor, Level.ADMIN))

    def handled_by(self, actor: "Actor") -> "IdentityQuerySet":
        """Identities of which a person is owner, backup owner or creator of a credential.

        The person may not decide about the calls of these identities.
        """
        if not actor.is_person:
            return self.none()
        return self.filter(_owned_by(actor) | Q(credentials__created_by_id=actor.id)).order_by().distinct()

    def covered_by(self, pattern: str) -> "IdentityQuerySet":
        """Tools whose capability matches the pattern by whole segments."""
        tools = self.filter(kind=Kind.TOOL)
        if pattern == "*.*":
            return tools
        if pattern.endswith(".*"):
            return tools.filter(capability__startswith=pattern[:-1])
        return tools.filter(capability=pattern)


def _owned_by(actor: "Actor") -> Q:
    return Q(owner_id=actor.id) | Q(backup_owner_id=actor.id)


def _granted_to(actor: "Actor", level: Level) -> Q:
    holding = Identity.objects.filter(
        build_live_condition("user_permissions"),
        user_permissions__user_id__in=[actor.id],
        user_permissions__level__in=Level.at_least(level),
    )
    return Q(pk__in=holding.values("pk"))


class Identity(NonDeletableModel):
    """An agent, a service account or a tool. Tools are identities, too: they have an owner and a lifecycle."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=16, choices=Kind)
    name = models.CharField(max_length=192)
    description = models.CharField(max_length=1000, blank=True)
    purpose = models.CharField(max_length=1000, blank=True)
    environment = models.CharField(max_length=100, blank=True)
    team = models.CharField(max_length=100, blank=True)
    tags = models.JSONField(default=list, blank=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="owned_identities")
    backup_owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="backed_identities", null=True, blank=True
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    inactivity_days = models.PositiveIntegerField(default=90)
    last_activity_at = models.DateTimeField(null=True, editable=False)
    discoverable = models.BooleanField(default=False)
    #: The capability that patterns of roles match; only tools have one.
    capability = models.CharField(max_length=200, null=True, blank=True, db_index=True)
    #: Console roles, for service accounts that run automation.
    console_roles = models.ManyToManyField(Group, blank=True, related_name="service_accounts")

    state = models.CharField(max_length=16, choices=State, default=State.INACTIVE, editable=False)
    state_since = models.DateTimeField(default=timezone.now, editable=False)
    state_reason = models.CharField(max_length=500, blank=True, editable=False)
    #: The code of the cause of a suspension; empty in every other state and if none was stated.
    state_cause = models.CharField(
        max_length=16, choices=StopCause, blank=True, default="", db_default="", editable=False
    )
    state_by_id = models.UUIDField(null=True, editable=False)
    state_by = models.CharField(max_length=192, blank=True, editable=False)
    #: Incremented whenever access ends, so that a call reserved under an older epoch is refused.
    access_epoch = models.PositiveBigIntegerField(default=0, editable=False)
    #: Short-lived tokens issued before this time are refused.
    tokens_from = models.DateTimeField(null=True, editable=False)
    #: Names of the stop steps that `nhi.sweep` still has to finish.
    stop_pending = models.JSONField(default=list, blank=True, editable=False)

    created_by_id = models.UUIDField(null=True, editable=False)
    created_by_name = models.CharField(max_length=192, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = IdentityQuerySet.as_manager()

    class Meta:
        db_table = "nhi_identity"
        verbose_name_plural = "identities"
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint("kind", "name", name="nhi_identity_kind_name"),
            models.CheckConstraint(condition=Q(kind__in=Kind.values), name="nhi_identity_kind"),
            models.CheckConstraint(condition=Q(state__in=State.values), name="nhi_identity_state"),
            models.CheckConstraint(
                condition=Q(backup_owner=None) | ~Q(backup_owner=F("owner")), name="nhi_identity_backup_is_another"
            ),
            models.CheckConstraint(
                condition=Q(kind=Kind.TOOL, capability__isnull=False) | (~Q(kind=Kind.TOOL) & Q(capability=None)),
                name="nhi_identity_tools_have_capability",
            ),
        ]
        indexes = [
            models.Index(fields=["kind", "name", "id"], name="nhi_identity_by_kind"),
            models.Index(fields=["name", "id"], name="nhi_identity_by_name"),
            models.Index(fields=["state", "name"], name="nhi_identity_by_state"),
            models.Index(fields=["created_at", "id"], name="nhi_identity_by_age"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def server(self) -> str:
        """The server part of a tool's name; empty for other kinds."""
        return self.name.partition("__")[0] if self.kind == Kind.TOOL else ""
