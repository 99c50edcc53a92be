"""What people may do with tasks between agents, by console role."""

from typing import Any

from nhi.access import rights

READS = frozenset(
    {"view_task", "view_delivery", "view_webhooksecret", "view_runtime", "view_agentcard", "view_endpoint"}
)
RUNS = frozenset(
    {"send_task", "cancel_task", "redeliver_delivery", "disable_delivery", "change_agentcard", "change_endpoint"}
)
#: Rights of our own that no model's add, change, delete or view says.
OWN: dict[str, tuple[str, str]] = {
    "send_task": ("task", "Send tasks to any agent"),
    "send_task_for_another": ("task", "Send tasks in the name of an identity"),
    "cancel_task": ("task", "Cancel tasks"),
    "redeliver_delivery": ("delivery", "Deliver callbacks again"),
    "disable_delivery": ("delivery", "Call off callbacks"),
    "rotate_webhooksecret": ("webhooksecret", "Make, rotate and remove webhook secrets of identities"),
}
ROLES: dict[str, frozenset[str]] = {
    "security-admin": READS | RUNS | {"send_task_for_another", "rotate_webhooksecret", "change_runtime"},
    "operator": READS | RUNS,
    "approver": READS,
    "auditor": READS,
}


def after_migrate(*, using: str, **_kwargs: Any) -> None:
    rights.install_permissions("a2a", OWN, ROLES, using=using)
