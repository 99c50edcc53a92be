"""What people have said that they have seen of a list, so that it counts for them what came since.

A row is committed later than the moment that stands in it, so another may be there before it with a later one. What
is within five minutes of the last that was seen is therefore kept one by one, and only what is older by a moment.
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
#: Longer than anything takes from its moment to its commit.
MAX_COMMIT_DELAY = timedelta(minutes=5)


def individual_rows_start(until: datetime) -> datetime:
    """What is after this moment, and up to that, is told one by one."""
    return until - MAX_COMMIT_DELAY


def mark_seen(*, actor: Actor, page: str, until: datetime, late: Collection[UUID]) -> None:
    """They have seen what there was at this moment, `late` being those after its edge. It never goes back."""
    if not actor.is_person or actor.only_reads or actor.id is None:
        raise NotAllowed("You may not mark what you have seen.")
    until = min(until, clock.database_now())
    at = individual_rows_start(until)
    with transaction.atomic():
        LastLook.objects.bulk_create([LastLook(user_id=actor.id, page=page, at=at)], ignore_conflicts=True)
        LastLook.objects.filter(user_id=actor.id, page=page, at__lt=at).update(at=at)
        rows = [Seen(user_id=actor.id, page=page, subject_id=subject, at=until) for subject in late]
        Seen.objects.bulk_create(rows, batch_size=500, ignore_conflicts=True)
        # What was the last at a look is as old as it: by now the moment tells it.
        Seen.objects.filter(user_id=actor.id, page=page, at__lte=at).delete()


def annotate_read_marker(actor: Actor, page: str, rows: QuerySet[Any]) -> QuerySet[Any]:
    """For `unseen`, which knows nobody. Where that is not asked it costs nothing."""
    looks, seen = LastLook.objects.none(), Seen.objects.none()
    if actor.id is not None:
        looks, seen = LastLook.objects.filter(user_id=actor.id), Seen.objects.filter(user_id=actor.id)
    last = looks.filter(page=page).values("at")[:1]
    known: QuerySet[Any] = rows.alias(
        looked_at=Coalesce(Subquery(last), Value(EPOCH), output_field=DateTimeField()),
        looked_at_it=Exists(seen.filter(page=page, subject_id=OuterRef("pk"))),
    )
    return known


def filter_unseen(rows: QuerySet[Any], *, time: str) -> QuerySet[Any]:
    """Of rows that came `with_look`, by the moment of each."""
    return rows.filter(Q(**{f"{time}__gt": F("looked_at")}), looked_at_it=False)
