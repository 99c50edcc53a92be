"""Limits refusal rows to 600 per identity and minute and counts the rest.

Beyond `MAX_ROWS_PER_MINUTE`, refusals are counted by (identity, event, object, reason, minute). The counts are database
rows, written in the refusing transaction, so they cover all processes and survive a crash. After the minute,
`flush_counts` replaces each count with one log row that represents all of its refusals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connection, models, transaction

from common.context import RequestContext, bind_context
from common.db import clock
from common.errors import RecordUnavailable
from common.ids import uuid7
from nhi.actors import Actor
from nhi.audit import events, invocations, sanitization
from nhi.choices import ActorKind
from nhi.models import InvocationLog, RefusalCount, RefusalTotal

#: Refusals of one identity in one minute with a row of their own, over both logs.
MAX_ROWS_PER_MINUTE = 600
#: All missing objects count as one, because callers can send any number of names and ids.
NO_OBJECT = UUID(int=0)
ANY_NAME = "*"
MINUTE = timedelta(minutes=1)
#: A refusing transaction commits within seconds of the time for which it counts.
COMMIT_GRACE = timedelta(seconds=10)
#: Hourly sums are computed 20 minutes after the hour, so a later row gets the time at which it is written.
MAX_ROW_DELAY = timedelta(minutes=15)
KEEP_TOTALS_FOR = timedelta(minutes=5)
MAX_FLUSHED = 500

# Valid on both databases. The ORM cannot express an upsert that adds.
ADD_TO_TOTAL = """
INSERT INTO nhi_refusal_total (id, identity_id, minute, total) VALUES (%s, %s, %s, %s)
ON CONFLICT (identity_id, minute) DO UPDATE SET total = nhi_refusal_total.total + excluded.total
RETURNING total
"""
ADD_TO_COUNT = """
INSERT INTO nhi_refusal_count (id, identity_id, event, object_id, reason, minute, count, row)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (identity_id, event, object_id, reason, minute)
DO UPDATE SET count = nhi_refusal_count.count + excluded.count
"""


@dataclass(frozen=True)
class RefusalKey:
    """The refusals that are counted together. `event` is empty for refused calls."""

    identity_id: UUID
    event: str
    object_id: UUID
    reason: str
    minute: datetime


def minute_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def limit_calls(rows: Sequence[dict[str, Any]]) -> set[UUID]:
    """Count refused calls in the caller's transaction and return the ids of those over the limit, which get no row."""
    by_minute: dict[tuple[UUID, datetime], list[dict[str, Any]]] = {}
    for row in rows:
        by_minute.setdefault((row["agent_id"], minute_of(row["timestamp"])), []).append(row)
    over_limit: dict[RefusalKey, list[dict[str, Any]]] = {}
    # Sorted, so that no two processes deadlock.
    for (agent_id, minute), refused_rows in sorted(by_minute.items()):
        for row in refused_rows[_admit_refusals(agent_id, minute, len(refused_rows)) :]:
            key = RefusalKey(agent_id, "", row["tool_id"] or NO_OBJECT, row["reason"], minute)
            over_limit.setdefault(key, []).append(row)
    for key, refused_rows in sorted(over_limit.items(), key=lambda entry: str(entry[0])):
        _add_to_count(key, len(refused_rows), invocations.as_json(refused_rows[0]))
    return {row["id"] for refused_rows in over_limit.values() for row in refused_rows}


def write_limited_event(
    event: str, *, actor: Actor, reason: str, subject: models.Model | None = None, subject_kind: str = "",
    subject_id: UUID | None = None, subject_name: str = "", exists: bool = True, details: dict[str, Any],
) -> None:  # fmt: skip
    """Append an audit event that its actor can cause without bound, or count it once the minute's limit is reached."""
    minute = minute_of(clock.database_now())
    with transaction.atomic():
        if actor.id is None or _admit_refusals(actor.id, minute, 1):
            events.write(
                event, actor=actor, subject=subject, subject_kind=subject_kind, subject_id=subject_id,
                subject_name=subject_name, details=details, reason=reason,
            )  # fmt: skip
            return
        subject_pk = subject.pk if subject is not None else subject_id
        object_id = subject_pk if exists and subject_pk is not None else NO_OBJECT
        row = {
            "actor_kind": str(actor.kind),
            "actor_name": actor.name,
            "subject_kind": subject_kind or (subject._meta.model_name if subject is not None else ""),
            "subject_name": sanitization.single_line(str(subject) if subject is not None else subject_name, 400),
            "reason": reason,
            "details": {name: details[name] for name in ("reason", "decision") if name in details},
        }
        _add_to_count(RefusalKey(actor.id, event, object_id, sanitization.single_line(reason, 64), minute), 1, row)


def flush_counts(limit: int = MAX_FLUSHED) -> int:
    """Replace each count of a past minute with one log row. Return the number of rows."""
    now = clock.database_now()
    due = RefusalCount.objects.filter(minute__lte=now - MINUTE - COMMIT_GRACE).order_by("minute", "id")
    with transaction.atomic():
        locked = due.select_for_update(skip_locked=connection.features.has_select_for_update_skip_locked)
        counts = list(locked[:limit])
        for count in counts:
            if count.event:
                _write_counted_event(count)
            else:
                InvocationLog(**_counted_call(count, now)).save()
        RefusalCount.objects.filter(pk__in=[count.pk for count in counts]).delete()
    RefusalTotal.objects.filter(minute__lte=now - KEEP_TOTALS_FOR).delete()
    return len(counts)


def _admit_refusals(identity_id: UUID, minute: datetime, number: int) -> int:
    """Count the refusals and return how many of them may have rows."""
    values = _prepare_values(RefusalTotal, (uuid7(), identity_id, minute, number))
    try:
        with connection.cursor() as cursor:
            cursor.execute(ADD_TO_TOTAL, values)
            total: int = cursor.fetchone()[0]
    except DatabaseError as error:
        raise RecordUnavailable from error
    return max(0, min(number, MAX_ROWS_PER_MINUTE - (total - number)))


def _add_to_count(key: RefusalKey, number: int, row: dict[str, Any]) -> None:
    values = (uuid7(), key.identity_id, key.event, key.object_id, key.reason, key.minute, number, row)
    try:
        with connection.cursor() as cursor:
            cursor.execute(ADD_TO_COUNT, _prepare_values(RefusalCount, values))
    except DatabaseError as error:
        raise RecordUnavailable from error


def _prepare_values(model: type[models.Model], values: Sequence[Any]) -> list[Any]:
    columns = model._meta.concrete_fields
    return [field.get_db_prep_save(value, connection) for field, value in zip(columns, values, strict=True)]


def _counted_call(count: RefusalCount, now: datetime) -> dict[str, Any]:
    """Return the one row of all counted calls, without the values that differed between them."""
    first = invocations.from_json(count.row)
    minute_end = count.minute + MINUTE - timedelta(microseconds=1)
    has_object = count.object_id != NO_OBJECT
    row = {
        **first,
        "id": count.pk,
        "timestamp": minute_end if now - minute_end < MAX_ROW_DELAY else now,
        "run_id": count.pk,
        "request_id": count.pk,
        "tool_name": first["tool_name"] if has_object else ANY_NAME,
        "method": first["method"] if has_object else ANY_NAME,
        "args_hash": "",
        "thread_id": "",
        "session_id": "",
        "task_id": "",
        "decision_id": None,
        "chain": first["chain"][-1:],
        "source": "",
        "calls": count.count,
        "details": {},
    }
    return invocations.end(
        row, status=first["status"], reason=first["reason"], error_code=first["error_code"],
        error_message=f"{count.count:,} more {'call' if count.count == 1 else 'calls'} refused in this minute",
        details={"count": count.count, "minute": count.minute.isoformat()},
    )  # fmt: skip


def _write_counted_event(count: RefusalCount) -> None:
    row = count.row
    actor = Actor(ActorKind(row["actor_kind"]), count.identity_id, row["actor_name"])
    with bind_context(RequestContext(count.pk, "")):
        events.write(
            count.event,
            actor=actor,
            subject_kind=row["subject_kind"],
            subject_id=count.object_id if count.object_id != NO_OBJECT else None,
            subject_name=row["subject_name"],
            details={**row["details"], "count": count.count, "minute": count.minute.isoformat()},
            reason=row["reason"],
        )
