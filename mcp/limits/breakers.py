"""Circuit breakers of servers and other services, shared by all processes. One call at a time probes a service."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from common.db import clock
from common.errors import Conflict, GatehouseError
from common.ids import uuid7
from mcp.choices import BreakerState, FaultKind
from mcp.models import Breaker, Server
from nhi.actors import SYSTEM, Actor
from nhi.audit import events
from nhi.validation import Problems

#: Time after which an unfinished probe no longer blocks another one.
PROBE_SECONDS = 40.0
#: The source of faults of health checks. Every other source is an identity.
CHECK_SOURCE = "check"
#: After a day without a call of its identity, an open breaker of that identity is closed and removed.
OPEN_LIFETIME = timedelta(days=1)
#: After an hour without another fault, the count of an identity's consecutive faults is removed.
COUNTING_LIFETIME = timedelta(hours=1)
MAX_REMOVED = 500


class BreakerOpen(GatehouseError):
    """The service failed too often; it is tried again later."""

    code = "breaker_open"

    def __init__(self, breaker: Breaker, *, retry_after: int) -> None:
        description = f"{breaker.service_name} failed {breaker.failure_count} times in a row"
        super().__init__(f"{description}; the next try is in {retry_after} s.", details={"retry_after": retry_after})


class BreakerNotOpen(Conflict):
    """The breaker cannot be reset, because it is closed and has counted no fault."""

    code = "breaker_closed"


@dataclass(frozen=True)
class ServerFault:
    """One fault of a server and its source."""

    kind: FaultKind
    reason: str
    #: The identity whose call failed; None for the health check.
    agent_id: UUID | None = None
    agent_name: str = ""
    #: The call that failed. It may have been the probe.
    call_id: UUID | None = None

    @property
    def source(self) -> str:
        return str(self.agent_id) if self.agent_id else CHECK_SOURCE


def ensure_for_server(server: Server) -> Breaker:
    """Return the breaker for all callers of a server; create it if needed."""
    return Breaker.objects.get_or_create(server=server, agent_id=None, defaults={"service_name": server.name})[0]


def claim_probe(breaker_id: UUID, call_id: UUID, *, seconds: float = PROBE_SECONDS) -> bool:
    """Claim the probe for this call, in the transaction that allows the call. Return False if the claim fails."""
    now = clock.database_now()
    breaker = Breaker.objects.get(pk=breaker_id)
    recovery_elapsed = Q(
        state=BreakerState.OPEN, last_state_change__lte=now - timedelta(seconds=breaker.recovery_timeout)
    )
    probe_expired = Q(state=BreakerState.HALF_OPEN) & (Q(probe_until=None) | Q(probe_until__lte=now))
    claimed = Breaker.objects.filter(recovery_elapsed | probe_expired, pk=breaker_id).update(
        state=BreakerState.HALF_OPEN, probe_id=call_id, probe_until=now + timedelta(seconds=seconds),
        last_state_change=Now(),
    )  # fmt: skip
    return claimed == 1


def release_probe(call_id: UUID) -> None:
    """Give up a claimed probe that was not made: the next call may probe."""
    Breaker.objects.filter(state=BreakerState.HALF_OPEN, probe_id=call_id).update(probe_until=Now())


def record_server_fault(server_id: UUID, fault: ServerFault) -> None:
    """Count one fault of a server; in the caller's transaction.

    The last consecutive faults, as many as the breaker's threshold, decide. When all of them are connection faults or
    they come from two sources, the breaker for all callers opens. The health check is a source; health checks alone
    open no breaker. Otherwise the fault counts for the identity of the call, whose own breaker opens at the threshold.

    A failed probe opens the breaker for all callers again when the connection failed, or when probes of two sources
    failed consecutively. Otherwise only the breaker of the probing identity opens, and the next caller may probe.
    """
    breaker = Breaker.objects.for_all().select_for_update().filter(server_id=server_id).first()
    if breaker is None:
        return
    was_closed = breaker.state == BreakerState.CLOSED
    breaker.last_failure_time = clock.database_now()
    failed_probe = _is_probe(breaker, fault.call_id)
    if was_closed or failed_probe:
        breaker.failure_count += 1
        breaker.recent_faults = [*breaker.recent_faults, [fault.source, fault.kind]][-breaker.failure_threshold :]
    concerns_all = _has_two_sources(breaker.recent_faults) or fault.kind == FaultKind.CONNECTION
    if (was_closed and should_open(breaker.recent_faults, breaker.failure_threshold)) or (
        failed_probe and concerns_all
    ):
        _open(breaker, fault.reason)
        breaker.recent_faults = []
    elif failed_probe:
        breaker.probe_until = clock.database_now()
    breaker.save()
    if fault.agent_id is not None:
        _record_identity_fault(breaker, fault, failed_probe_of_all=failed_probe)


def should_open(recent_faults: Sequence[Sequence[str]], threshold: int) -> bool:
    """Whether these consecutive faults of a server concern all of its callers."""
    if len(recent_faults) < threshold:
        return False
    if all(source == CHECK_SOURCE for source, _ in recent_faults):
        return False
    return _has_two_sources(recent_faults) or all(kind == FaultKind.CONNECTION for _, kind in recent_faults)


def _has_two_sources(recent_faults: Sequence[Sequence[str]]) -> bool:
    return len({source for source, _ in recent_faults}) > 1


def _record_identity_fault(server_breaker: Breaker, fault: ServerFault, *, failed_probe_of_all: bool) -> None:
    """Count a fault for one identity. Runs under the lock of the server's breaker, so that no second row is created."""
    identity_breakers = Breaker.objects.for_one().filter(server=server_breaker.server_id, agent_id=fault.agent_id)
    breaker = identity_breakers.select_for_update().first()
    opens_at_once = failed_probe_of_all and server_breaker.state == BreakerState.HALF_OPEN
    if server_breaker.state != BreakerState.CLOSED and not opens_at_once:
        # The server's breaker stops this identity too. Its own breaker only ends a probe that this call had claimed.
        if breaker is not None and _is_probe(breaker, fault.call_id):
            _open(breaker, fault.reason)
            breaker.save()
        elif breaker is not None and breaker.state == BreakerState.CLOSED:
            breaker.delete()
        return
    breaker = breaker or Breaker(
        service_name=server_breaker.service_name, server_id=server_breaker.server_id, agent_id=fault.agent_id,
        agent_name=fault.agent_name,
    )  # fmt: skip
    breaker.failure_threshold, breaker.recovery_timeout = (
        server_breaker.failure_threshold,
        server_breaker.recovery_timeout,
    )
    breaker.last_failure_time = server_breaker.last_failure_time
    was_closed = breaker.state == BreakerState.CLOSED
    failed_probe = _is_probe(breaker, fault.call_id)
    if was_closed or failed_probe:
        breaker.failure_count += 1
    at_threshold = breaker.failure_count >= breaker.failure_threshold
    if failed_probe or (was_closed and (at_threshold or opens_at_once)):
        _open(breaker, fault.reason)
    breaker.save()


def record_server_success(server_id: UUID, *, agent_id: UUID, call_id: UUID) -> None:
    """Reset the fault counts of the server and of this identity after a success. A probe closes its breaker."""
    for breaker in (
        Breaker.objects.for_all().filter(server_id=server_id).first(),
        Breaker.objects.filter(server_id=server_id, agent_id=agent_id).first(),
    ):
        if breaker is not None:
            record_success(breaker, call_id=call_id)


def record_check_success(server_id: UUID) -> None:
    """Remove the faults counted by health checks after a successful check. Faults of calls stay."""
    breaker = Breaker.objects.for_all().filter(server_id=server_id, state=BreakerState.CLOSED).first()
    if breaker is None or all(source != CHECK_SOURCE for source, _ in breaker.recent_faults):
        return
    with transaction.atomic():
        breaker = Breaker.objects.select_for_update().get(pk=breaker.pk)
        remaining = [[source, kind] for source, kind in breaker.recent_faults if source != CHECK_SOURCE]
        removed_count = len(breaker.recent_faults) - len(remaining)
        breaker.failure_count = max(breaker.failure_count - removed_count, len(remaining)) if remaining else 0
        breaker.recent_faults = remaining
        if breaker.state == BreakerState.CLOSED:
            breaker.save(update_fields=["failure_count", "recent_faults"])


def remove_unused() -> int:
    """Remove unused breakers of single identities: closed ones without recent faults, and open ones after a day."""
    now = clock.database_now()
    identity_breakers = Breaker.objects.for_one()
    unused = identity_breakers.exclude(state=BreakerState.CLOSED).filter(last_failure_time__lte=now - OPEN_LIFETIME)
    for breaker in unused.filter(Q(probe_until=None) | Q(probe_until__lte=now))[:MAX_REMOVED]:
        with transaction.atomic():
            locked = Breaker.objects.select_for_update().filter(pk=breaker.pk, state=breaker.state).first()
            if locked is not None and locked.last_state_change == breaker.last_state_change:
                _move(locked, BreakerState.CLOSED)
                locked.failure_count = 0
                locked.save()
                _write_event("breaker.closed", locked, SYSTEM, "The identity did not call the server again.")
    # One statement: a transaction that counts a fault locks the row, and the condition is checked again after it.
    idle = Q(failure_count=0) | Q(last_failure_time__lte=now - COUNTING_LIFETIME)
    return identity_breakers.filter(idle, state=BreakerState.CLOSED).delete()[0]


def record_fault(breaker: Breaker, *, call_id: UUID | None, reason: str) -> Breaker:
    """Count one fault of a service that Gatehouse itself calls. Locks the row in the caller's transaction."""
    breaker = Breaker.objects.select_for_update().get(pk=breaker.pk)
    breaker.last_failure_time = clock.database_now()
    failed_probe = _is_probe(breaker, call_id)
    if breaker.state == BreakerState.CLOSED or failed_probe:
        breaker.failure_count += 1
    if failed_probe or (breaker.state == BreakerState.CLOSED and breaker.failure_count >= breaker.failure_threshold):
        _open(breaker, reason)
    breaker.save()
    return breaker


def record_success(breaker: Breaker, *, call_id: UUID | None) -> None:
    """Reset the fault count after a success. A probe closes the breaker. The breaker may have been deleted since."""
    locked = Breaker.objects.select_for_update().filter(pk=breaker.pk).first()
    if locked is None:
        return
    if _is_probe(locked, call_id):
        _move(locked, BreakerState.CLOSED)
        locked.failure_count, locked.recent_faults = 0, []
        _write_event("breaker.closed", locked, SYSTEM, "The probe went well.")
    elif locked.state == BreakerState.CLOSED:
        locked.failure_count, locked.recent_faults = 0, []
    locked.save()


def reset(*, actor: Actor, breaker: Breaker, reason: str) -> Breaker:
    """Close a breaker and reset its fault count."""
    actor.require("mcp.reset_breaker", "reset breakers")
    problems = Problems()
    problems.check_reason(reason)
    problems.raise_if_any()
    with transaction.atomic():
        breaker = Breaker.objects.select_for_update().get(pk=breaker.pk)
        if breaker.state == BreakerState.CLOSED and not breaker.failure_count:
            raise BreakerNotOpen(f"The breaker of {breaker} is closed and has counted no fault.")
        before = {"state": breaker.state, "failure_count": breaker.failure_count}
        if breaker.state != BreakerState.CLOSED:
            _move(breaker, BreakerState.CLOSED)
        breaker.failure_count, breaker.recent_faults = 0, []
        breaker.save()
        after = {"state": breaker.state, "failure_count": 0}
        events.write("breaker.reset", actor=actor, subject=breaker, before=before, after=after, reason=reason)
    return breaker


@dataclass(frozen=True)
class GuardedCall:
    """A call that a breaker admitted. Exactly one of its methods is called, with the outcome."""

    breaker: Breaker
    call_id: UUID

    def fail(self, reason: str) -> None:
        with transaction.atomic():
            record_fault(self.breaker, call_id=self.call_id, reason=reason)

    def succeed(self) -> None:
        with transaction.atomic():
            record_success(self.breaker, call_id=self.call_id)

    def abandon(self) -> None:
        release_probe(self.call_id)


def admit_call(
    service_name: str, *, threshold: int = 3, recovery_timeout: int = 60, seconds: float = PROBE_SECONDS
) -> GuardedCall:
    """Admit a call of an outside service or raise `BreakerOpen`. A probe may take `seconds`."""
    defaults = {"failure_threshold": threshold, "recovery_timeout": recovery_timeout}
    breaker, _ = Breaker.objects.get_or_create(service_name=service_name, agent_id=None, defaults=defaults)
    guarded_call = GuardedCall(breaker, uuid7())
    if breaker.state != BreakerState.CLOSED and not claim_probe(breaker.pk, guarded_call.call_id, seconds=seconds):
        raise BreakerOpen(breaker, retry_after=_seconds_until_retry(breaker))
    return guarded_call


@contextmanager
def guard_call(service_name: str, *, threshold: int = 3, recovery_timeout: int = 60) -> Iterator[None]:
    """Guard a call of an outside service that Gatehouse itself makes. An exception inside the block is a fault."""
    guarded_call = admit_call(service_name, threshold=threshold, recovery_timeout=recovery_timeout)
    try:
        yield
    except Exception as error:
        guarded_call.fail(type(error).__name__)
        raise
    guarded_call.succeed()


def _seconds_until_retry(breaker: Breaker) -> int:
    """Return the whole seconds until another call may probe; at least 1."""
    recovery_end = breaker.last_state_change + timedelta(seconds=breaker.recovery_timeout)
    retry_at = breaker.probe_until if breaker.state == BreakerState.HALF_OPEN else recovery_end
    remaining_seconds = (retry_at - clock.database_now()).total_seconds() if retry_at else 0.0
    return max(math.ceil(remaining_seconds), 1)


def _is_probe(breaker: Breaker, call_id: UUID | None) -> bool:
    return breaker.state == BreakerState.HALF_OPEN and breaker.probe_id == call_id


def _open(breaker: Breaker, reason: str) -> None:
    _move(breaker, BreakerState.OPEN)
    _write_event("breaker.opened", breaker, SYSTEM, reason)


def _move(breaker: Breaker, state: BreakerState) -> None:
    breaker.state = state
    breaker.last_state_change = clock.database_now()
    breaker.probe_id = breaker.probe_until = None


def _write_event(event: str, breaker: Breaker, actor: Actor, reason: str) -> None:
    details = {"state": breaker.state, "failure_count": breaker.failure_count, "scope": breaker.scope.value}
    events.write(event, actor=actor, subject=breaker, after=details, reason=reason)
