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
    """One page of a log, newest row first, with the positions of its neighbouring pages."""

    rows: list[Any]
    #: Values for `before` and `after`; empty at the oldest and at the newest end of the log.
    older: str
    newer: str


def page(rows: QuerySet[Any], *, time: str, before: str = "", after: str = "", size: int = 50) -> Slice:
    """The rows next to `before` that are older, or next to `after` that are newer, or else the newest rows."""
    if (position := _read(after)) is not None:
        fetched_rows = list(rows.filter(_beyond(time, position, "gt")).order_by(time, "id")[: size + 1])
        page_rows = fetched_rows[:size][::-1]
        return Slice(
            page_rows,
            _mark(page_rows[-1], time) if page_rows else after,
            _mark(page_rows[0], time) if len(fetched_rows) > size else "",
        )
    position = _read(before)
    older_rows = rows.filter(_beyond(time, position, "lt")) if position else rows
    fetched_rows = list(older_rows.order_by(f"-{time}", "-id")[: size + 1])
    page_rows = fetched_rows[:size]
    return Slice(
        page_rows,
        _mark(page_rows[-1], time) if len(fetched_rows) > size else "",
        _mark(page_rows[0], time) if position and page_rows else "",
    )


def _beyond(time: str, position: tuple[datetime, UUID], side: str) -> Q:
    moment, row_id = position
    # The first condition lets the database use the index; the second separates rows with the same time.
    return Q(**{f"{time}__{side}e": moment}) & (Q(**{f"{time}__{side}": moment}) | Q(**{f"id__{side}": row_id}))


def _mark(row: Any, time: str) -> str:
    return f"{getattr(row, time).isoformat()}~{row.pk}"


def _read(text: str) -> tuple[datetime, UUID] | None:
    moment_text, _, id_text = text.partition("~")
    row_id = parse_uuid(id_text)
    try:
        moment = parse_datetime(moment_text)
        # Converted to UTC here because the database needs UTC, and the conversion fails at the ends of the calendar.
        return (moment.astimezone(UTC), row_id) if moment and moment.tzinfo and row_id else None
    except (ValueError, OverflowError):
        return None
