"""The four console roles as Django permission groups, and what an actor may do to an identity."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.db.models import Q, QuerySet

from common.errors import NotAllowed
from nhi.actors import READ_ONLY, Actor
from nhi.models import Identity, User

READ_CODENAMES = frozenset(
    f"view_{model}"
    for model in (
        "user", "identity", "credential", "toolpermission", "nhipermission", "userpermission", "role",
        "roleassignment", "auditevent", "invocationlog", "process",
    )
)  # fmt: skip
WRITE_CODENAMES = frozenset(
    {
        "add_identity", "change_identity", "move_identity", "issue_credential", "revoke_credential",
        "add_toolpermission", "revoke_toolpermission", "add_nhipermission", "revoke_nhipermission",
        "add_userpermission", "revoke_userpermission", "add_role", "change_role", "add_roleassignment",
        "revoke_roleassignment", "add_user", "change_user", "export_data",
    }
)  # fmt: skip
#: Permissions that Django's add, change, delete and view do not cover: codename to model and name.
OWN_PERMISSIONS: dict[str, tuple[str, str]] = {
    "move_identity": ("identity", "Activate, suspend, deprecate or archive an identity"),
    "issue_credential": ("credential", "Issue and rotate credentials"),
    "revoke_credential": ("credential", "Revoke credentials"),
    "revoke_toolpermission": ("toolpermission", "Revoke agent to tool grants"),
    "revoke_nhipermission": ("nhipermission", "Revoke grants between identities"),
    "revoke_userpermission": ("userpermission", "Revoke grants to people"),
    "revoke_roleassignment": ("roleassignment", "Revoke role assignments"),
    "export_data": ("auditevent", "Export lists"),
    "read_only": ("auditevent", "Reads everything, changes nothing"),
}
CONSOLE_ROLES: dict[str, frozenset[str]] = {
    "security-admin": READ_CODENAMES | WRITE_CODENAMES,
    "operator": READ_CODENAMES - {"view_credential", "view_auditevent", "view_user"},
    "approver": READ_CODENAMES - {"view_credential"},
    "auditor": READ_CODENAMES | {"export_data", "read_only"},
}
#: The rights to approve the actions of another person. They are listed as permissions, not as roles, so that custom
#: groups with one of these permissions count too.
APPROVER_RIGHTS = frozenset({"mcp.approve_definition", "mcp.decide_approval", "nhi.change_role"})


def after_migrate(*, using: str, **_kwargs: Any) -> None:
    install_permissions("nhi", OWN_PERMISSIONS, CONSOLE_ROLES, using=using)


def install_permissions(
    app: str, own: Mapping[str, tuple[str, str]], roles: Mapping[str, frozenset[str]], *, using: str
) -> None:
    """Create the permissions of one app and give them to the role groups. Permissions of other apps stay.

    A flush deletes the groups, so this runs after every migrate and not only in a migration.
    """
    for codename, (model, name) in own.items():
        kind = ContentType.objects.db_manager(using).get_by_natural_key(app, model)
        Permission.objects.using(using).update_or_create(content_type=kind, codename=codename, defaults={"name": name})
    of_app = Permission.objects.using(using).filter(content_type__app_label=app)
    for role, rights in roles.items():
        group, _ = Group.objects.using(using).get_or_create(name=role)
        group.permissions.remove(*group.permissions.filter(content_type__app_label=app).exclude(codename__in=rights))
        group.permissions.add(*of_app.filter(codename__in=rights))


def require_to_move(actor: Actor, identity: Identity) -> None:
    """Lifecycle and credentials: for security admins, owners, and people with `manage` on the identity."""
    _require_right(actor, "nhi.move_identity", Identity.objects.managed_by(actor), identity, "stop or start")


def require_to_edit(actor: Actor, identity: Identity) -> None:
    _require_right(actor, "nhi.change_identity", Identity.objects.edited_by(actor), identity, "change")


def may_move(actor: Actor, identity: Identity) -> bool:
    return _is_allowed(actor, "nhi.move_identity", Identity.objects.managed_by(actor), identity)


def may_edit(actor: Actor, identity: Identity) -> bool:
    return _is_allowed(actor, "nhi.change_identity", Identity.objects.edited_by(actor), identity)


def _is_allowed(actor: Actor, right: str, own_identities: Any, identity: Identity) -> bool:
    if actor.may(right):
        return True
    return not actor.only_reads and own_identities.filter(pk=identity.pk).exists()


def _require_right(actor: Actor, right: str, own_identities: Any, identity: Identity, action: str) -> None:
    if not _is_allowed(actor, right, own_identities, identity):
        raise NotAllowed(f"You may not {action} {identity.name}.", details={"needs": right})


def is_approver(user: User) -> bool:
    """Return whether a person, active or not, may approve the actions of others."""
    permissions = _permissions_named(APPROVER_RIGHTS).filter(Q(group__user=user) | Q(user=user))
    return user.is_superuser or permissions.exists()


def approver_accounts(ids: Iterable[UUID]) -> set[UUID]:
    """Return the ids among these of service accounts that may approve the actions of others."""
    rows = Identity.objects.filter(pk__in=list(ids), console_roles__permissions__in=_permissions_named(APPROVER_RIGHTS))
    return set(rows.values_list("pk", flat=True))


def why_not_issue(actor: Actor, identity: Identity) -> str:
    """Return why this actor may not issue a credential for this identity, or an empty string.

    Callers check the right to issue credentials separately.
    """
    if actor.is_superuser or actor.id == identity.pk or not approver_accounts([identity.pk]):
        return ""
    return f"{identity.name} approves definitions, calls or wildcards, so only a superuser makes its credentials."


def fixed_roles(actor: Actor, role_names: Iterable[str]) -> frozenset[str]:
    """Return the console roles that this actor may not give to or take from a holder of `role_names`.

    Only a superuser gives or takes approver roles; otherwise one admin could act as both people. The read-only role
    blocks approvals, so for an approver it is fixed too.
    """
    if actor.is_superuser:
        return frozenset()
    deciding = _roles_with(APPROVER_RIGHTS)
    return deciding | _roles_with({READ_ONLY}) if deciding.intersection(role_names) else deciding


def require_to_change_roles(actor: Actor, before: frozenset[str], after: frozenset[str]) -> None:
    if switched := (before ^ after) & fixed_roles(actor, before):
        raise NotAllowed(
            f"Only a superuser gives or takes {', '.join(sorted(switched))} here: "
            "whoever approves definitions, calls or wildcards must be a second person.",
            details={"needs": "nhi.superuser"},
        )


def require_to_impersonate(actor: Actor, user: User) -> None:
    """Require the right to act as this person: setting a password or removing a second factor makes that possible."""
    if actor.is_superuser:
        return
    if user.is_superuser:
        actor.require("nhi.superuser", "change a superuser")
    if is_approver(user):
        raise NotAllowed(
            f"{user.username} approves definitions, calls or wildcards, so only a superuser sets their password or "
            "resets their second factor.",
            details={"needs": "nhi.superuser"},
        )


def _roles_with(rights: frozenset[str] | set[str]) -> frozenset[str]:
    return frozenset(Group.objects.filter(permissions__in=_permissions_named(rights)).values_list("name", flat=True))


def _permissions_named(rights: frozenset[str] | set[str]) -> QuerySet[Permission]:
    condition = Q(pk__in=[])
    for right in rights:
        app, _, codename = right.partition(".")
        condition |= Q(content_type__app_label=app, codename=codename)
    return Permission.objects.filter(condition)
