"""Calls and runs that were made for a task, told so on their pages: the way from each of them to the whole."""

from uuid import UUID

from a2a.models import Task
from common.console.pages import link
from mcp.admin.calls import run_links
from mcp.admin.calls.run_links import Within
from nhi.actors import Actor


def named(actor: Actor, task_id: UUID) -> Within | None:
    seen = Task.objects.visible_to(actor).filter(pk=task_id).only("agent_name").first()
    if seen is None:
        return None
    return Within(f"{seen.short_id} for {seen.agent_name}", link("a2a_task_trace", seen.pk))


run_links.add_tasks(named)
