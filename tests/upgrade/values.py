"""What a database holds: every sealed value, opened by the product's own functions, and the number of rows by table."""

from collections.abc import Iterator
from typing import Any

from allauth.mfa.models import Authenticator
from django.apps import apps
from django.db import connection

from a2a import callback_urls, covering, pushing, runtimes, webhooks
from a2a.models import PushConfig, Runtime, Task, TaskMessage, WebhookSecret
from mcp.gateway.batch import call_approvals
from mcp.models import CallApproval, Server
from mcp.servers import secrets
from nhi.people import mfa
from supervisor import agents, sealing
from supervisor.models import Agent, Execution, Schedule, SessionMessage
from supervisor.schedules import facts

APPS = ("common", "config", "nhi", "mcp", "supervisor", "a2a")
Value = tuple[str, Any, str, Any]


def sealed() -> dict[str, Any]:
    """The open value of every sealed field that is not empty, by table, row and field."""
    readers = (_of_nhi, _of_mcp, _of_supervisor, _of_a2a)
    return {f"{table}/{row}/{field}": value for read in readers for table, row, field, value in read()}


def _of_nhi() -> Iterator[Value]:
    for row in Authenticator.objects.filter(type=Authenticator.Type.TOTP):
        yield "mfa_authenticator", row.pk, "secret", mfa.unseal_secret(row.data["secret"], owner=row.user)
    for row in Authenticator.objects.filter(type=Authenticator.Type.RECOVERY_CODES):
        yield "mfa_authenticator", row.pk, "seed", mfa.unseal_secret(row.data["seed"], owner=row.user)


def _of_mcp() -> Iterator[Value]:
    for server in Server.objects.all():
        for name, value in secrets.open_secrets(server).items():
            yield "mcp_server_secret", server.pk, name, value
    for approval in CallApproval.objects.exclude(sealed_arguments=""):
        yield "mcp_call_approval", approval.pk, "sealed_arguments", call_approvals.open_arguments(approval)


def _of_supervisor() -> Iterator[Value]:
    for agent in Agent.objects.exclude(sealed_envs=""):
        yield "supervisor_agent", agent.pk, "sealed_envs", agents.declared(agent)
    for agent in Agent.objects.exclude(sealed_key=""):
        yield "supervisor_agent", agent.pk, "sealed_key", agents.key(agent)
    for run in Execution.objects.exclude(sealed_input=""):
        value = sealing.unseal(run.sealed_input, table="execution", row=run.pk, field="input")
        yield "supervisor_execution", run.pk, "sealed_input", value
    for schedule in Schedule.objects.exclude(sealed_input=""):
        yield "supervisor_schedule", schedule.pk, "sealed_input", facts.opened(schedule)
    for message in SessionMessage.objects.exclude(sealed_text=""):
        text = sealing.unseal(message.sealed_text, table="session_message", row=message.pk, field="text")
        yield "supervisor_session_message", message.pk, "sealed_text", text


def _of_a2a() -> Iterator[Value]:
    for task in Task.objects.exclude(sealed_callback_url=""):
        yield "a2a_task", task.pk, "sealed_callback_url", callback_urls.of(task)
    for message in TaskMessage.objects.exclude(sealed_body=""):
        yield "a2a_task_message", message.pk, "sealed_body", covering.unseal(message.sealed_body, row=message.pk)
    for runtime in Runtime.objects.exclude(sealed_credential=""):
        yield "a2a_runtime", runtime.pk, "sealed_credential", runtimes.credential(runtime)
    for secret in WebhookSecret.objects.all():
        # The current one, and after it those that still sign beside it.
        signing = webhooks.signing(webhooks.Owner(secret.owner_id, secret.owner_name), secret.url_prefix)
        yield "a2a_webhook_secret", secret.pk, "sealed", signing[0]
        if secret.sealed_previous:
            yield "a2a_webhook_secret", secret.pk, "sealed_previous", signing[1:]
    for config in PushConfig.objects.all():
        yield "a2a_push_config", config.pk, "sealed", pushing.opened(config)


def tables() -> dict[str, str]:
    """The models of the six apps by table, those of many-to-many fields among them."""
    models = apps.get_models(include_auto_created=True)
    return {model._meta.db_table: model._meta.label for model in models if model._meta.app_label in APPS}


def counts() -> dict[str, int]:
    """Rows by table, of every table that the database has."""
    with connection.cursor() as cursor:
        names = sorted(connection.introspection.table_names(cursor))
        return {name: _count(cursor, name) for name in names}


def _count(cursor: Any, table: str) -> int:
    cursor.execute(f'SELECT count(*) FROM "{table}"')
    return int(cursor.fetchone()[0])


def tables_and_counts() -> dict[str, Any]:
    return {"tables": tables(), "counts": counts()}
