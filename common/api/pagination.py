"""Lists by pages, logs by cursors. The key that holds the rows is the path's last segment, in snake case."""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from rest_framework import serializers

from common import crypto
from common.errors import InvalidInput

DEFAULT, MOST = 20, 100
#: Further than any list reaches, and still a number that every database takes.
FURTHEST = 2**31
LABEL = "cursor"


class Page(serializers.Serializer[Any]):
    limit = serializers.IntegerField(
        min_value=1, default=DEFAULT, help_text=f"At most {MOST}; a larger one means {MOST}."
    )
    offset = serializers.IntegerField(min_value=0, default=0)


class CursorPage(serializers.Serializer[Any]):
    limit = serializers.IntegerField(
        min_value=1, default=DEFAULT, help_text=f"At most {MOST}; a larger one means {MOST}."
    )
    cursor = serializers.CharField(required=False, help_text="`next_cursor` of the page before.")


@dataclass(frozen=True)
class Place:
    """Where a page of a log ended."""

    at: datetime
    id: UUID


@dataclass(frozen=True)
class Counted:
    """Rows, and how to tell their number without counting them."""

    rows: QuerySet[Any]
    count: Callable[[], int]


def key_of(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1].replace("-", "_")


def by_offset(rows: QuerySet[Any] | Counted, query: Any, shape: Any, key: str) -> dict[str, Any]:
    parameters = _read(Page, query)
    limit, offset = min(parameters["limit"], MOST), min(parameters["offset"], FURTHEST)
    counted_rows = rows if isinstance(rows, Counted) else Counted(rows, rows.count)
    page = counted_rows.rows[offset : offset + limit]
    return {key: shape(page, many=True).data, "total": counted_rows.count(), "limit": limit, "offset": offset}


def by_cursor(rows: QuerySet[Any], query: Any, shape: Any, key: str, column: str = "at") -> dict[str, Any]:
    """Newest first, by (time, id): however far back, a page costs the same, and no count is made."""
    parameters = _read(CursorPage, query)
    limit = min(parameters["limit"], MOST)
    if "cursor" in parameters:
        position = _place(parameters["cursor"])
        before = Q(**{f"{column}__lt": position.at}) | Q(**{column: position.at}, id__lt=position.id)
        rows = rows.filter(before, **{f"{column}__lte": position.at})
    page = list(rows.order_by(f"-{column}", "-id")[: limit + 1])
    has_more = len(page) > limit
    page = page[:limit]
    return {key: shape(page, many=True).data, "next_cursor": _cursor(page[-1], column) if has_more else None}


def _read(serializer_class: type[serializers.Serializer[Any]], query: Any) -> dict[str, Any]:
    serializer = serializer_class(data=query)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def _cursor(row: Any, column: str) -> str:
    text = f"{getattr(row, column).isoformat()}|{row.pk}".encode()
    return base64.urlsafe_b64encode(crypto.sign(LABEL, text)[:12] + text).decode().rstrip("=")


def _place(cursor: str) -> Place:
    """Signed, so that what we read back is what we wrote and not a question of somebody's own."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if crypto.is_equal_in_constant_time(crypto.sign(LABEL, raw[12:])[:12], raw[:12]):
            at, _, pk = raw[12:].decode().partition("|")
            return Place(datetime.fromisoformat(at), UUID(pk))
    except (binascii.Error, ValueError):
        pass
    raise InvalidInput.for_field("cursor", "This is no cursor of ours; leave it out to begin with the newest.")
