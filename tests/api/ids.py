"""An id of each kind that belongs to the bot, for every path that takes one."""

from a2a import cancelling
from a2a.models import Delivery, WebhookSecret
from nhi.actors import SYSTEM
from nhi.models import Credential
from tests.a2a import rows as tasks
from tests.api.conftest import Stage
from tests.api.mcp import rows
from tests.nhi import cast
from tests.supervisor import rows as runs


def ids_of(stage: Stage) -> dict[str, list[str]]:
    """An id of each kind that belongs to the bot, and so to no stranger."""
    role = stage.admin.post("roles", {"name": "reader", "capabilities": ["*.*"]}).body
    held = stage.admin.post("role-assignments", {"role_id": role["id"], "identity_id": str(stage.bot.pk)}).body
    third = cast.agent("third")
    grants = (
        cast.tool_grant(stage.bot, stage.read),
        cast.nhi_grant(stage.bot, third),
        cast.user_grant(stage.bot, stage.mara),
    )
    return {
        "identity_id": [str(stage.bot.pk)],
        "credential_id": [str(Credential.objects.get(identity=stage.bot).pk)],
        "grant_id": [str(grant.pk) for grant in grants],
        "role_id": [role["id"]],
        "capability_id": [role["waiting"][0]["id"]],
        "assignment_id": [held["id"]],
        **ids_of_gateway(stage),
        **ids_of_supervisor(stage),
        **ids_of_tasks(stage),
    }


def ids_of_gateway(stage: Stage) -> dict[str, list[str]]:
    kept = rows.keep(stage.mara, stage.bot)
    return {
        "server_id": [str(kept.server.pk)],
        "tool_id": [str(kept.tool.pk)],
        "name": [str(kept.tool)],
        "call_id": [str(kept.call.pk)],
        "budget_id": [str(kept.budget.pk)],
        "service_name": [kept.breaker.service_name],
        "approval_id": [str(kept.approval.pk)],
    }


def ids_of_supervisor(stage: Stage) -> dict[str, list[str]]:
    kept = runs.keep(stage.bot)
    return {
        "agent_id": [str(kept.agent.pk)],
        "execution_id": [str(kept.run.pk)],
        "schedule_id": [str(kept.schedule.pk)],
        "session_id": [str(kept.session.pk)],
    }


def ids_of_tasks(stage: Stage) -> dict[str, list[str]]:
    task = tasks.sent(stage.bot, callback_url="https://hooks.example.com/")
    cancelling.cancel(actor=SYSTEM, task=task)
    return {
        "task_id": [str(task.pk)],
        "secret_id": [str(WebhookSecret.objects.get().pk)],
        "delivery_id": [str(Delivery.objects.get().pk)],
    }
