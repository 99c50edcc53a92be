"""Changes the connection status of servers; no other module writes it."""

import asyncio
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import UUID

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F
from django.db.models.functions import Now

from common.errors import RecordUnavailable
from common.executors import run_in_thread
from mcp.choices import CONNECTION_MOVES, BreakerState, Connection
from mcp.models import Breaker, Server
from nhi.actors import SYSTEM, Actor
from nhi.audit import events, sanitization

log = logging.getLogger(__name__)

#: How long a call waits for its update: another process may hold the row's lock.
UPDATE_TIMEOUT_SECONDS = 0.5
#: Faults in a row before a ready server counts as degraded.
DEGRADED_AFTER = 2


def record_success(server_id: UUID) -> None:
    """Reset the count of faults and set the status of an enabled server to ready."""
    Server.objects.filter(pk=server_id, faults__gt=0).update(faults=0)
    server = Server.objects.get(pk=server_id)
    if server.enabled and server.status != Connection.READY:
        move_status(server, Connection.READY, "It answers.")


def record_fault(server_id: UUID, message: str, *, go_offline: bool = False) -> None:
    """Count a fault and lower the status if needed.

    With `go_offline` the server becomes offline: its breaker stops all calls, or a degraded server failed a check.
    """
    Server.objects.filter(pk=server_id).update(
        faults=F("faults") + 1, last_error=sanitization.single_line(message, 500)
    )
    server = Server.objects.get(pk=server_id)
    if go_offline:
        move_status(server, Connection.OFFLINE, message)
    elif server.status == Connection.READY and server.faults >= DEGRADED_AFTER:
        move_status(server, Connection.DEGRADED, f"{server.faults} faults in a row: {message}")


def move_status(server: Server, new_status: Connection, reason: str, *, actor: Actor = SYSTEM) -> bool:
    """Compare and swap. Returns False if the transition is not allowed or another process changed the status first."""
    old_status = Connection(server.status)
    if new_status not in CONNECTION_MOVES[old_status]:
        return False
    status_reason = sanitization.single_line(reason, 500)
    with transaction.atomic():
        updated = Server.objects.filter(pk=server.pk, status=old_status).update(
            status=new_status, status_since=Now(), status_reason=status_reason
        )
        if updated:
            events.write(
                f"server.{new_status.lower()}",
                actor=actor,
                subject=server,
                before={"status": old_status},
                after={"status": new_status},
                reason=status_reason,
            )
    return bool(updated)


class _UpdateThreads:
    """A small thread pool for updates after calls, so that a locked server row blocks no other work of the process."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Create a new pool: a forked process inherits no threads."""
        self.executor = ThreadPoolExecutor(2, "tellers")


_update_threads = _UpdateThreads()
os.register_at_fork(after_in_child=_update_threads.restart)


async def update_after_call(server_id: UUID, verdict: str, message: str) -> None:
    """Update the status by what a call says about the service. Separate from the call's row, because a tool refresh
    may lock the server's row."""
    update = asyncio.ensure_future(
        run_in_thread(partial(_update_or_warn, server_id, verdict, message), executor=_update_threads.executor)
    )
    await asyncio.wait({update}, timeout=UPDATE_TIMEOUT_SECONDS)


def _update_or_warn(server_id: UUID, verdict: str, message: str) -> None:
    try:
        if verdict == "success":
            record_success(server_id)
        elif verdict == "fault":
            is_open = Breaker.objects.for_all().filter(server_id=server_id, state=BreakerState.OPEN).exists()
            record_fault(server_id, message, go_offline=is_open)
    except (OperationalError, InterfaceError, RecordUnavailable) as error:
        # The next call updates the status again, and this call has its row.
        log.warning("a server's status could not be moved", extra={"why": str(error)})
