"""The console's pages of this app. Importing a module registers what it has."""

from supervisor.admin import (
    agents,
    agents_found,
    charts,
    executions,
    executions_calls,
    identity_runs,
    navigation,
    people_rights,
    queue,
    schedules,
    sessions,
)

__all__ = [
    "agents",
    "agents_found",
    "charts",
    "executions",
    "executions_calls",
    "identity_runs",
    "navigation",
    "people_rights",
    "queue",
    "schedules",
    "sessions",
]
