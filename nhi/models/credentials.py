"""Credentials of identities and people, and refused authentications."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from common.db.querysets import NonDeletableModel, TimeBoxedQuerySet
from common.ids import uuid7
from nhi.choices import GrantState
from nhi.models.identities import Identity

if TYPE_CHECKING:
    from nhi.actors import Actor


class TimeBoxed(NonDeletableModel):
    """Base of rows that expire and can be revoked earlier."""

    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)
    revoked_by_id = models.UUIDField(null=True, editable=False)
    revoked_by_name = models.CharField(max_length=192, blank=True, editable=False)
    revoke_reason = models.CharField(max_length=500, blank=True, editable=False)

    class Meta:
        abstract = True

    def state_at(self, now: datetime) -> GrantState:
        if self.revoked_at is not None:
            # Revoked after its expiry: it had expired. A revoked row is never live again, whatever the clock says.
            ended_itself = self.expires_at is not None and self.revoked_at >= self.expires_at
            return GrantState.EXPIRED if ended_itself else GrantState.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return GrantState.EXPIRED
        return GrantState.LIVE

    @property
    def state(self) -> GrantState:
        """The state for display. Decisions use the database's clock instead, in `nhi.authorization.facts`."""
        return self.state_at(timezone.now())


class CredentialQuerySet(TimeBoxedQuerySet["Credential"]):
    """Credentials.

    Without the view right, an actor sees its own and those of the identities that it manages.
    """

    def visible_to(self, actor: "Actor") -> "CredentialQuerySet":
        if actor.may("nhi.view_credential"):
            return self
        if actor.run_id is not None:
            return self.none()
        mine = Q(user_id=actor.id) if actor.is_person else Q(identity_id=actor.id)
        return self.filter(mine | Q(identity__in=Identity.objects.managed_by(actor).values("pk")))

    def long_lived(self) -> "CredentialQuerySet":
        """Credentials that people issue, rotate and revoke; without run tokens, which are managed automatically."""
        return self.filter(execution_id=None)


CredentialManager = models.Manager.from_queryset(CredentialQuerySet)


class LongLivedCredentialManager(CredentialManager["Credential"]):
    """The default manager: lists and counts of credentials exclude run tokens."""

    def get_queryset(self) -> CredentialQuerySet:
        return CredentialQuerySet(self.model, using=self._db).long_lived()


class RunCredentialManager(models.Manager["Credential"]):
    """Run tokens only. They may be deleted, because the run itself is the record."""

    def get_queryset(self) -> models.QuerySet["Credential"]:
        return super().get_queryset().filter(execution_id__isnull=False)


class Credential(TimeBoxed):
    """A token: its public id and the digest of the whole token. The secret itself is not stored.

    The credential of a run has no secret: only the signed token of the run refers to it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    identity = models.ForeignKey(Identity, on_delete=models.PROTECT, related_name="credentials", null=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="tokens", null=True)
    public_id = models.CharField(max_length=32, unique=True, editable=False)
    digest = models.BinaryField(max_length=32, editable=False)
    allowed_networks = models.JSONField(default=list, blank=True)
    #: Set when a successor is issued; both are valid until `expires_at`.
    rotated_at = models.DateTimeField(null=True, editable=False)
    #: Personal tokens: whether the token may issue and rotate credentials of identities, as far as its person may.
    issues_credentials = models.BooleanField(default=False, db_default=False, editable=False)
    #: Personal tokens: when the first token of this chain of rotations was issued.
    family_began_at = models.DateTimeField(null=True, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)
    last_used_from = models.CharField(max_length=45, blank=True, editable=False)
    created_by_id = models.UUIDField(null=True, editable=False)
    created_by_name = models.CharField(max_length=192, editable=False)
    #: The run of a run token; empty for a long-lived credential.
    execution_id = models.UUIDField(null=True, editable=False)
    #: The delegation chain of the run (`nhi.decisions.delegation`).
    chain = models.JSONField(null=True, editable=False)

    objects: ClassVar[LongLivedCredentialManager] = LongLivedCredentialManager()
    runs: ClassVar[RunCredentialManager] = RunCredentialManager()

    class Meta:
        db_table = "nhi_credential"
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(identity__isnull=False, user=None) | Q(identity=None, user__isnull=False),
                name="nhi_credential_has_one_holder",
            ),
            models.CheckConstraint(condition=Q(expires_at__isnull=False), name="nhi_credential_ends"),
            models.UniqueConstraint(
                fields=["execution_id"], condition=Q(execution_id__isnull=False), name="nhi_credential_one_per_run"
            ),
        ]
        indexes = [models.Index(fields=["expires_at"], name="nhi_credential_by_end")]

    def __str__(self) -> str:
        return f"…{self.public_id[-4:]}"

    def __repr__(self) -> str:
        return f"<Credential {self.public_id}>"

    @property
    def sides(self) -> tuple[UUID | None, None]:
        """The holder, for the audit log."""
        return self.identity_id or self.user_id, None

    @property
    def overlaps(self) -> bool:
        """Whether it was rotated and is still valid for a while."""
        return self.rotated_at is not None and self.state == GrantState.LIVE

    @property
    def lifetime(self) -> timedelta:
        assert self.expires_at is not None  # a constraint
        return self.expires_at - self.created_at

    @property
    def family_began(self) -> datetime:
        """When the first token of this chain of rotations was issued, which may be this one."""
        return self.family_began_at or self.created_at


class RefusedAuthenticationQuerySet(models.QuerySet["RefusedAuthentication"]):
    """Counts of refused authentications, one per credential, address and minute."""

    def visible_to(self, actor: "Actor") -> "RefusedAuthenticationQuerySet":
        """All rows for readers of the audit log; else those about credentials that the actor can see."""
        if actor.may("nhi.view_auditevent"):
            return self
        return self.filter(public_id__in=Credential.objects.visible_to(actor).values("public_id"))


class RefusedAuthentication(models.Model):
    """Refused attempts per minute, counted so that nobody can flood the log. `reason` is that of the last one."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    public_id = models.CharField(max_length=32, default="unknown")
    source = models.CharField(max_length=45, blank=True)
    minute = models.DateTimeField()
    reason = models.CharField(max_length=40)
    count = models.PositiveBigIntegerField(default=1)

    objects = RefusedAuthenticationQuerySet.as_manager()

    class Meta:
        db_table = "nhi_refused_authentication"
        ordering = ["-minute", "-id"]
        constraints = [models.UniqueConstraint("public_id", "source", "minute", name="nhi_refused_authentication_once")]
        indexes = [models.Index(fields=["-minute", "-id"], name="nhi_refused_by_minute")]

    def __str__(self) -> str:
        return f"{self.public_id} from {self.source}: {self.reason}"
