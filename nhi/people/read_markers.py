"""Remembers which rows of a list a person has seen, so that the list can count new ones.

A row is committed after the time it carries, so rows do not appear in the order of their times. Rows of the last five
minutes before a marker are therefore remembered by id, and older rows by the time of the marker alone.
"""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import DateTimeField, Exists, F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from common.db import clock
from common.errors import NotAllowed
from nhi.actors import Actor
from nhi.models import LastLook, Seen

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Upper bound for the delay between the time in a row and its commit.
MAX_COMMIT_DELAY = timedelta(minutes=5)


def individual_rows_start(until: datetime) -> datetime:
    """Return the time after which rows, up to `until`, are remembered by id."""
    return until - MAX_COMMIT_DELAY


def mark_seen(*, actor: Actor, page: str, until: datetime, individual_ids: Collection[UUID]) -> None:
    """Mark all rows up to `until` as seen. `individual_ids` are those after `individual_rows_start(until)`.

    The marker never moves back.
    """
    if not actor.is_person or actor.only_reads or actor.id is None:
        raise NotAllowed("You may not mark what you have seen.")
    until = min(until, clock.database_now())
    at = individual_rows_start(until)
    with transaction.atomic():
        LastLook.objects.bulk_create([LastLook(user_id=actor.id, page=page, at=at)], ignore_conflicts=True)
        LastLook.objects.filter(user_id=actor.id, page=page, at__lt=at).update(at=at)
        rows = [Seen(user_id=actor.id, page=page, subject_id=subject, at=until) for subject in individual_ids]
        Seen.objects.bulk_create(rows, batch_size=500, ignore_conflicts=True)
        # The marker's time covers ids that were stored at or before it.
        Seen.objects.filter(user_id=actor.id, page=page, at__lte=at).delete()


def annotate_read_marker(actor: Actor, page: str, rows: QuerySet[Any]) -> QuerySet[Any]:
    """Add the actor's markers to the rows, for `filter_unseen`. The aliases cost nothing until a filter uses them."""
    last_looks, seen_rows = LastLook.objects.none(), Seen.objects.none()
    if actor.id is not None:
        last_looks, seen_rows = LastLook.objects.filter(user_id=actor.id), Seen.objects.filter(user_id=actor.id)
    last = last_looks.filter(page=page).values("at")[:1]
    annotated: QuerySet[Any] = rows.alias(
        looked_at=Coalesce(Subquery(last), Value(EPOCH), output_field=DateTimeField()),
        looked_at_it=Exists(seen_rows.filter(page=page, subject_id=OuterRef("pk"))),
    )
    return annotated


def filter_unseen(rows: QuerySet[Any], *, time: str) -> QuerySet[Any]:
    """Keep the unseen rows of a queryset from `annotate_read_marker`. `time` names its time column."""
    return rows.filter(Q(**{f"{time}__gt": F("looked_at")}), looked_at_it=False)
