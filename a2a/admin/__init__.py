"""The console's pages of this app. Importing a module registers what it has."""

from a2a.admin import identity_tasks, inboxes, navigation, people_rights, tasks, tasks_found, tasks_within

__all__ = ["identity_tasks", "inboxes", "navigation", "people_rights", "tasks", "tasks_found", "tasks_within"]
