"""Permissions of the gateway by console role."""

from typing import Any

from mcp.models import Server
from nhi.access import rights
from nhi.actors import Actor

READS = frozenset(
    f"view_{model}" for model in ("server", "tool", "budget", "breaker", "call", "callapproval", "healthreport")
)
#: Operating existing servers: no new server, no new command, no approval.
RUNS = frozenset({"operate_server", "reset_breaker"})
WRITES = frozenset({"add_server", "change_server", "change_tool", "add_budget", "change_budget", "delete_budget"})
APPROVES = frozenset({"approve_definition", "decide_approval"})
#: Permissions beyond the add, change, delete and view of models.
OWN: dict[str, tuple[str, str]] = {
    "operate_server": ("server", "Test, refresh, enable and disable servers"),
    "reset_breaker": ("breaker", "Reset breakers"),
    "approve_definition": ("tool", "Approve definitions of tools"),
    "decide_approval": ("callapproval", "Approve or refuse calls that wait for a person"),
}
ROLES: dict[str, frozenset[str]] = {
    "security-admin": READS | RUNS | WRITES | APPROVES,
    "operator": READS | RUNS,
    "approver": READS | APPROVES,
    "auditor": READS,
}


def deciding_roles() -> set[str]:
    """Return the console roles whose holders may decide about waiting calls."""
    return {role for role, permissions in ROLES.items() if "decide_approval" in permissions}


def sees_configuration(actor: Actor, server: Server) -> bool:
    """Return whether the actor may see a server's configuration. Users of its tools only see that it exists."""
    return actor.may("mcp.view_server") or (actor.is_person and server.owner_id == actor.id)


def after_migrate(*, using: str, **_kwargs: Any) -> None:
    rights.install_permissions("mcp", OWN, ROLES, using=using)
