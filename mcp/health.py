"""Whether servers answer: handshakes on demand and by the clock, with what each of them found."""

import logging
from collections.abc import Callable
from datetime import timedelta
from time import monotonic

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import F, Q
from django.utils import timezone

from common.redaction.redactor import Redactor
from mcp import catalogue, connections, upstream
from mcp.catalogue import Report
from mcp.choices import Connection, HealthStatus
from mcp.faults import UpstreamTrouble
from mcp.models import HealthReport, Server
from mcp.targets import Reach, reach
from mcp.threads import loop
from mcp.upstream import Handshake
from nhi.actors import SYSTEM, Actor
from nhi.record import events, lines

log = logging.getLogger(__name__)

#: A handshake that takes longer is a sign of trouble.
SLOW_MS = 2000.0
CHECK_EVERY = timedelta(seconds=30)
KEEP = timedelta(days=30)
CONNECT_SECONDS, REFRESH_SECONDS, SWEEP_SECONDS = 10.0, 30.0, 8.0


class Met:
    """One meeting with a server: what it said of itself, or why it did not."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.handshake: Handshake | None = None
        self.error = ""
        self.steps: tuple[str, ...] = ()
        self.seconds = 0.0

    def say_hello(self, known: Reach, *, timeout: float) -> None:
        redactor = Redactor(known=frozenset(known.known_values))
        began = monotonic()
        try:
            self.handshake = loop.run(upstream.handshake(known.target, timeout=timeout), timeout=timeout + 1)
            self.steps = tuple(redactor.text(step) for step in self.handshake.steps)
        except UpstreamTrouble as trouble:
            self.error = redactor.text(str(getattr(trouble, "detail", trouble)))
            self.steps = tuple(redactor.text(step) for step in trouble.steps)
        except TimeoutError:
            self.error = f"No answer within {timeout:g} s."
        self.seconds = monotonic() - began


def check(*, server: Server, actor: Actor = SYSTEM, timeout: float = CONNECT_SECONDS) -> HealthReport:
    """Shake hands, take down how it went, and move the server's status by it."""
    if actor is not SYSTEM:
        actor.require("mcp.operate_server", "test servers")
    met = _meet(server, timeout)
    with transaction.atomic():
        report = _report(met, actor)
        _note(met)
        if actor is not SYSTEM:
            events.write("server.tested", actor=actor, subject=server, details={"status": report.status})
    return report


def refresh(*, server: Server, actor: Actor = SYSTEM, timeout: float = REFRESH_SECONDS) -> Report | None:
    """Ask for its tools and take them down; None when it does not answer, which its status then says."""
    if actor is not SYSTEM:
        actor.require("mcp.operate_server", "refresh the tools of servers")
    known, began = reach(server), monotonic()
    met = _meet(server, min(timeout, CONNECT_SECONDS), known)
    listed = _list(met, known, max(1.0, timeout - met.seconds)) if met.handshake else None
    with transaction.atomic():
        _report(met, actor)
        _note(met)
    if listed is None:
        return None
    Server.objects.filter(pk=server.pk).update(initialization_time=round(monotonic() - began, 3))
    return catalogue.take_down(actor=actor, server=server, listed=listed)


def forget() -> int:
    return HealthReport.objects.filter(timestamp__lt=timezone.now() - KEEP).delete()[0]


def _meet(server: Server, timeout: float, known: Reach | None = None) -> Met:
    met = Met(server)
    met.say_hello(known or reach(server), timeout=timeout)
    return met


def _list(met: Met, known: Reach, timeout: float) -> list[dict[str, object]] | None:
    redactor = Redactor(known=frozenset(known.known_values))
    try:
        return loop.run(upstream.list_tools(known.target, timeout=timeout), timeout=timeout + 1)
    except UpstreamTrouble as trouble:
        met.error = redactor.text(str(getattr(trouble, "detail", trouble)))
    except TimeoutError:
        met.error = f"No list of tools within {timeout:g} s."
    met.steps = (*met.steps, f"tools/list: {met.error}")
    return None


def _report(met: Met, actor: Actor) -> HealthReport:
    shaken = met.handshake
    return HealthReport.objects.create(
        server=met.server,
        status=_status(met),
        handshake_success=shaken is not None,
        handshake_latency_ms=round(shaken.latency_ms, 3) if shaken else None,
        error_message=lines.line(met.error, 500),
        server_capabilities=sorted(shaken.capabilities) if shaken else [],
        protocol_version=shaken.protocol_version if shaken else "",
        asked_by="" if actor is SYSTEM else actor.name,
    )


def _status(met: Met) -> HealthStatus:
    if met.handshake is None or met.error:
        return HealthStatus.UNHEALTHY
    return HealthStatus.DEGRADED if met.handshake.latency_ms > SLOW_MS else HealthStatus.HEALTHY


def _note(met: Met) -> None:
    now = timezone.now()
    said: dict[str, object] = {"last_checked_at": now, "last_handshake": [lines.line(step, 500) for step in met.steps]}
    shaken = met.handshake
    if shaken is not None:
        said |= {
            "era": shaken.era,
            "protocol_version": shaken.protocol_version,
            "server_info": lines.storable(shaken.server_info),
            "server_capabilities": sorted(shaken.capabilities),
            "instructions": lines.storable(shaken.instructions)[:20_000],
            "handshake_latency_ms": round(shaken.latency_ms, 3),
        }
    if shaken is not None and not met.error:
        said |= {"last_health_check": now, "last_error": ""}
    # Of a server that was changed meanwhile this says nothing.
    if not Server.objects.filter(pk=met.server.pk, revision=met.server.revision).update(**said):
        return
    if shaken is not None and not met.error:
        connections.succeeded(met.server.pk)
    else:
        now_offline = Server.objects.filter(pk=met.server.pk, status=Connection.DEGRADED).exists()
        connections.faulted(met.server.pk, met.error, gone=now_offline)


def sweep() -> int:
    """By the clock: meet those whose time has come, one after the other and never longer than a task may take."""
    return _each("last_checked_at", CHECK_EVERY, lambda server: check(server=server, timeout=3.0))


def refresh_due() -> int:
    """By the clock: ask for the tools of those whose list has grown old."""
    every = timedelta(seconds=settings.MCP_REFRESH_SECONDS)
    return _each("last_refreshed_at", every, lambda server: refresh(server=server, timeout=4.0))


def _each(column: str, every: timedelta, work: Callable[[Server], object]) -> int:
    began, done = monotonic(), 0
    stale = Q(**{column: None}) | Q(**{f"{column}__lte": timezone.now() - every})
    oldest_first = F(column).asc(nulls_first=True)
    for server in list(Server.objects.enabled().filter(stale).order_by(oldest_first)[:50]):
        if monotonic() - began > SWEEP_SECONDS:
            break
        try:
            work(server)
            done += 1
        except DatabaseError:
            raise
        except Exception:
            log.exception("a server could not be met", extra={"server": server.name})
    return done
