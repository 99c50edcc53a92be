"""Who may do what: the four roles as a table of sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nhi.access.rights import CONSOLE_ROLES
from nhi.models import User


@dataclass(frozen=True)
class RoleRight:
    """One line of the table: what a role lets a person do, and the permissions that say so."""

    words: str
    codenames: frozenset[str]
    changes: bool = True
    #: Which role has which of an app's permissions.
    roles: Mapping[str, frozenset[str]] = field(default_factory=lambda: CONSOLE_ROLES, repr=False)


def _reads(words: str, *codenames: str) -> RoleRight:
    return RoleRight(words, frozenset(codenames), changes=False)


def _changes(words: str, *codenames: str) -> RoleRight:
    return RoleRight(words, frozenset(codenames))


#: Higher apps add theirs.
RIGHTS = [
    _reads("See every identity", "view_identity"),
    _reads(
        "See every grant and role",
        "view_toolpermission", "view_nhipermission", "view_userpermission", "view_role", "view_roleassignment",
    ),
    _reads("See every credential, never its secret", "view_credential"),
    _reads("See people and their roles", "view_user"),
    _reads("Read every audit event", "view_auditevent"),
    _reads("Read every call of a tool", "view_invocationlog"),
    _reads("See processes and limits", "view_process"),
    _reads("Export lists", "export_data"),
    _reads("Change nothing, whatever other role is held", "read_only"),
    _changes("Add and change identities", "add_identity", "change_identity"),
    _changes("Start, stop and archive identities", "move_identity"),
    _changes("Issue, rotate and revoke credentials", "issue_credential", "revoke_credential"),
    _changes(
        "Give and revoke grants",
        "add_toolpermission", "revoke_toolpermission", "add_nhipermission", "revoke_nhipermission",
        "add_userpermission", "revoke_userpermission",
    ),
    _changes(
        "Make and assign roles of agents", "add_role", "change_role", "add_roleassignment", "revoke_roleassignment"
    ),
    _changes("Add people, change their roles, reset second factors", "add_user", "change_user"),
]  # fmt: skip

LABELS = {
    "security-admin": "Security admin",
    "operator": "Operator",
    "approver": "Approver",
    "auditor": "Auditor",
}


@dataclass(frozen=True)
class RoleRightLine:
    words: str
    changes: bool
    #: One for each role, in the order of `LABELS`.
    held: tuple[bool, ...]


def role_rights_table() -> list[RoleRightLine]:
    return [
        RoleRightLine(right.words, right.changes, tuple(right.codenames <= right.roles[role] for role in LABELS))
        for right in RIGHTS
    ]


def role_labels_of(user: User) -> list[str]:
    """The roles that a person holds, in words."""
    held = {group.name for group in user.groups.all()}
    return [*(["Superuser"] if user.is_superuser else []), *(LABELS[role] for role in LABELS if role in held)]


def missing_console_notice(user: User) -> str:
    """What to know of who was just chosen, or nothing."""
    if role_labels_of(user):
        return ""
    return f"{user.username} has no console role, so no console: they use the API with a personal token."
