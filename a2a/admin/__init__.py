"""The console's pages of this app. Importing a module registers what it has."""

from a2a.admin import (
    cards,
    cards_verbs,
    charts,
    deliveries,
    deliveries_found,
    identity_card,
    identity_connect,
    identity_tasks,
    inboxes,
    navigation,
    people_rights,
    runtimes,
    tasks,
    tasks_found,
    tasks_within,
    webhook_secrets,
)

__all__ = [
    "cards",
    "cards_verbs",
    "charts",
    "deliveries",
    "deliveries_found",
    "identity_card",
    "identity_connect",
    "identity_tasks",
    "inboxes",
    "navigation",
    "people_rights",
    "runtimes",
    "tasks",
    "tasks_found",
    "tasks_within",
    "webhook_secrets",
]
