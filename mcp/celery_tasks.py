"""Celery tasks of the gateway. Each task calls one function and may run twice without harm."""

import logging
from uuid import UUID

from celery import shared_task
from kombu.exceptions import OperationalError

from mcp.approvals import decisions
from mcp.gateway import call_statistics
from mcp.gateway.batch import result_writer
from mcp.limits import breakers, budgets
from mcp.models import Server
from mcp.server.handshake import sessions
from mcp.servers import health
from mcp.tools import definitions

log = logging.getLogger(__name__)
#: Less than the time limit of a task.
REFRESH_SECONDS = 12.0


@shared_task(name="mcp.sweep")
def sweep() -> None:
    result_writer.reap_lost_calls()
    decisions.expire_overdue()
    budgets.remove_old_windows()
    breakers.remove_unused()


@shared_task(name="mcp.check_servers")
def check_servers() -> None:
    health.check_due_servers()


@shared_task(name="mcp.refresh_servers")
def refresh_servers() -> None:
    health.refresh_due_servers()
    definitions.renew_flags()


@shared_task(name="mcp.refresh_server")
def refresh_server(server_id: str) -> None:
    server = Server.objects.enabled().filter(pk=server_id).first()
    if server is not None:
        health.refresh(server=server, timeout=REFRESH_SECONDS)


def queue_refresh(server_id: UUID) -> None:
    """Queue a refresh for a worker, because only workers write servers. The schedule makes up for a lost message."""
    try:
        refresh_server.apply_async(args=(str(server_id),), queue="control", expires=60.0, retry=False)
    except OperationalError as error:
        log.warning("No refresh of %s was asked for: the broker is away (%s).", server_id, type(error).__name__)


@shared_task(name="mcp.tidy")
def tidy() -> None:
    call_statistics.roll_up()
    health.remove_old_reports()
    sessions.remove_expired()
