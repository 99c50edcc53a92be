"""Creates people, changes console roles and passwords, deactivates and reactivates.

Four-eyes rule (decision 29): only a superuser creates, changes or reactivates an account that approves the actions of
others. Otherwise one admin could act as both people.
"""

import secrets
import string
import zoneinfo
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Now

from common.errors import Conflict, Duplicate, FieldError, InvalidInput, NotAllowed
from nhi.access import rights
from nhi.actors import Actor
from nhi.audit import events
from nhi.choices import ActorKind, NoticeKind
from nhi.credentials import credentials
from nhi.models import AuditEvent, Credential, SignInNotice, User
from nhi.people import sign_in_notices
from nhi.validation import Problems

#: Letters and digits without the similar characters l, I, O, 0 and 1.
PASSWORD_ALPHABET = "".join(mark for mark in string.ascii_letters + string.digits if mark not in "lIO01")


class PersonHasNoPassword(Conflict):
    """The person signs in through single sign-on."""

    code = "no_password"


class PasswordAlreadyChanged(Conflict):
    """Another request changed the password first."""

    code = "password_changed"


class PersonStateUnchanged(Conflict):
    """The person is already in this state."""

    code = "unchanged"


@dataclass(frozen=True, repr=False)
class NewPerson:
    """A new person and their password, which is shown once."""

    user: User
    password: str


def create(
    *,
    actor: Actor,
    username: str,
    roles: Iterable[str] = (),
    superuser: bool = False,
    email: str = "",
    password: str | None = "",
    must_change_password: bool = False,
) -> NewPerson:
    """Add a person. Without a role they have no console. With `password=None` they use single sign-on.

    If a person adds the account, the new person must change the password, because its creator has seen it.
    """
    actor.require("nhi.add_user", "add people")
    if superuser and not actor.is_superuser:
        actor.require("nhi.superuser", "add superusers")
    role_names = sorted(set(roles))
    problems = Problems()
    _check_username(problems, username)
    _check_roles(problems, role_names)
    problems.raise_if_any()
    rights.require_to_change_roles(actor, frozenset(), frozenset(role_names))
    user = User(username=username, email=email, is_superuser=superuser, is_staff=superuser or bool(role_names))
    password = generate_password() if password == "" else password
    if password is not None:
        check_password(password, user)
    user.set_password(password)
    user.must_change_password = password is not None and (must_change_password or actor.kind != ActorKind.SYSTEM)
    try:
        with transaction.atomic():
            user.save(force_insert=True)
            user.groups.set(Group.objects.filter(name__in=role_names))
            if user.must_change_password:
                sign_in_notices.add(
                    actor=actor, user=user, kind=NoticeKind.PASSWORD_SET, reason="The account was added."
                )
            events.write(
                "person.created", actor=actor, subject=user, after={"roles": role_names, "superuser": superuser}
            )
    except IntegrityError as error:
        raise Duplicate(
            f"There is already a person {username}.", fields=[FieldError("username", "This name is taken.")]
        ) from error
    return NewPerson(user, password or "")


def set_roles(*, actor: Actor, user: User, roles: Iterable[str], reason: str = "") -> User:
    """Set the console roles of a person. Without roles the person has no console. Nobody changes their own roles."""
    actor.require("nhi.change_user", "change console roles")
    role_names = sorted(set(roles))
    problems = Problems()
    problems.check_reason(reason, required=False)
    _check_roles(problems, role_names)
    problems.unless(actor.id != user.pk, "roles", "Someone else must change your roles.")
    problems.raise_if_any()
    _require_superuser_over(actor, user)
    with transaction.atomic():
        locked = User.objects.select_for_update().get(pk=user.pk)
        before = sorted(user.groups.values_list("name", flat=True))
        if before == role_names:
            return user
        rights.require_to_change_roles(actor, frozenset(before), frozenset(role_names))
        was_approver = rights.is_approver(user)
        user.groups.set(Group.objects.filter(name__in=role_names))
        user.is_staff = user.is_superuser or bool(role_names)
        user.save(update_fields=["is_staff"])
        events.write(
            "person.roles_changed",
            actor=actor,
            subject=user,
            before={"roles": before},
            after={"roles": role_names},
            reason=reason,
        )
        if not was_approver and rights.is_approver(user):
            _end_earlier_access(actor, locked)
            user.refresh_from_db()
    return user


def _end_earlier_access(actor: Actor, user: User) -> None:
    """Revoke tokens and sessions when the account becomes an approver: others may hold them or know its password."""
    setter = _password_setter_id(user)
    if actor.id is not None and setter is not None and setter != actor.id and not _is_superuser(setter):
        raise NotAllowed(
            f"A security admin knows the password of {user.username}. Let {user.username} sign in and choose another "
            "one first, or set a new one yourself.",
            details={"reason": "password_known"},
        )
    credentials.revoke_all(actor=actor, holder=user, reason="The role lets its holder approve")
    User.objects.filter(pk=user.pk).update(session_epoch=F("session_epoch") + 1)


def _password_setter_id(user: User) -> UUID | None:
    """Return the id of the person who set the password that must be changed: its last setter, or the creator."""
    if not user.must_change_password:
        return None
    notice = SignInNotice.objects.filter(user=user, kind=NoticeKind.PASSWORD_SET).order_by("-at", "-id").first()
    if notice is not None:
        return notice.by_id
    creation = AuditEvent.objects.filter(event="person.created", subject_id=user.pk).order_by("-at", "-id").first()
    return creation.actor_id if creation is not None else None


def _is_superuser(person_id: UUID) -> bool:
    return bool(User.objects.filter(pk=person_id, is_superuser=True).exists())


def change_own_settings(*, actor: Actor, user: User, time_zone: str, single_key_shortcuts: bool) -> User:
    """Change the settings that each person controls for themselves."""
    if actor.id != user.pk:
        raise NotAllowed("These are another person's own settings.")
    problems = Problems()
    is_valid = not time_zone or time_zone in zoneinfo.available_timezones()
    problems.unless(is_valid, "time_zone", "Choose a zone like Europe/Vienna, or leave it empty for the browser's.")
    problems.raise_if_any()
    with transaction.atomic():
        before = {"time_zone": user.time_zone, "single_key_shortcuts": user.single_key_shortcuts}
        user.time_zone, user.single_key_shortcuts = time_zone, single_key_shortcuts
        user.save(update_fields=["time_zone", "single_key_shortcuts"])
        after = {"time_zone": time_zone, "single_key_shortcuts": single_key_shortcuts}
        if after != before:
            events.write("person.changed", actor=actor, subject=user, before=before, after=after)
    return user


def change_password(*, actor: Actor, user: User, password: str) -> None:
    """Change the actor's own password. The stored password must still be the one in `user`."""
    if actor.id != user.pk:
        raise NotAllowed("This is another person's password. Set a new one for them, with a reason.")
    if user.must_change_password and user.check_password(password):
        raise InvalidInput.for_field("password", "Somebody else knows this password. Choose another one.")
    check_password(password, user)
    with transaction.atomic():
        _swap_password(user, password, must_change=False)
        events.write("person.password_changed", actor=actor, subject=user)


def set_password(*, actor: Actor, user: User, password: str, reason: str) -> None:
    """Set another person's password. They get a notice with actor and reason, and must change it at sign-in."""
    actor.require("nhi.change_user", "change other people's passwords")
    _require_right_to_change(actor, user, reason)
    if not user.has_usable_password():
        raise PersonHasNoPassword(f"{user.username} signs in elsewhere and has no password here.")
    check_password(password, user)
    with transaction.atomic():
        _lock_to_impersonate(actor, user)
        _swap_password(user, password, must_change=True)
        sign_in_notices.add(actor=actor, user=user, kind=NoticeKind.PASSWORD_SET, reason=reason)
        events.write("person.password_changed", actor=actor, subject=user, reason=reason)


def deactivate(*, actor: Actor, user: User, reason: str) -> User:
    """End sign-in, console sessions and personal tokens. The person keeps their identities until a handover."""
    _require_right_to_change(actor, user, reason)
    with transaction.atomic():
        changes = {"is_active": False, "deactivated_by_id": actor.id, "session_epoch": F("session_epoch") + 1}
        if not User.objects.filter(pk=user.pk, is_active=True).update(**changes):
            raise PersonStateUnchanged(f"{user.username} was deactivated before. Nothing was changed.")
        Credential.objects.live().filter(user=user).update(
            revoked_at=Now(), revoked_by_id=actor.id, revoked_by_name=actor.name, revoke_reason=reason
        )
        events.write("person.deactivated", actor=actor, subject=user, reason=reason)
    user.refresh_from_db()
    return user


def reactivate(*, actor: Actor, user: User, reason: str) -> User:
    """Allow sign-in again. Only a superuser reactivates an approver whom another actor deactivated."""
    _require_right_to_change(actor, user, reason)
    with transaction.atomic():
        locked = User.objects.select_for_update().get(pk=user.pk)
        if why_not_reactivate(actor, locked):
            raise NotAllowed(why_not_reactivate(actor, locked), details={"needs": "nhi.superuser"})
        if not User.objects.filter(pk=user.pk, is_active=False).update(is_active=True):
            raise PersonStateUnchanged(f"{user.username} is active already. Nothing was changed.")
        events.write("person.reactivated", actor=actor, subject=user, reason=reason)
    user.refresh_from_db()
    return user


def why_not_reactivate(actor: Actor, user: User) -> str:
    """Return why this actor may not reactivate this person, or an empty string. Checks console roles only."""
    own = actor.id is not None and user.deactivated_by_id == actor.id
    if actor.is_superuser or own or not rights.is_approver(user):
        return ""
    return (
        f"{user.username} approves definitions, calls or wildcards, so only a superuser "
        "or whoever deactivated them reactivates them."
    )


def reset_second_factor(*, actor: Actor, user: User, reason: str) -> int:
    """Remove a person's second factors and recovery codes, e.g. for a lost phone. Return the number of factors."""
    _require_right_to_change(actor, user, reason)
    with transaction.atomic():
        _lock_to_impersonate(actor, user)
        authenticators = list(Authenticator.objects.select_for_update().filter(user=user))
        factors = [row.type for row in authenticators if row.type != Authenticator.Type.RECOVERY_CODES]
        Authenticator.objects.filter(user=user).delete()
        sign_in_notices.add(actor=actor, user=user, kind=NoticeKind.FACTOR_RESET, reason=reason)
        events.write(
            "person.second_factor_reset", actor=actor, subject=user, before={"factors": factors}, reason=reason
        )
    return len(factors)


def _lock_to_impersonate(actor: Actor, user: User) -> None:
    """Lock the row as `set_roles` does, so that nobody becomes an approver between the check and the change."""
    User.objects.select_for_update().get(pk=user.pk)
    rights.require_to_impersonate(actor, user)


def generate_password() -> str:
    """Return a password of four groups of five characters: 116 bits, and readable in a terminal."""
    return "-".join("".join(secrets.choice(PASSWORD_ALPHABET) for _ in range(5)) for _ in range(4))


def check_password(password: str, user: User) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidInput(
            " ".join(error.messages), fields=[FieldError("password", text) for text in error.messages]
        ) from error


def _require_right_to_change(actor: Actor, user: User, reason: str) -> None:
    actor.require("nhi.change_user", "change other people")
    problems = Problems()
    problems.check_reason(reason)
    problems.unless(actor.id != user.pk, "user", "Someone else must do this to your account.")
    problems.raise_if_any()
    _require_superuser_over(actor, user)


def _require_superuser_over(actor: Actor, user: User) -> None:
    """Only a superuser changes a superuser."""
    if user.is_superuser and not actor.is_superuser:
        actor.require("nhi.superuser", "change a superuser")


def _swap_password(user: User, password: str, *, must_change: bool) -> None:
    """Store the password by compare-and-swap: the later of two concurrent changes fails."""
    before = user.password
    user.set_password(password)
    user.must_change_password = must_change
    changes = {"password": user.password, "must_change_password": must_change}
    if not User.objects.filter(pk=user.pk, password=before).update(**changes):
        raise PasswordAlreadyChanged(f"The password of {user.username} was changed meanwhile. Nothing was changed now.")


def _check_username(problems: Problems, username: str) -> None:
    try:
        User.username_validator(username)
        is_valid = 1 <= len(username) <= 150
    except ValidationError:
        is_valid = False
    problems.unless(is_valid, "username", "Use at most 150 letters, digits and @ . + - _.")


def _check_roles(problems: Problems, role_names: list[str]) -> None:
    unknown = [role for role in role_names if role not in rights.CONSOLE_ROLES]
    problems.unless(not unknown, "roles", f"Choose among {', '.join(rights.CONSOLE_ROLES)}.")
