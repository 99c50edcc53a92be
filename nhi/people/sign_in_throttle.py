"""Counts sign-in attempts in the database and locks names and addresses, before a password or code is checked.

Each attempt counts in three counters: the name from this address, the name from any address, the address with any
name. If the name has signed in from the address before, only the first counter counts, so that a stranger elsewhere
cannot lock a person out. docs/decisions/0007-sign-in-guard.md explains why.
"""

import hashlib
import ipaddress
import time
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from common.db import clock
from common.errors import RateLimited
from nhi.models import SignInGuard, User

FAILURE_WINDOW = timedelta(minutes=15)
FORGET_LOCKS_AFTER = timedelta(days=1)
TRUST_ADDRESS_FOR = timedelta(days=90)
#: An admitted attempt without a result for this long belongs to a dead process; it counts as a failure.
ABANDONED_AFTER = timedelta(seconds=10)
MAX_WAIT_SECONDS, WAIT_INTERVAL_SECONDS = 3.0, 0.05


@dataclass(frozen=True)
class ThrottleRule:
    """How many failures start a lock, and how long locks last."""

    name: str
    limit: int
    first_lock: timedelta
    longest_lock: timedelta

    def lock_duration(self, locks: int) -> timedelta:
        """Return the duration of the next lock. Each consecutive lock is twice as long as the previous one."""
        return min(self.first_lock * (1 << min(locks, 16)), self.longest_lock)


PAIR_RULE = ThrottleRule("name from this address", 5, timedelta(minutes=15), timedelta(hours=4))
NAME_RULE = ThrottleRule("name", 20, timedelta(minutes=15), timedelta(minutes=15))
ADDRESS_RULE = ThrottleRule("address", 200, timedelta(minutes=15), timedelta(minutes=15))


@dataclass(frozen=True)
class CounterKey:
    """The name and address whose attempts one counter counts, with the counter's rule."""

    username: str
    source: str
    rule: ThrottleRule

    @property
    def query(self) -> Q:
        return Q(username=self.username, source=self.source)


@dataclass(frozen=True)
class SignInAttempt:
    """An admitted attempt. `count_failure` or `count_pass` settles it, once."""

    keys: tuple[CounterKey, ...]


@dataclass(frozen=True)
class SignInLock:
    """A lock that a failed attempt started."""

    rule: ThrottleRule
    until: datetime


def admit(*, username: str, source: str) -> SignInAttempt:
    """Admit one attempt, or raise `RateLimited`. Wait while concurrent attempts use up the limit."""
    keys = (
        CounterKey(_normalize_username(username), _normalize_address(source), PAIR_RULE),
        CounterKey(_normalize_username(username), SignInGuard.ALL, NAME_RULE),
        CounterKey(SignInGuard.ALL, _normalize_address(source), ADDRESS_RULE),
    )
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while (attempt := _charge_attempt(keys)) is None:
        if time.monotonic() > deadline:
            raise limited_error(1)
        time.sleep(WAIT_INTERVAL_SECONDS)
    return attempt


def count_failure(attempt: SignInAttempt) -> list[SignInLock]:
    """Settle the attempt as failed. Return the locks that it started."""
    new_locks = []
    with transaction.atomic():
        rows, now = _lock_rows(attempt.keys), clock.database_now()
        for key in attempt.keys:
            row = rows[key]
            row.in_flight, row.failures, row.last_attempt_at = max(0, row.in_flight - 1), row.failures + 1, now
            if row.failures >= key.rule.limit:
                new_locks.append(SignInLock(key.rule, _start_lock(row, key.rule, now)))
            row.save()
    return new_locks


def count_pass(attempt: SignInAttempt) -> None:
    """Settle the attempt as passed. Earlier failures still count until sign-in is complete: a factor may follow."""
    with transaction.atomic():
        for row in _lock_rows(attempt.keys).values():
            row.in_flight = max(0, row.in_flight - 1)
            row.save()


def reset_counters(*, username: str, source: str) -> None:
    """Clear the failures of the name at this address after a sign-in, and trust the address from now on."""
    now = clock.database_now()
    values = {"failures": 0, "locks": 0, "locked_until": None, "succeeded_at": now, "last_attempt_at": now}
    SignInGuard.objects.update_or_create(
        username=_normalize_username(username), source=_normalize_address(source), defaults=values
    )


def unlock(*, username: str) -> int:
    """Clear all failures and locks of a name, from every address. Return the number of counters that had any."""
    counters = SignInGuard.objects.filter(username=_normalize_username(username)).filter(
        Q(failures__gt=0) | Q(locked_until__isnull=False)
    )
    return counters.update(failures=0, locks=0, locked_until=None)


def locked_until(*, username: str) -> datetime | None:
    """Return the latest end of the name's locks, for any address or for one."""
    locked = SignInGuard.objects.filter(username=_normalize_username(username), locked_until__gt=Now())
    return locked.order_by("-locked_until").values_list("locked_until", flat=True).first()


def remove_stale(now: datetime) -> int:
    """Delete counters that no longer have any effect."""
    stale = Q(last_attempt_at__lt=now - FORGET_LOCKS_AFTER)
    unknown = Q(succeeded_at=None) | Q(succeeded_at__lt=now - TRUST_ADDRESS_FOR)
    return SignInGuard.objects.filter(stale & unknown).delete()[0]


def limited_error(seconds: float) -> RateLimited:
    """Return the error. Its message is the same for every lock and for every name, whether it exists or not."""
    whole = max(1, round(seconds))
    wait = f"{-(-whole // 60)} minutes" if whole > 90 else f"{whole} seconds" if whole > 1 else "a second"
    return RateLimited(f"Too many failed sign-ins. Try again in {wait}.", retry_after=whole)


def _charge_attempt(keys: tuple[CounterKey, ...]) -> SignInAttempt | None:
    """Count one attempt as in flight. Return None if it must wait for other attempts."""
    _raise_if_locked(_load_rows(keys), keys, clock.database_now())
    with transaction.atomic():
        now = clock.database_now()
        new_rows = [SignInGuard(username=key.username, source=key.source, last_attempt_at=now) for key in keys]
        SignInGuard.objects.bulk_create(new_rows, ignore_conflicts=True)
        rows = _lock_rows(keys)
        now = clock.database_now()
        for key in keys:
            _apply_elapsed_time(rows[key], key.rule, now)
        counted = _counted_keys(rows, keys, now)
        locked = any(rows[key].locked_until for key in counted)
        full = any(rows[key].failures + rows[key].in_flight >= key.rule.limit for key in counted)
        for key in counted:
            if not (locked or full):
                rows[key].in_flight, rows[key].last_attempt_at = rows[key].in_flight + 1, now
            rows[key].save()
    _raise_if_locked(rows, keys, now)
    return None if full else SignInAttempt(counted)


def _load_rows(keys: tuple[CounterKey, ...]) -> dict[CounterKey, SignInGuard]:
    return _rows_by_key(keys, list(SignInGuard.objects.filter(_any_key(keys))))


def _lock_rows(keys: tuple[CounterKey, ...]) -> dict[CounterKey, SignInGuard]:
    """Lock the rows in the order of their keys, to avoid deadlocks."""
    return _rows_by_key(keys, list(SignInGuard.objects.select_for_update().filter(_any_key(keys)).order_by("pk")))


def _any_key(keys: tuple[CounterKey, ...]) -> Q:
    query = keys[0].query
    for key in keys[1:]:
        query |= key.query
    return query


def _rows_by_key(keys: tuple[CounterKey, ...], rows: list[SignInGuard]) -> dict[CounterKey, SignInGuard]:
    by_columns = {(row.username, row.source): row for row in rows}
    pairs = ((key, by_columns.get((key.username, key.source))) for key in keys)
    return {key: row for key, row in pairs if row is not None}


def _counted_keys(
    rows: dict[CounterKey, SignInGuard], keys: tuple[CounterKey, ...], now: datetime
) -> tuple[CounterKey, ...]:
    pair = rows.get(keys[0])
    is_trusted = pair is not None and pair.succeeded_at is not None and pair.succeeded_at > now - TRUST_ADDRESS_FOR
    return keys[:1] if is_trusted else keys


def _raise_if_locked(rows: dict[CounterKey, SignInGuard], keys: tuple[CounterKey, ...], now: datetime) -> None:
    ends = [rows[key].locked_until for key in _counted_keys(rows, keys, now) if key in rows]
    longest_wait = max((end - now for end in ends if end and end > now), default=None)
    if longest_wait:
        raise limited_error(longest_wait.total_seconds())


def _apply_elapsed_time(row: SignInGuard, rule: ThrottleRule, now: datetime) -> None:
    """Update a counter for the time since its last attempt."""
    idle = now - row.last_attempt_at
    if idle > ABANDONED_AFTER:
        row.failures, row.in_flight = row.failures + row.in_flight, 0
    if row.locked_until and row.locked_until <= now:
        row.locked_until = None
    if idle > FAILURE_WINDOW:
        row.failures = 0
    if idle > FORGET_LOCKS_AFTER:
        row.locks = 0
    if row.failures >= rule.limit:
        _start_lock(row, rule, now)


def _start_lock(row: SignInGuard, rule: ThrottleRule, now: datetime) -> datetime:
    until = now + rule.lock_duration(row.locks)
    row.locked_until, row.failures, row.locks = until, 0, row.locks + 1
    return until


def _normalize_username(username: str) -> str:
    """Return the name to count by: case does not matter, and an invalid name is counted by its hash."""
    folded = unicodedata.normalize("NFKC", username).casefold()
    try:
        User.username_validator(folded)
    except ValidationError:
        folded = ""
    if 1 <= len(folded) <= 150:
        return folded
    return f"?{hashlib.sha256(username.encode(errors='replace')).hexdigest()}"


def _normalize_address(source: str) -> str:
    """Return the IPv4 address, or the /64 network of an IPv6 address: one customer usually has one."""
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return "unknown"
    mapped = getattr(address, "ipv4_mapped", None) or address
    return str(mapped) if mapped.version == 4 else str(ipaddress.ip_network(f"{mapped}/64", strict=False))
