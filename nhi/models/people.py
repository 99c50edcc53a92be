"""People, and how they like their lists."""

from typing import TYPE_CHECKING, ClassVar

from django.contrib.auth.models import AbstractUser, UserManager
from django.db import models
from django.utils.crypto import salted_hmac

from common.ids import uuid7
from nhi.choices import NoticeKind

if TYPE_CHECKING:
    from nhi.actors import Actor


class PersonQuerySet(models.QuerySet["User"]):
    def visible_to(self, actor: "Actor") -> "PersonQuerySet":
        if actor.may("nhi.view_user"):
            return self
        return self.filter(pk__in=[actor.id]) if actor.is_person else self.none()

    def active(self) -> "PersonQuerySet":
        return self.filter(is_active=True)


class PersonManager(UserManager.from_queryset(PersonQuerySet)):  # type: ignore[misc]  # a base class that is made at run time
    """Django's manager, with our adjectives."""


class User(AbstractUser):
    """A person. People are deactivated, never deleted: the record names them."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    time_zone = models.CharField(max_length=64, blank=True, help_text="Empty: the browser's zone.")
    #: Raised to end every session of the person.
    session_epoch = models.PositiveIntegerField(default=0, editable=False)
    single_key_shortcuts = models.BooleanField(default=True, help_text="Single letters as shortcuts in lists.")
    #: Somebody else knows the password, so its owner chooses another before anything else in the console.
    must_change_password = models.BooleanField(default=False, db_default=False, editable=False)
    #: Who deactivated the person; only they or a superuser reactivate somebody who approves things.
    deactivated_by_id = models.UUIDField(null=True, editable=False)

    objects: ClassVar[PersonManager] = PersonManager()

    class Meta(AbstractUser.Meta):
        db_table = "nhi_user"
        verbose_name = "person"
        verbose_name_plural = "people"

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        """What Django compares on every request of a session: it ends with the password and with the epoch."""
        said = f"{self.password}:{self.session_epoch}"
        return salted_hmac("gatehouse.session", said, secret=secret, algorithm="sha256").hexdigest()


class SignInNotice(models.Model):
    """What somebody else did to how a person signs in. The person is told at their next sign-in."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_in_notices")
    kind = models.CharField(max_length=24, choices=NoticeKind)
    by_id = models.UUIDField(null=True)
    by_name = models.CharField(max_length=192)
    reason = models.CharField(max_length=500, blank=True)
    at = models.DateTimeField()
    #: When the person signed in for the first time after it.
    seen_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "nhi_sign_in_notice"
        default_permissions = ()
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["user", "-at"], name="nhi_sign_in_notice_by_user")]

    def __str__(self) -> str:
        return f"{self.kind} by {self.by_name}"


class SavedViewQuerySet(models.QuerySet["SavedView"]):
    def visible_to(self, actor: "Actor") -> "SavedViewQuerySet":
        return self.filter(models.Q(user_id=actor.id) | models.Q(shared=True))


class SavedView(models.Model):
    """A list's filters and order under a name."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views")
    page = models.CharField(max_length=64)
    name = models.CharField(max_length=64)
    query = models.CharField(max_length=2000, blank=True)
    shared = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = SavedViewQuerySet.as_manager()

    class Meta:
        db_table = "nhi_saved_view"
        constraints = [models.UniqueConstraint("user", "page", "name", name="nhi_saved_view_once")]

    def __str__(self) -> str:
        return self.name


class LastLook(models.Model):
    """Until when a person has seen what a list holds."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="looks")
    page = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        db_table = "nhi_last_look"
        default_permissions = ()
        constraints = [models.UniqueConstraint("user", "page", name="nhi_last_look_once")]

    def __str__(self) -> str:
        return f"{self.page} until {self.at}"


class Seen(models.Model):
    """One thing of a list that a person has seen, of those that end too late to be told by a moment."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="seen")
    page = models.CharField(max_length=64)
    #: What it is of belongs to another app, so its key stands here alone.
    subject_id = models.UUIDField()
    at = models.DateTimeField()

    class Meta:
        db_table = "nhi_seen"
        default_permissions = ()
        constraints = [models.UniqueConstraint("user", "page", "subject_id", name="nhi_seen_once")]

    def __str__(self) -> str:
        return f"{self.subject_id} of {self.page}"


class SignInGuard(models.Model):
    """Tries to sign in under one name from one address, or all of a name's or an address's, counted before any hash."""

    #: In place of a name or an address: all of them.
    ALL = "*"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    username = models.CharField(max_length=150)
    source = models.CharField(max_length=45)
    failures = models.PositiveIntegerField(default=0)
    #: Let through and not yet found right or wrong: they count, so that many at once get no more tries than one by one.
    in_flight = models.PositiveIntegerField(default=0)
    last_attempt_at = models.DateTimeField()
    locked_until = models.DateTimeField(null=True)
    #: Locks in a row; each makes the next one longer.
    locks = models.PositiveIntegerField(default=0)
    #: Set once this name has signed in from this address.
    succeeded_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "nhi_sign_in_guard"
        default_permissions = ()
        constraints = [models.UniqueConstraint("username", "source", name="nhi_sign_in_guard_once")]
        indexes = [models.Index(fields=["last_attempt_at"], name="nhi_sign_in_guard_by_attempt")]

    def __str__(self) -> str:
        return f"{self.username} from {self.source}"
