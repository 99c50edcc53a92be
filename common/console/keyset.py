"""Keyset pagination of logs by (time, id), newest first: no count, and the same cost at any depth."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime

from common.ids import parse_uuid


@dataclass(frozen=True)
class Slice:
    rows: list[Any]
    #: Values for `before` and `after`; empty at the oldest and at the newest end of the log.
    older: str
    newer: str


def page(rows: QuerySet[Any], *, time: str, before: str = "", after: str = "", size: int = 50) -> Slice:
    """The rows next to `before` that are older, or next to `after` that are newer, or else the newest rows."""
    if (mark := _read(after)) is not None:
        found = list(rows.filter(_beyond(time, mark, "gt")).order_by(time, "id")[: size + 1])
        kept = found[:size][::-1]
        return Slice(kept, _mark(kept[-1], time) if kept else after, _mark(kept[0], time) if len(found) > size else "")
    mark = _read(before)
    narrowed = rows.filter(_beyond(time, mark, "lt")) if mark else rows
    found = list(narrowed.order_by(f"-{time}", "-id")[: size + 1])
    kept = found[:size]
    return Slice(
        kept, _mark(kept[-1], time) if len(found) > size else "", _mark(kept[0], time) if mark and kept else ""
    )


def _beyond(time: str, mark: tuple[datetime, UUID], side: str) -> Q:
    moment, row = mark
    # The first condition lets the database use the index; the second separates rows with the same time.
    return Q(**{f"{time}__{side}e": moment}) & (Q(**{f"{time}__{side}": moment}) | Q(**{f"id__{side}": row}))


def _mark(row: Any, time: str) -> str:
    return f"{getattr(row, time).isoformat()}~{row.pk}"


def _read(text: str) -> tuple[datetime, UUID] | None:
    moment_text, _, id_text = text.partition("~")
    row = parse_uuid(id_text)
    try:
        moment = parse_datetime(moment_text)
        # Converted to UTC here because the database needs UTC, and the conversion fails at the ends of the calendar.
        return (moment.astimezone(UTC), row) if moment and moment.tzinfo and row else None
    except (ValueError, OverflowError):
        return None
