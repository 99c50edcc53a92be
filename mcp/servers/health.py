"""Whether servers answer: handshakes on demand and by the clock, with what each of them found."""

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

from common.redaction.redactor import Redactor
from common.threads import background_loop
from mcp.choices import Connection, FaultKind, HealthStatus
from mcp.client import transports
from mcp.client.transports import Handshake
from mcp.limits import breakers
from mcp.models import HealthReport, Server
from mcp.protocol.errors import UpstreamFault, UpstreamTrouble
from mcp.servers import connection_status
from mcp.servers.targets import reach
from mcp.tools import catalogue
from mcp.tools.catalogue import Report
from nhi.actors import SYSTEM, Actor
from nhi.audit import events, sanitization

log = logging.getLogger(__name__)

#: A handshake that takes longer is a sign of trouble.
SLOW_MS = 2000.0
#: With a tick every ten seconds, nobody is unmet for longer than thirty.
CHECK_EVERY = timedelta(seconds=20)
KEEP = timedelta(days=30)
#: Of the capabilities that a server says it has; the protocol knows about ten.
MOST_NAMED = 50
CONNECT_SECONDS, REFRESH_SECONDS = 10.0, 30.0
#: How many servers are met side by side by the clock, and for how long: a task may take ten seconds.
AT_ONCE, SWEEP_SECONDS = 50, 4.0


class Met:
    """One meeting with a server: what it said of itself and of its tools, or why it did not."""

    def __init__(self, server: Server, *, asks_for_tools: bool = False) -> None:
        self.server = server
        self.known = reach(server)
        self.asks_for_tools = asks_for_tools
        self.redactor = Redactor(secret_values=frozenset(self.known.known_values))
        self.handshake: Handshake | None = None
        self.tools: list[dict[str, Any]] | None = None
        self.error = ""
        #: What the fault says about the server; None when it says nothing, or there was none.
        self.fault_kind: FaultKind | None = None
        self.steps: tuple[str, ...] = ()
        self.seconds = 0.0

    async def take_place(self, timeout: float) -> None:
        """Never longer than `timeout`, and never an exception: what went wrong is part of what was found."""
        began = monotonic()
        try:
            async with asyncio.timeout(timeout):
                await self._talk(timeout)
        except UpstreamTrouble as trouble:
            self.fault_kind = _fault_kind(trouble)
            self._failed(str(getattr(trouble, "detail", trouble)), trouble.steps)
        except TimeoutError:
            self.fault_kind = FaultKind.ANSWER
            self._failed(f"No answer within {timeout:g} s.", ())
        except Exception as error:
            log.exception("a server could not be met", extra={"server": self.server.name})
            self._failed(f"Something went wrong here: {type(error).__name__}.", ())
        self.seconds = monotonic() - began

    async def _talk(self, timeout: float) -> None:
        shaken = await transports.handshake(self.known.target, timeout=min(timeout, CONNECT_SECONDS))
        self.steps = tuple(self.redactor.redact_text(step) for step in shaken.steps)
        self.handshake = replace(
            shaken,
            server_info=self.redactor.redact_value(shaken.server_info),
            capabilities={
                self.redactor.redact_text(name)[:100]: None for name in sorted(shaken.capabilities)[:MOST_NAMED]
            },
            instructions=self.redactor.redact_text(shaken.instructions),
        )
        if self.asks_for_tools:
            now = replace(self.known.target, era=shaken.era, protocol_version=shaken.protocol_version)
            listed = await transports.list_tools(now, timeout=timeout)
            self.tools = catalogue.without(self.known.known_values, listed)

    def _failed(self, why: str, steps: tuple[str, ...]) -> None:
        self.error = self.redactor.redact_text(why)
        told = tuple(self.redactor.redact_text(step) for step in steps)
        self.steps = told or (*self.steps, *([f"tools/list: {self.error}"] if self.handshake else []))


def check(*, server: Server, actor: Actor = SYSTEM, timeout: float = CONNECT_SECONDS) -> HealthReport:
    """Shake hands, take down how it went, and move the server's status by it."""
    if actor is not SYSTEM:
        actor.require("mcp.operate_server", "test servers")
    met = Met(server)
    _meet([met], timeout)
    return _take_down(met, actor)


def refresh(*, server: Server, actor: Actor = SYSTEM, timeout: float = REFRESH_SECONDS) -> Report | None:
    """Ask for its tools and take them down; None when it does not answer, which its status then says."""
    if actor is not SYSTEM:
        actor.require("mcp.operate_server", "refresh the tools of servers")
    met = Met(server, asks_for_tools=True)
    _meet([met], timeout)
    _take_down(met, actor)
    return _register(met, actor)


def forget() -> int:
    return HealthReport.objects.filter(timestamp__lt=timezone.now() - KEEP).delete()[0]


def _meet(meetings: Sequence[Met], timeout: float) -> None:
    """Side by side: a few that hang keep no others waiting, and nobody holds a connection to the database meanwhile."""
    background_loop.run(_all(meetings, timeout), timeout=timeout + 1)


async def _all(meetings: Sequence[Met], timeout: float) -> None:
    await asyncio.gather(*(met.take_place(timeout) for met in meetings))


def _take_down(met: Met, actor: Actor) -> HealthReport:
    with transaction.atomic():
        report = _report(met, actor)
        _note(met)
        if actor is not SYSTEM and not met.asks_for_tools:
            events.write("server.tested", actor=actor, subject=met.server, details={"status": report.status})
    return report


def _register(met: Met, actor: Actor) -> Report | None:
    if not met.asks_for_tools:
        return None
    # Tried, also when nothing came: by the clock, those come first who were not asked for longest.
    Server.objects.filter(pk=met.server.pk).update(refresh_tried_at=timezone.now())
    if met.tools is None:
        return None
    Server.objects.filter(pk=met.server.pk).update(initialization_time=round(met.seconds, 3))
    return catalogue.take_down(actor=actor, server=met.server, listed=met.tools)


def _fault_kind(trouble: UpstreamTrouble) -> FaultKind | None:
    """As for a call: what goes wrong on the Gatehouse side is no fault of the server."""
    if isinstance(trouble, UpstreamFault) and trouble.is_own:
        return None
    of_connection = isinstance(trouble, UpstreamFault) and trouble.of_connection
    return FaultKind.CONNECTION if of_connection else FaultKind.ANSWER


def _report(met: Met, actor: Actor) -> HealthReport:
    shaken = met.handshake
    return HealthReport.objects.create(
        server=met.server,
        status=_status(met),
        handshake_success=shaken is not None,
        handshake_latency_ms=round(shaken.latency_ms, 3) if shaken else None,
        error_message=sanitization.single_line(met.error, 500),
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
    said: dict[str, object] = {
        "last_checked_at": now,
        "last_handshake": [sanitization.single_line(step, 500) for step in met.steps],
    }
    shaken = met.handshake
    if shaken is not None:
        said |= {
            "era": shaken.era,
            "protocol_version": shaken.protocol_version,
            "server_info": sanitization.make_storable(shaken.server_info),
            "server_capabilities": sorted(shaken.capabilities),
            "instructions": sanitization.make_storable(shaken.instructions)[:20_000],
            "handshake_latency_ms": round(shaken.latency_ms, 3),
        }
    if shaken is not None and not met.error:
        said |= {"last_health_check": now, "last_error": ""}
    # Of a server that was changed meanwhile this says nothing.
    if not Server.objects.filter(pk=met.server.pk, revision=met.server.revision).update(**said):
        return
    if shaken is not None and not met.error:
        connection_status.succeeded(met.server.pk)
        breakers.check_passed(met.server.pk)
    else:
        if met.fault_kind is not None:
            breakers.fault_of_server(
                met.server.pk, breakers.Fault(met.fault_kind, sanitization.single_line(met.error, 500))
            )
        now_offline = Server.objects.filter(pk=met.server.pk, status=Connection.DEGRADED).exists()
        connection_status.faulted(met.server.pk, met.error, gone=now_offline)


def sweep() -> int:
    """By the clock: meet those whose time has come."""
    return _by_the_clock(_stale("last_checked_at", CHECK_EVERY), asks_for_tools=False)


def refresh_due() -> int:
    """By the clock: ask for the tools of those whose list has grown old. One that is away is met by `sweep` first."""
    every = timedelta(seconds=settings.MCP_REFRESH_SECONDS)
    there = _stale("refresh_tried_at", every).exclude(status=Connection.OFFLINE)
    return _by_the_clock(there, asks_for_tools=True)


def _stale(column: str, every: timedelta) -> QuerySet[Server]:
    stale = Q(**{column: None}) | Q(**{f"{column}__lte": timezone.now() - every})
    return Server.objects.enabled().filter(stale).order_by(F(column).asc(nulls_first=True))


def _by_the_clock(servers: QuerySet[Server], *, asks_for_tools: bool) -> int:
    meetings = []
    for server in servers[:AT_ONCE]:
        with _by_itself(server):
            meetings.append(Met(server, asks_for_tools=asks_for_tools))
    _meet(meetings, SWEEP_SECONDS)
    for met in meetings:
        with _by_itself(met.server):
            _take_down(met, SYSTEM)
            _register(met, SYSTEM)
    return len(meetings)


@contextmanager
def _by_itself(server: Server) -> Iterator[None]:
    """What is wrong with one server keeps no other from being met."""
    try:
        yield
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("a server could not be taken down", extra={"server": server.name})
