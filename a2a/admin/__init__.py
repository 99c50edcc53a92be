"""The console's pages of this app. Importing a module registers what it has."""

from a2a.admin import identity_tasks, inboxes, navigation, people_rights, runtimes, tasks, tasks_found

__all__ = ["identity_tasks", "inboxes", "navigation", "people_rights", "runtimes", "tasks", "tasks_found"]
