"""What people may do with agents that run here, by console role."""

from typing import Any

from nhi.access import rights

READS = frozenset(f"view_{model}" for model in ("agent", "execution", "session", "schedule"))
#: Running what is configured: no new program, no other command line.
RUNS = frozenset({"run_agent", "cancel_execution", "operate_schedule", "operate_agent"})
WRITES = frozenset({"add_agent", "change_agent", "add_schedule", "change_schedule"})
#: Rights of our own that no model's add, change, delete or view says.
OWN: dict[str, tuple[str, str]] = {
    "run_agent": ("agent", "Run agents and talk to them"),
    "operate_agent": ("agent", "Switch agents off and on"),
    "cancel_execution": ("execution", "Stop runs and close sessions"),
    "operate_schedule": ("schedule", "Pause, resume and run schedules"),
}
ROLES: dict[str, frozenset[str]] = {
    "security-admin": READS | RUNS | WRITES,
    "operator": READS | RUNS,
    "approver": READS,
    "auditor": READS,
}


def after_migrate(*, using: str, **_kwargs: Any) -> None:
    rights.install_permissions("supervisor", OWN, ROLES, using=using)
