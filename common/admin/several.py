"""What every verb for several ticked rows shares: which were ticked, how many are named, when the number is typed."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from common.ids import parse_uuid

MOST = 100
#: From here on the number must be typed.
CAREFUL = 20
NAMED = 10


def ticked(request: HttpRequest) -> list[UUID]:
    return [known for text in request.GET.getlist("id")[:MOST] if (known := parse_uuid(text))]


def to_type(count: int) -> str:
    """What must be typed before so many are changed; empty for a few."""
    return str(count) if count > CAREFUL else ""


def named(names: Sequence[str]) -> dict[str, Any]:
    return {"names": names[:NAMED], "unnamed": max(0, len(names) - NAMED)}
