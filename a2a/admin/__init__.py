"""The console's pages of this app. Importing a module registers what it has."""

from a2a.admin import (
    cards,
    cards_verbs,
    identity_card,
    identity_tasks,
    inboxes,
    navigation,
    people_rights,
    tasks,
    tasks_found,
)

__all__ = [
    "cards", "cards_verbs", "identity_card", "identity_tasks", "inboxes", "navigation", "people_rights", "tasks",
    "tasks_found",
]  # fmt: skip
