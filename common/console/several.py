"""Helpers for actions on several selected rows: the selection, the names to show and the typed confirmation."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest

from common.console.lists import Filter, Listing, Lookup
from common.ids import parse_uuid

MOST = 100
#: For more rows than this, the user must type the number of rows to confirm.
CAREFUL = 20
NAMED = 10


def ticked(request: HttpRequest) -> list[UUID]:
    return [row_id for text in request.GET.getlist("id")[:MOST] if (row_id := parse_uuid(text))]


def takes_all(request: HttpRequest) -> bool:
    """Whether the action applies to all rows that match the list's filters instead of the selected rows."""
    return request.GET.get("all") == "1"


def picked(
    request: HttpRequest, rows: QuerySet[Any], filters: Sequence[Filter], search: Sequence[Lookup] = ()
) -> QuerySet[Any]:
    if takes_all(request):
        return Listing(request, rows, (), filters, search).matching()
    return rows.filter(pk__in=ticked(request))


def to_type(count: int) -> str:
    """The text that the user must type to confirm a change of this many rows; empty for a few rows."""
    return str(count) if count > CAREFUL else ""


def limit_names(names: Sequence[str]) -> dict[str, Any]:
    return {"names": names[:NAMED], "unnamed": max(0, len(names) - NAMED)}
