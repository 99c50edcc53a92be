"""What every verb for several ticked rows shares: which were ticked, how many are named, when the number is typed."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest

from common.console.lists import Filter, Listing, Lookup
from common.ids import parse_uuid

MOST = 100
#: From here on the number must be typed.
CAREFUL = 20
NAMED = 10


def ticked(request: HttpRequest) -> list[UUID]:
    return [known for text in request.GET.getlist("id")[:MOST] if (known := parse_uuid(text))]


def takes_all(request: HttpRequest) -> bool:
    """Whether all that the list's filters leave is meant, not what was ticked."""
    return request.GET.get("all") == "1"


def picked(
    request: HttpRequest, rows: QuerySet[Any], filters: Sequence[Filter], search: Sequence[Lookup] = ()
) -> QuerySet[Any]:
    if takes_all(request):
        return Listing(request, rows, (), filters, search).matching()
    return rows.filter(pk__in=ticked(request))


def to_type(count: int) -> str:
    """What must be typed before so many are changed; empty for a few."""
    return str(count) if count > CAREFUL else ""


def named(names: Sequence[str]) -> dict[str, Any]:
    return {"names": names[:NAMED], "unnamed": max(0, len(names) - NAMED)}
