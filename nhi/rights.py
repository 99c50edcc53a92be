"""The four roles people hold, as groups of permissions, and what an actor may do to one identity."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType

from common.errors import NotAllowed
from nhi.actors import Actor
from nhi.models import Identity

READS = frozenset(
    f"view_{model}"
    for model in (
        "user", "identity", "credential", "toolpermission", "nhipermission", "userpermission", "role",
        "roleassignment", "auditevent", "invocationlog", "process",
    )
)  # fmt: skip
WRITES = frozenset(
    {
        "add_identity", "change_identity", "move_identity", "issue_credential", "revoke_credential",
        "add_toolpermission", "revoke_toolpermission", "add_nhipermission", "revoke_nhipermission",
        "add_userpermission", "revoke_userpermission", "add_role", "change_role", "add_roleassignment",
        "revoke_roleassignment", "add_user", "change_user", "export_data",
    }
)  # fmt: skip
#: Rights of our own that no model's add, change, delete or view says.
OWN: dict[str, tuple[str, str]] = {
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
ROLES: dict[str, frozenset[str]] = {
    "security-admin": READS | WRITES,
    "operator": READS - {"view_credential", "view_auditevent", "view_user"},
    "approver": READS - {"view_credential"},
    "auditor": READS | {"export_data", "read_only"},
}


def after_migrate(*, using: str, **_kwargs: Any) -> None:
    spread("nhi", OWN, ROLES, using=using)


def spread(app: str, own: Mapping[str, tuple[str, str]], roles: Mapping[str, frozenset[str]], *, using: str) -> None:
    """Make the rights of one app and give them to the groups; what another app gave these stays.

    Groups vanish at the first flush, so they are made after every migrate, never by a migration alone.
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
    """Lifecycle and credentials: security admins, owners, and people with `manage` on it."""
    _require(actor, "nhi.move_identity", Identity.objects.managed_by(actor), identity, "stop or start")


def require_to_edit(actor: Actor, identity: Identity) -> None:
    _require(actor, "nhi.change_identity", Identity.objects.edited_by(actor), identity, "change")


def may_move(actor: Actor, identity: Identity) -> bool:
    return _passes(actor, "nhi.move_identity", Identity.objects.managed_by(actor), identity)


def may_edit(actor: Actor, identity: Identity) -> bool:
    return _passes(actor, "nhi.change_identity", Identity.objects.edited_by(actor), identity)


def _passes(actor: Actor, right: str, own: Any, identity: Identity) -> bool:
    if actor.may(right):
        return True
    return not actor.only_reads and own.filter(pk=identity.pk).exists()


def _require(actor: Actor, right: str, own: Any, identity: Identity, doing: str) -> None:
    if not _passes(actor, right, own, identity):
        raise NotAllowed(f"You may not {doing} {identity.name}.", details={"needs": right})
