"""Filters of the audit log; time filters shared with the other logs.

A name is replaced by the ids of all rows with this name, so that the queries use indexes.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from common.console.lists import Filter
from common.ids import parse_uuid
from nhi.actors import ANONYMOUS, SYSTEM
from nhi.audit.event_catalogue import EVENTS
from nhi.choices import ActorKind
from nhi.models import Identity, Role, User

Rows = QuerySet[Any]
SPANS = {
    "1h": ("Last hour", timedelta(hours=1)),
    "24h": ("Last 24 h", timedelta(days=1)),
    "7d": ("Last 7 d", timedelta(days=7)),
    "30d": ("Last 30 d", timedelta(days=30)),
}
ACTOR_KINDS_BY_NAME = {SYSTEM.name.lower(): ActorKind.SYSTEM, ANONYMOUS.name.lower(): ActorKind.ANONYMOUS}


def by_actor(rows: Rows, value: str) -> Rows:
    if kind := ACTOR_KINDS_BY_NAME.get(value.lower()):
        return rows.filter(actor_kind=kind, actor_id=None)
    return rows.filter(actor_id__in=_ids(value, _people_named(value), _identities_named(value)))


def by_subject(rows: Rows, value: str) -> Rows:
    """Filter to events about subjects with this name, and about grants and assignments with them on one side."""
    ids = _ids(value, _people_named(value), _identities_named(value), Role.objects.filter(name=value))
    return rows.filter(Q(subject_id__in=ids) | Q(holder_id__in=ids) | Q(target_id__in=ids))


def _people_named(name: str) -> Rows:
    people: Rows = User.objects.filter(username__iexact=name)
    return people


def _identities_named(name: str) -> Rows:
    return Identity.objects.filter(name=name)


def _ids(value: str, *querysets: Rows) -> list[UUID]:
    """Return the id itself if `value` is one, else the ids of all named rows, in one statement."""
    if pk := parse_uuid(value):
        return [pk]
    first, *others = (rows.order_by().values_list("pk", flat=True) for rows in querysets)
    return list(first.union(*others))


def _events_by_area() -> dict[str, list[str]]:
    areas: dict[str, list[str]] = {}
    for code in EVENTS:
        areas.setdefault(code.partition(".")[0], []).append(code)
    return {f"{area}.*": codes for area, codes in areas.items() if len(codes) > 1}


AREAS = _events_by_area()


def by_event(rows: Rows, value: str) -> Rows:
    return rows.filter(event__in=AREAS[value]) if value in AREAS else rows.filter(event=value)


def _events(_request: HttpRequest) -> list[tuple[str, str]]:
    return sorted((value, value) for value in (*AREAS, *EVENTS))


def by_span(rows: Rows, value: str) -> Rows:
    return rows.filter(at__gte=timezone.now() - SPANS[value][1])


def by_request(rows: Rows, value: str) -> Rows:
    request_id = parse_uuid(value)
    return rows.filter(request_id=request_id) if request_id else rows.none()


def time_filter(lookup: str) -> Callable[[Rows, str], Rows]:
    def apply(rows: Rows, value: str) -> Rows:
        moment = parse_time(value)
        return rows.filter(Q(**{lookup: moment})) if moment else rows.none()

    return apply


def parse_time(value: str) -> datetime | None:
    """Parse a time as the browser sends it: in the person's time zone unless it has an offset."""
    try:
        parsed = parse_datetime(value)
        aware = timezone.make_aware(parsed) if parsed and timezone.is_naive(parsed) else parsed
        # Convert to UTC here, as the database would: times at the ends of the calendar overflow.
        return aware.astimezone(UTC) if aware else None
    except (ValueError, OverflowError):
        return None


FILTERS = (
    Filter("span", "Time", by_span, lambda _request: [(key, words) for key, (words, _) in SPANS.items()]),
    Filter("since", "From", time_filter("at__gte"), kind="datetime-local"),
    Filter("until", "Until", time_filter("at__lt"), kind="datetime-local"),
    Filter("actor", "Who", by_actor),
    Filter("subject", "To whom or what", by_subject),
    Filter("event", "Event", by_event, _events),
    Filter("request", "Request id", by_request),
)
