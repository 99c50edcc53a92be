"""Refusals without bound become rows within bounds: the first 600 of an identity in a minute, then counts.

Past `MAX_ROWS` refusals of one identity in one minute, a refusal is counted by (identity, object, reason, minute). The
counts are rows of the database, written in the transaction that refuses, so they hold over all processes and no crash
loses one. When the minute has ended, `flush` replaces each count by one row of the log that stands for all of them.
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

#: Refusals of one identity in one minute that are rows of their own, over both logs.
MAX_ROWS_PER_MINUTE = 600
#: What does not exist is one object: callers choose names and ids without bound.
NO_OBJECT = UUID(int=0)
ANY_NAME = "*"
MINUTE = timedelta(minutes=1)
#: A transaction that refuses commits within seconds of the time that it counts for.
COMMIT_GRACE = timedelta(seconds=10)
#: The hour's sums are made 20 minutes after it ends; a row that comes later stands under the time it was written.
MAX_ROW_DELAY = timedelta(minutes=15)
KEEP_TOTALS_FOR = timedelta(minutes=5)
MAX_FLUSHED = 500

# Both databases speak this; the ORM has no "insert, or add to what is there".
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
    """What refusals are counted by."""

    identity_id: UUID
    event: str
    object_id: UUID
    reason: str
    minute: datetime


def minute_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def limit_calls(rows: Sequence[dict[str, Any]]) -> set[UUID]:
    """Count refused calls in the caller's transaction; the ids of those past the limit, which get no row."""
    by_minute: dict[tuple[UUID, datetime], list[dict[str, Any]]] = {}
    for row in rows:
        by_minute.setdefault((row["agent_id"], minute_of(row["timestamp"])), []).append(row)
    past: dict[RefusalKey, list[dict[str, Any]]] = {}
    # In one order for every process, so that no two wait for each other.
    for (agent_id, minute), refused in sorted(by_minute.items()):
        for row in refused[_admit_refusals(agent_id, minute, len(refused)) :]:
            key = RefusalKey(agent_id, "", row["tool_id"] or NO_OBJECT, row["reason"], minute)
            past.setdefault(key, []).append(row)
    for key, refused in sorted(past.items(), key=lambda entry: str(entry[0])):
        _add_to_count(key, len(refused), invocations.as_json(refused[0]))
    return {row["id"] for refused in past.values() for row in refused}


def write_limited_event(
    event: str, *, actor: Actor, reason: str, subject: models.Model | None = None, subject_kind: str = "",
    subject_id: UUID | None = None, subject_name: str = "", exists: bool = True, details: dict[str, Any],
) -> None:  # fmt: skip
    """Append an audit event that its actor can cause without bound; past the limit of the minute, count it."""
    minute = minute_of(clock.database_now())
    with transaction.atomic():
        if actor.id is None or _admit_refusals(actor.id, minute, 1):
            events.write(
                event, actor=actor, subject=subject, subject_kind=subject_kind, subject_id=subject_id,
                subject_name=subject_name, details=details, reason=reason,
            )  # fmt: skip
            return
        named = subject.pk if subject is not None else subject_id
        object_id = named if exists and named is not None else NO_OBJECT
        row = {
            "actor_kind": str(actor.kind),
            "actor_name": actor.name,
            "subject_kind": subject_kind or (subject._meta.model_name if subject is not None else ""),
            "subject_name": sanitization.single_line(str(subject) if subject is not None else subject_name, 400),
            "reason": reason,
            "details": {name: details[name] for name in ("reason", "decision") if name in details},
        }
        _add_to_count(RefusalKey(actor.id, event, object_id, sanitization.single_line(reason, 64), minute), 1, row)


def flush_counts(most: int = MAX_FLUSHED) -> int:
    """Replace the counts of minutes that have ended by one row of the log each."""
    now = clock.database_now()
    ended = RefusalCount.objects.filter(minute__lte=now - MINUTE - COMMIT_GRACE).order_by("minute", "id")
    with transaction.atomic():
        locked = ended.select_for_update(skip_locked=connection.features.has_select_for_update_skip_locked)
        counts = list(locked[:most])
        for count in counts:
            if count.event:
                _write_counted_event(count)
            else:
                InvocationLog(**_counted_call(count, now)).save()
        RefusalCount.objects.filter(pk__in=[count.pk for count in counts]).delete()
    RefusalTotal.objects.filter(minute__lte=now - KEEP_TOTALS_FOR).delete()
    return len(counts)


def _admit_refusals(identity_id: UUID, minute: datetime, number: int) -> int:
    """Count so many refusals; how many of them may be rows."""
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
    """The one row of calls that were counted. What differed between them is left out of it."""
    first = invocations.from_json(count.row)
    ends = count.minute + MINUTE - timedelta(microseconds=1)
    named = count.object_id != NO_OBJECT
    row = {
        **first,
        "id": count.pk,
        "timestamp": ends if now - ends < MAX_ROW_DELAY else now,
        "run_id": count.pk,
        "request_id": count.pk,
        "tool_name": first["tool_name"] if named else ANY_NAME,
        "method": first["method"] if named else ANY_NAME,
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
