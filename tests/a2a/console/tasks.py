"""Where the pages of tasks are, and what they list."""

from django.test import Client

from a2a.choices import TaskState
from a2a.models import Task

TASKS, INBOXES = "/admin/a2a/task/", "/admin/tasks/inboxes/"
CHARTS = "/admin/tasks/charts/"
TABS = ("", "content/", "trace/", "changes/")
S = TaskState


def page_of(task: Task, tab: str = "") -> str:
    return f"{TASKS}{task.pk}/{tab}"


def listed(client: Client, query: str) -> list[str]:
    return [row["name"] for row in client.get(f"{TASKS}?{query}").context["rows"]]
