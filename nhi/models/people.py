"""People, their sign-in and their list settings."""

from typing import TYPE_CHECKING, ClassVar

from django.contrib.auth.models import AbstractUser, UserManager
from django.db import models
from django.utils.crypto import salted_hmac

from common.ids import uuid7
from nhi.choices import NoticeKind

if TYPE_CHECKING:
    from nhi.actors import Actor


class PersonQuerySet(models.QuerySet["User"]):
    """People. Without the view right, a person sees their own row only."""

    def visible_to(self, actor: "Actor") -> "PersonQuerySet":
        if actor.may("nhi.view_user"):
            return self
        return self.filter(pk__in=[actor.id]) if actor.is_person else self.none()

    def active(self) -> "PersonQuerySet":
        return self.filter(is_active=True)


class PersonManager(UserManager.from_queryset(PersonQuerySet)):  # type: ignore[misc]  # a base class that is created at run time
    """Django's manager with the methods of `PersonQuerySet`."""


class User(AbstractUser):
    """A person. People are deactivated, never deleted, because log rows refer to them."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    time_zone = models.CharField(max_length=64, blank=True, help_text="Empty: the browser's zone.")
    #: Incremented to end every session of the person.
    session_epoch = models.PositiveIntegerField(default=0, editable=False)
    single_key_shortcuts = models.BooleanField(default=True, help_text="Single letters as shortcuts in lists.")
    #: Set if somebody else knows the password; the console then requires a new one first.
    must_change_password = models.BooleanField(default=False, db_default=False, editable=False)
    #: The person who deactivated this one. Only they or a superuser may reactivate an approver.
    deactivated_by_id = models.UUIDField(null=True, editable=False)

    objects: ClassVar[PersonManager] = PersonManager()

    class Meta(AbstractUser.Meta):
        db_table = "nhi_user"
        verbose_name = "person"
        verbose_name_plural = "people"

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        """The hash that Django compares on every request, so that a new password or epoch ends all sessions."""
        value = f"{self.password}:{self.session_epoch}"
        return salted_hmac("gatehouse.session", value, secret=secret, algorithm="sha256").hexdigest()


class SignInNotice(models.Model):
    """A change to a person's sign-in by somebody else. Shown to the person at their next sign-in."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_in_notices")
    kind = models.CharField(max_length=24, choices=NoticeKind)
    by_id = models.UUIDField(null=True)
    by_name = models.CharField(max_length=192)
    reason = models.CharField(max_length=500, blank=True)
    at = models.DateTimeField()
    #: The time of the person's first sign-in after the change.
    seen_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "nhi_sign_in_notice"
        default_permissions = ()
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["user", "-at"], name="nhi_sign_in_notice_by_user")]

    def __str__(self) -> str:
        return f"{self.kind} by {self.by_name}"


class SavedViewQuerySet(models.QuerySet["SavedView"]):
    """Saved views of lists. A person sees their own views and shared ones."""

    def visible_to(self, actor: "Actor") -> "SavedViewQuerySet":
        return self.filter(models.Q(user_id=actor.id) | models.Q(shared=True))


class SavedView(models.Model):
    """A named set of filters and order of a list."""

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
    """The time up to which a person has seen the rows of a list."""

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
    """A row that a person has seen, stored individually while rows with an earlier time may still be committed."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="seen")
    page = models.CharField(max_length=64)
    #: The id of the row. No foreign key, because the row belongs to another app.
    subject_id = models.UUIDField()
    at = models.DateTimeField()

    class Meta:
        db_table = "nhi_seen"
        default_permissions = ()
        constraints = [models.UniqueConstraint("user", "page", "subject_id", name="nhi_seen_once")]

    def __str__(self) -> str:
        return f"{self.subject_id} of {self.page}"


class SignInGuard(models.Model):
    """Counts sign-in attempts by name and address, by name or by address, before any password is hashed."""

    #: Stands for all names or all addresses.
    ALL = "*"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    username = models.CharField(max_length=150)
    source = models.CharField(max_length=45)
    failures = models.PositiveIntegerField(default=0)
    #: Admitted attempts without a result yet. They count, so that parallel attempts are limited like sequential ones.
    in_flight = models.PositiveIntegerField(default=0)
    last_attempt_at = models.DateTimeField()
    locked_until = models.DateTimeField(null=True)
    #: Consecutive locks; each makes the next one longer.
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
