"""How often a name may be tried: counted in the database before any password is hashed or code compared.

Three counters see each try: the name from this address, the name from anywhere, the address with any name. A name
that has signed in from an address before is counted there by the first alone, so that a stranger elsewhere cannot
lock a person out of their usual place. docs/decisions/0007-sign-in-guard.md says why.
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

WINDOW = timedelta(minutes=15)
LOCKS_FORGOTTEN_AFTER = timedelta(days=1)
KNOWN_FOR = timedelta(days=90)
#: A try that was let through and never settled belongs to a process that is gone; it counts as wrong.
LOST_AFTER = timedelta(seconds=10)
PATIENCE, STEP = 3.0, 0.05


@dataclass(frozen=True)
class Rule:
    name: str
    limit: int
    lock: timedelta
    longest: timedelta

    def lock_for(self, locks: int) -> timedelta:
        """Each lock in a row is twice as long as the one before."""
        return min(self.lock * (1 << min(locks, 16)), self.longest)


PAIR = Rule("name from this address", 5, timedelta(minutes=15), timedelta(hours=4))
NAME = Rule("name", 20, timedelta(minutes=15), timedelta(minutes=15))
ADDRESS = Rule("address", 200, timedelta(minutes=15), timedelta(minutes=15))


@dataclass(frozen=True)
class Key:
    username: str
    source: str
    rule: Rule

    @property
    def query(self) -> Q:
        return Q(username=self.username, source=self.source)


@dataclass(frozen=True)
class Attempt:
    """One try that was let through. It is settled once: `failed` or `passed`."""

    keys: tuple[Key, ...]


@dataclass(frozen=True)
class Lock:
    rule: Rule
    until: datetime


def admit(*, username: str, source: str) -> Attempt:
    """Let one try through, or raise `Limited`. While as many as are left are being judged, wait for their verdict."""
    keys = (
        Key(_name(username), _address(source), PAIR),
        Key(_name(username), SignInGuard.ALL, NAME),
        Key(SignInGuard.ALL, _address(source), ADDRESS),
    )
    deadline = time.monotonic() + PATIENCE
    while (attempt := _charge(keys)) is None:
        if time.monotonic() > deadline:
            raise limited(1)
        time.sleep(STEP)
    return attempt


def failed(attempt: Attempt) -> list[Lock]:
    """It was wrong. Returns the locks that began with it."""
    begun = []
    with transaction.atomic():
        rows, now = _held(attempt.keys), clock.database_now()
        for key in attempt.keys:
            row = rows[key]
            row.in_flight, row.failures, row.last_attempt_at = max(0, row.in_flight - 1), row.failures + 1, now
            if row.failures >= key.rule.limit:
                begun.append(Lock(key.rule, _lock(row, key.rule, now)))
            row.save()
    return begun


def passed(attempt: Attempt) -> None:
    """It was right. What failed before still counts until the person is in: a right password is half the way."""
    with transaction.atomic():
        for row in _held(attempt.keys).values():
            row.in_flight = max(0, row.in_flight - 1)
            row.save()


def signed_in(*, username: str, source: str) -> None:
    """The person is in: their failures from here are forgotten and the address is known."""
    now = clock.database_now()
    fresh = {"failures": 0, "locks": 0, "locked_until": None, "succeeded_at": now, "last_attempt_at": now}
    SignInGuard.objects.update_or_create(username=_name(username), source=_address(source), defaults=fresh)


def unlock(*, username: str) -> int:
    """Forget every failure of a name, wherever it came from. Returns how many counters had any."""
    held = SignInGuard.objects.filter(username=_name(username)).filter(
        Q(failures__gt=0) | Q(locked_until__isnull=False)
    )
    return held.update(failures=0, locks=0, locked_until=None)


def locked_until(*, username: str) -> datetime | None:
    """Until when a name is refused, from everywhere or from one address."""
    locked = SignInGuard.objects.filter(username=_name(username), locked_until__gt=Now())
    return locked.order_by("-locked_until").values_list("locked_until", flat=True).first()


def forget(now: datetime) -> int:
    """Remove counters that no longer say anything."""
    stale = Q(last_attempt_at__lt=now - LOCKS_FORGOTTEN_AFTER)
    unknown = Q(succeeded_at=None) | Q(succeeded_at__lt=now - KNOWN_FOR)
    return SignInGuard.objects.filter(stale & unknown).delete()[0]


def limited(seconds: float) -> RateLimited:
    """The same sentence for every lock and every name, known or not."""
    whole = max(1, round(seconds))
    wait = f"{-(-whole // 60)} minutes" if whole > 90 else f"{whole} seconds" if whole > 1 else "a second"
    return RateLimited(f"Too many failed sign-ins. Try again in {wait}.", retry_after=whole)


def _charge(keys: tuple[Key, ...]) -> Attempt | None:
    """Count one try as in flight; None when that must wait for others."""
    _refuse(_read(keys), keys, clock.database_now())
    with transaction.atomic():
        now = clock.database_now()
        fresh = [SignInGuard(username=key.username, source=key.source, last_attempt_at=now) for key in keys]
        SignInGuard.objects.bulk_create(fresh, ignore_conflicts=True)
        rows = _held(keys)
        now = clock.database_now()
        for key in keys:
            _catch_up(rows[key], key.rule, now)
        counted = _counted(rows, keys, now)
        locked = any(rows[key].locked_until for key in counted)
        full = any(rows[key].failures + rows[key].in_flight >= key.rule.limit for key in counted)
        for key in counted:
            if not (locked or full):
                rows[key].in_flight, rows[key].last_attempt_at = rows[key].in_flight + 1, now
            rows[key].save()
    _refuse(rows, keys, now)
    return None if full else Attempt(counted)


def _read(keys: tuple[Key, ...]) -> dict[Key, SignInGuard]:
    return _by_key(keys, list(SignInGuard.objects.filter(_any(keys))))


def _held(keys: tuple[Key, ...]) -> dict[Key, SignInGuard]:
    """The rows, locked in one order by everyone."""
    return _by_key(keys, list(SignInGuard.objects.select_for_update().filter(_any(keys)).order_by("pk")))


def _any(keys: tuple[Key, ...]) -> Q:
    query = keys[0].query
    for key in keys[1:]:
        query |= key.query
    return query


def _by_key(keys: tuple[Key, ...], rows: list[SignInGuard]) -> dict[Key, SignInGuard]:
    by_place = {(row.username, row.source): row for row in rows}
    found = ((key, by_place.get((key.username, key.source))) for key in keys)
    return {key: row for key, row in found if row is not None}


def _counted(rows: dict[Key, SignInGuard], keys: tuple[Key, ...], now: datetime) -> tuple[Key, ...]:
    pair = rows.get(keys[0])
    known = pair is not None and pair.succeeded_at is not None and pair.succeeded_at > now - KNOWN_FOR
    return keys[:1] if known else keys


def _refuse(rows: dict[Key, SignInGuard], keys: tuple[Key, ...], now: datetime) -> None:
    ends = [rows[key].locked_until for key in _counted(rows, keys, now) if key in rows]
    left = max((end - now for end in ends if end and end > now), default=None)
    if left:
        raise limited(left.total_seconds())


def _catch_up(row: SignInGuard, rule: Rule, now: datetime) -> None:
    """What time has done to a counter since its last try."""
    idle = now - row.last_attempt_at
    if idle > LOST_AFTER:
        row.failures, row.in_flight = row.failures + row.in_flight, 0
    if row.locked_until and row.locked_until <= now:
        row.locked_until = None
    if idle > WINDOW:
        row.failures = 0
    if idle > LOCKS_FORGOTTEN_AFTER:
        row.locks = 0
    if row.failures >= rule.limit:
        _lock(row, rule, now)


def _lock(row: SignInGuard, rule: Rule, now: datetime) -> datetime:
    until = now + rule.lock_for(row.locks)
    row.locked_until, row.failures, row.locks = until, 0, row.locks + 1
    return until


def _name(username: str) -> str:
    """What is counted: names that differ in case alone are one, and what can be no name is counted by its hash."""
    folded = unicodedata.normalize("NFKC", username).casefold()
    try:
        User.username_validator(folded)
    except ValidationError:
        folded = ""
    if 1 <= len(folded) <= 150:
        return folded
    return f"?{hashlib.sha256(username.encode(errors='replace')).hexdigest()}"


def _address(source: str) -> str:
    """One IPv4 address, or the network that one IPv6 customer has."""
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return "unknown"
    mapped = getattr(address, "ipv4_mapped", None) or address
    return str(mapped) if mapped.version == 4 else str(ipaddress.ip_network(f"{mapped}/64", strict=False))
