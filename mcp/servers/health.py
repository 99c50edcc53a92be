"""Checks servers and refreshes their tools, on demand and periodically."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from time import monotonic
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from common.executors import background_loop
from common.redaction.redactor import Redactor
from mcp.choices import Connection, FaultKind, HealthStatus
from mcp.client import transports
from mcp.client.transports import Handshake
from mcp.limits import breakers
from mcp.models import HealthReport, Server
from mcp.protocol.upstream_errors import UpstreamFailure, UpstreamFault
from mcp.servers import status_changes
from mcp.servers.targets import resolve_server
from mcp.tools import catalogue
from mcp.tools.catalogue import RefreshReport
from nhi.actors import SYSTEM, Actor
from nhi.audit import events, sanitization

log = logging.getLogger(__name__)

#: A slower handshake makes the server's health degraded.
SLOW_MS = 2000.0
#: With a tick every ten seconds, each server is checked at least every thirty seconds.
CHECK_INTERVAL = timedelta(seconds=20)
REPORT_LIFETIME = timedelta(days=30)
#: Capabilities of a server's handshake that are stored. The protocol defines about ten.
MAX_CAPABILITIES = 50
CONNECT_SECONDS, REFRESH_SECONDS = 10.0, 30.0
#: Limits of one periodic run: servers checked concurrently, and seconds. The task's own limit is ten seconds.
MAX_SERVERS_PER_SWEEP, SWEEP_SECONDS = 50, 4.0


class ServerCheck:
    """One check of a server: the handshake and, if requested, the list of tools, or the failure."""

    def __init__(self, server: Server, *, asks_for_tools: bool = False) -> None:
        self.server = server
        self.resolved = resolve_server(server)
        self.asks_for_tools = asks_for_tools
        self.redactor = Redactor(secret_values=frozenset(self.resolved.secret_values))
        self.handshake: Handshake | None = None
        self.tools: list[dict[str, Any]] | None = None
        self.error = ""
        #: The kind of a server fault; None if nothing failed or the failure is not the server's.
        self.fault_kind: FaultKind | None = None
        self.steps: tuple[str, ...] = ()
        self.seconds = 0.0

    async def run(self, timeout: float) -> None:
        """Run the check within `timeout` seconds. Failures are recorded on this object and never raised."""
        started_at = monotonic()
        try:
            async with asyncio.timeout(timeout):
                await self._negotiate(timeout)
        except UpstreamFailure as failure:
            self.fault_kind = _fault_kind(failure)
            self._record_failure(str(getattr(failure, "detail", failure)), failure.steps)
        except TimeoutError:
            self.fault_kind = FaultKind.ANSWER
            self._record_failure(f"No answer within {timeout:g} s.", ())
        except Exception as error:
            log.exception("a server could not be met", extra={"server": self.server.name})
            self._record_failure(f"Something went wrong here: {type(error).__name__}.", ())
        self.seconds = monotonic() - started_at

    async def _negotiate(self, timeout: float) -> None:
        handshake = await transports.handshake(self.resolved.target, timeout=min(timeout, CONNECT_SECONDS))
        self.steps = tuple(self.redactor.redact_text(step) for step in handshake.steps)
        self.handshake = replace(
            handshake,
            server_info=self.redactor.redact_value(handshake.server_info),
            capabilities={
                self.redactor.redact_text(name)[:100]: None
                for name in sorted(handshake.capabilities)[:MAX_CAPABILITIES]
            },
            instructions=self.redactor.redact_text(handshake.instructions),
        )
        if self.asks_for_tools:
            target = replace(self.resolved.target, era=handshake.era, protocol_version=handshake.protocol_version)
            tools = await transports.list_tools(target, timeout=timeout)
            self.tools = catalogue.remove_secrets(self.resolved.secret_values, tools)

    def _record_failure(self, message: str, steps: tuple[str, ...]) -> None:
        self.error = self.redactor.redact_text(message)
        redacted_steps = tuple(self.redactor.redact_text(step) for step in steps)
        self.steps = redacted_steps or (*self.steps, *([f"tools/list: {self.error}"] if self.handshake else []))


def check(*, server: Server, actor: Actor = SYSTEM, timeout: float = CONNECT_SECONDS) -> HealthReport:
    """Run a handshake, save the report and update the server's status."""
    if actor is not SYSTEM:
        actor.require("mcp.operate_server", "test servers")
    server_check = ServerCheck(server)
    _run_checks([server_check], timeout)
    return _save_report(server_check, actor)


def refresh(*, server: Server, actor: Actor = SYSTEM, timeout: float = REFRESH_SECONDS) -> RefreshReport | None:
    """Request the server's tools and record them. Returns None if the server does not answer; its status shows it."""
    if actor is not SYSTEM:
        actor.require("mcp.operate_server", "refresh the tools of servers")
    server_check = ServerCheck(server, asks_for_tools=True)
    _run_checks([server_check], timeout)
    _save_report(server_check, actor)
    return _record_tools(server_check, actor)


def remove_old_reports() -> int:
    return HealthReport.objects.filter(timestamp__lt=timezone.now() - REPORT_LIFETIME).delete()[0]


def _run_checks(checks: Sequence[ServerCheck], timeout: float) -> None:
    """Run checks concurrently, so that a hanging server delays no other. No database connection is held meanwhile."""
    background_loop.run(_run_concurrently(checks, timeout), timeout=timeout + 1)


async def _run_concurrently(checks: Sequence[ServerCheck], timeout: float) -> None:
    await asyncio.gather(*(server_check.run(timeout) for server_check in checks))


def _save_report(server_check: ServerCheck, actor: Actor) -> HealthReport:
    with transaction.atomic():
        report = _create_report(server_check, actor)
        _update_server(server_check)
        if actor is not SYSTEM and not server_check.asks_for_tools:
            events.write("server.tested", actor=actor, subject=server_check.server, details={"status": report.status})
    return report


def _record_tools(server_check: ServerCheck, actor: Actor) -> RefreshReport | None:
    if not server_check.asks_for_tools:
        return None
    # Failed attempts count too: a periodic refresh starts with the servers whose last attempt is oldest.
    Server.objects.filter(pk=server_check.server.pk).update(refresh_tried_at=timezone.now())
    if server_check.tools is None:
        return None
    Server.objects.filter(pk=server_check.server.pk).update(initialization_time=round(server_check.seconds, 3))
    return catalogue.record_listing(actor=actor, server=server_check.server, listed_tools=server_check.tools)


def _fault_kind(failure: UpstreamFailure) -> FaultKind | None:
    """As for a call: a failure on the Gatehouse side is not a fault of the server."""
    if isinstance(failure, UpstreamFault) and failure.is_own:
        return None
    is_connection_fault = isinstance(failure, UpstreamFault) and failure.is_connection_fault
    return FaultKind.CONNECTION if is_connection_fault else FaultKind.ANSWER


def _create_report(server_check: ServerCheck, actor: Actor) -> HealthReport:
    handshake = server_check.handshake
    return HealthReport.objects.create(
        server=server_check.server,
        status=_health_status(server_check),
        handshake_success=handshake is not None,
        handshake_latency_ms=round(handshake.latency_ms, 3) if handshake else None,
        error_message=sanitization.single_line(server_check.error, 500),
        server_capabilities=sorted(handshake.capabilities) if handshake else [],
        protocol_version=handshake.protocol_version if handshake else "",
        asked_by="" if actor is SYSTEM else actor.name,
    )


def _health_status(server_check: ServerCheck) -> HealthStatus:
    if server_check.handshake is None or server_check.error:
        return HealthStatus.UNHEALTHY
    return HealthStatus.DEGRADED if server_check.handshake.latency_ms > SLOW_MS else HealthStatus.HEALTHY


def _update_server(server_check: ServerCheck) -> None:
    now = timezone.now()
    fields: dict[str, object] = {
        "last_checked_at": now,
        "last_handshake": [sanitization.single_line(step, 500) for step in server_check.steps],
    }
    handshake = server_check.handshake
    if handshake is not None:
        fields |= {
            "era": handshake.era,
            "protocol_version": handshake.protocol_version,
            "server_info": sanitization.make_storable(handshake.server_info),
            "server_capabilities": sorted(handshake.capabilities),
            "instructions": sanitization.make_storable(handshake.instructions)[:20_000],
            "handshake_latency_ms": round(handshake.latency_ms, 3),
        }
    if handshake is not None and not server_check.error:
        fields |= {"last_health_check": now, "last_error": ""}
    # The result does not apply to a server that changed meanwhile.
    if not Server.objects.filter(pk=server_check.server.pk, revision=server_check.server.revision).update(**fields):
        return
    if handshake is not None and not server_check.error:
        status_changes.record_success(server_check.server.pk)
        breakers.record_check_success(server_check.server.pk)
    else:
        if server_check.fault_kind is not None:
            breakers.record_server_fault(
                server_check.server.pk,
                breakers.ServerFault(server_check.fault_kind, sanitization.single_line(server_check.error, 500)),
            )
        go_offline = Server.objects.filter(pk=server_check.server.pk, status=Connection.DEGRADED).exists()
        status_changes.record_fault(server_check.server.pk, server_check.error, go_offline=go_offline)


def check_due_servers() -> int:
    """Check the servers whose last check is older than `CHECK_INTERVAL`."""
    return _run_due_checks(_find_due_servers("last_checked_at", CHECK_INTERVAL), asks_for_tools=False)


def refresh_due_servers() -> int:
    """Refresh servers with outdated tool lists. Offline servers wait until `check_due_servers` reaches them again."""
    interval = timedelta(seconds=settings.MCP_REFRESH_SECONDS)
    servers = _find_due_servers("refresh_tried_at", interval).exclude(status=Connection.OFFLINE)
    return _run_due_checks(servers, asks_for_tools=True)


def _find_due_servers(column: str, interval: timedelta) -> QuerySet[Server]:
    stale = Q(**{column: None}) | Q(**{f"{column}__lte": timezone.now() - interval})
    return Server.objects.enabled().filter(stale).order_by(F(column).asc(nulls_first=True))


def _run_due_checks(servers: QuerySet[Server], *, asks_for_tools: bool) -> int:
    checks = []
    for server in servers[:MAX_SERVERS_PER_SWEEP]:
        with _isolate_errors(server):
            checks.append(ServerCheck(server, asks_for_tools=asks_for_tools))
    _run_checks(checks, SWEEP_SECONDS)
    for server_check in checks:
        with _isolate_errors(server_check.server):
            _save_report(server_check, SYSTEM)
            _record_tools(server_check, SYSTEM)
    return len(checks)


@contextmanager
def _isolate_errors(server: Server) -> Iterator[None]:
    """Log an error of one server, so that the other servers are still checked. Database errors are raised."""
    try:
        yield
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("a server could not be taken down", extra={"server": server.name})
