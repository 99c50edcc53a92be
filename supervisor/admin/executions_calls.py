"""Calls of tools that were made in a run, told so wherever they are shown."""

from collections.abc import Collection
from uuid import UUID

from common.console.pages import link
from mcp.admin.calls import run_links
from mcp.admin.calls.run_links import Within
from nhi.actors import Actor
from supervisor.models import Execution


def named(actor: Actor, ids: Collection[UUID]) -> dict[UUID, Within]:
    seen = Execution.objects.visible_to(actor).filter(pk__in=ids).only("agent_name", "number")
    return {run.pk: Within(str(run), link("supervisor_execution_hub", run.pk)) for run in seen}


run_links.add(named)
