"""Changes the connection status of servers; no other module writes it."""

from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from mcp.choices import CONNECTION_MOVES, Connection
from mcp.models import Server
from nhi.actors import SYSTEM, Actor
from nhi.audit import events, sanitization

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
