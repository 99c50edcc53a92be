"""The rights of the console roles as a table of sentences; apps add rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nhi.access.rights import CONSOLE_ROLES
from nhi.models import User


@dataclass(frozen=True)
class RoleRight:
    """A right as the table of console roles shows it: a sentence, with the permissions that it needs."""

    words: str
    codenames: frozenset[str]
    changes: bool = True
    #: The permissions of each role in the app of this right.
    roles: Mapping[str, frozenset[str]] = field(default_factory=lambda: CONSOLE_ROLES, repr=False)


def _reads(words: str, *codenames: str) -> RoleRight:
    return RoleRight(words, frozenset(codenames), changes=False)


def _changes(words: str, *codenames: str) -> RoleRight:
    return RoleRight(words, frozenset(codenames))


#: The rows of the table. Higher apps add theirs.
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
    """One right in the table of console roles. `changes` is false for rights that only read."""

    words: str
    changes: bool
    #: Whether each role has the right, in the order of `LABELS`.
    held: tuple[bool, ...]


def role_rights_table() -> list[RoleRightLine]:
    return [
        RoleRightLine(right.words, right.changes, tuple(right.codenames <= right.roles[role] for role in LABELS))
        for right in RIGHTS
    ]


def role_labels_of(user: User) -> list[str]:
    """Return the labels of the person's console roles."""
    role_names = {group.name for group in user.groups.all()}
    return [*(["Superuser"] if user.is_superuser else []), *(LABELS[role] for role in LABELS if role in role_names)]


def missing_console_notice(user: User) -> str:
    """Return a notice if the chosen person has no console role, or an empty string."""
    if role_labels_of(user):
        return ""
    return f"{user.username} has no console role, so no console: they use the API with a personal token."
