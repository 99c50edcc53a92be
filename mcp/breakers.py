"""Breakers: a service that fails is left alone for a while, by every process, and tried by one call at a time."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from common import clock
from common.errors import Conflict, GatehouseError
from common.ids import uuid7
from mcp.choices import BreakerState
from mcp.models import Breaker, Server
from nhi.actors import SYSTEM, Actor
from nhi.inputs import Problems
from nhi.record import events

#: What a probe may take before another one is let through.
PROBE_SECONDS = 40.0


class BreakerOpen(GatehouseError):
    """The service failed too often; it is tried again later."""

    code = "breaker_open"

    def __init__(self, breaker: Breaker, *, retry_after: int) -> None:
        failed = f"{breaker.service_name} failed {breaker.failure_count} times in a row"
        super().__init__(f"{failed}; the next try is in {retry_after} s.", details={"retry_after": retry_after})


class NotOpen(Conflict):
    code = "breaker_closed"


def of_server(server: Server) -> Breaker:
    return Breaker.objects.get_or_create(server=server, defaults={"service_name": server.name})[0]


def claim(breaker_id: UUID, call_id: UUID, *, seconds: float = PROBE_SECONDS) -> bool:
    """Be the one call that tries whether the service is back. In the transaction that lets the call through."""
    now = clock.database_now()
    breaker = Breaker.objects.get(pk=breaker_id)
    waited = Q(state=BreakerState.OPEN, last_state_change__lte=now - timedelta(seconds=breaker.recovery_timeout))
    given_up = Q(state=BreakerState.HALF_OPEN) & (Q(probe_until=None) | Q(probe_until__lte=now))
    claimed = Breaker.objects.filter(waited | given_up, pk=breaker_id).update(
        state=BreakerState.HALF_OPEN, probe_id=call_id, probe_until=now + timedelta(seconds=seconds),
        last_state_change=Now(),
    )  # fmt: skip
    return claimed == 1


def release(call_id: UUID) -> None:
    """The probe was not made after all: the next call may try."""
    Breaker.objects.filter(state=BreakerState.HALF_OPEN, probe_id=call_id).update(probe_until=Now())


def fault(breaker: Breaker, *, call_id: UUID | None, why: str) -> Breaker:
    """Count one fault of the service; in the caller's transaction, with the row locked."""
    breaker = Breaker.objects.select_for_update().get(pk=breaker.pk)
    breaker.last_failure_time = clock.database_now()
    failed_probe = breaker.state == BreakerState.HALF_OPEN and breaker.probe_id == call_id
    if breaker.state == BreakerState.CLOSED or failed_probe:
        breaker.failure_count += 1
    if failed_probe or (breaker.state == BreakerState.CLOSED and breaker.failure_count >= breaker.failure_threshold):
        _move(breaker, BreakerState.OPEN)
        _tell("breaker.opened", breaker, SYSTEM, why)
    breaker.save()
    return breaker


def success(breaker: Breaker, *, call_id: UUID | None) -> Breaker:
    """The service answered: faults are forgotten, and a probe closes the breaker."""
    breaker = Breaker.objects.select_for_update().get(pk=breaker.pk)
    if breaker.state == BreakerState.CLOSED:
        breaker.failure_count = 0
    elif breaker.state == BreakerState.HALF_OPEN and breaker.probe_id == call_id:
        breaker.failure_count = 0
        _move(breaker, BreakerState.CLOSED)
        _tell("breaker.closed", breaker, SYSTEM, "The probe went well.")
    breaker.save()
    return breaker


def reset(*, actor: Actor, breaker: Breaker, reason: str) -> Breaker:
    """Let calls through at once; the next faults count from nought."""
    actor.require("mcp.reset_breaker", "reset breakers")
    problems = Problems()
    problems.reason(reason)
    problems.settle()
    with transaction.atomic():
        breaker = Breaker.objects.select_for_update().get(pk=breaker.pk)
        if breaker.state == BreakerState.CLOSED and not breaker.failure_count:
            raise NotOpen(f"The breaker of {breaker.service_name} is closed and has counted no fault.")
        before = {"state": breaker.state, "failure_count": breaker.failure_count}
        if breaker.state != BreakerState.CLOSED:
            _move(breaker, BreakerState.CLOSED)
        breaker.failure_count = 0
        breaker.save()
        after = {"state": breaker.state, "failure_count": 0}
        events.write("breaker.reset", actor=actor, subject=breaker, before=before, after=after, reason=reason)
    return breaker


@dataclass(frozen=True)
class Passage:
    """A call that a breaker let through; what became of it is said once."""

    breaker: Breaker
    call_id: UUID

    def failed(self, why: str) -> None:
        with transaction.atomic():
            fault(self.breaker, call_id=self.call_id, why=why)

    def went_well(self) -> None:
        with transaction.atomic():
            success(self.breaker, call_id=self.call_id)

    def given_up(self) -> None:
        release(self.call_id)


def enter(
    service_name: str, *, threshold: int = 3, recovery_timeout: int = 60, seconds: float = PROBE_SECONDS
) -> Passage:
    """Let a call of an outside service through that may take so long as a probe, or raise `BreakerOpen`."""
    wanted = {"failure_threshold": threshold, "recovery_timeout": recovery_timeout}
    breaker, _ = Breaker.objects.get_or_create(service_name=service_name, defaults=wanted)
    passage = Passage(breaker, uuid7())
    if breaker.state != BreakerState.CLOSED and not claim(breaker.pk, passage.call_id, seconds=seconds):
        raise BreakerOpen(breaker, retry_after=_left(breaker))
    return passage


@contextmanager
def guarding(service_name: str, *, threshold: int = 3, recovery_timeout: int = 60) -> Iterator[None]:
    """The general form, for an outside service that Gatehouse itself calls: a fault is whatever is raised inside."""
    passage = enter(service_name, threshold=threshold, recovery_timeout=recovery_timeout)
    try:
        yield
    except Exception as error:
        passage.failed(type(error).__name__)
        raise
    passage.went_well()


def _left(breaker: Breaker) -> int:
    """Whole seconds until another call may try."""
    rests = breaker.last_state_change + timedelta(seconds=breaker.recovery_timeout)
    until = breaker.probe_until if breaker.state == BreakerState.HALF_OPEN else rests
    left = (until - clock.database_now()).total_seconds() if until else 0.0
    return max(math.ceil(left), 1)


def _move(breaker: Breaker, to: BreakerState) -> None:
    breaker.state = to
    breaker.last_state_change = clock.database_now()
    breaker.probe_id = breaker.probe_until = None


def _tell(event: str, breaker: Breaker, actor: Actor, why: str) -> None:
    details = {"state": breaker.state, "failure_count": breaker.failure_count}
    events.write(event, actor=actor, subject=breaker, after=details, reason=why)
