"""How many tasks there are: those that have ended are counted once, the others as they stand.

What has ended stays as it ended. A sweep adds it to its tally and marks it, in one transaction; whatever bears no mark
is counted one by one whenever somebody asks. So a number is exact wherever the sweep is: after an upgrade nothing is
marked yet, and what ends while nobody sweeps waits for the next one.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, PositiveBigIntegerField, Subquery, Sum
from django.db.models.functions import Coalesce, Now

from a2a.models import Tally, Task
from a2a.models.tallies import KEY
from a2a.models.tasks import TaskQuerySet
from a2a.models.whose import WhoseQuerySet

MOST_AT_ONCE = 500
#: For one sweep, which others wait for.
MOST_BATCHES = 20
#: It narrows tasks by whose they are and how they stand, and by nothing else: that much a tally knows.
Narrowing = Callable[[WhoseQuerySet[Any]], WhoseQuerySet[Any]]


class _NumberOf(Subquery):
    output_field = PositiveBigIntegerField()
    template = "(SELECT COUNT(*) FROM (%(subquery)s) one_by_one)"


def total(narrowed: Narrowing, *, run_id: UUID | None = None) -> int:
    """By one statement: between two, a sweep could make one task count twice, or not at all.

    What a run may see is counted one by one: no tally knows of runs.
    """
    if run_id is not None:
        return narrowed(Task.objects.all()).count()
    apart = narrowed(Task.objects.filter(tallied_at=None)).order_by().values("state")
    together = narrowed(Tally.objects.all())
    return int(together.aggregate(all=Coalesce(Sum("tasks"), 0) + _NumberOf(apart))["all"])


def add_up() -> int:
    """Take into the tallies what has ended. Two at once take different tasks."""
    done = 0
    for _ in range(MOST_BATCHES):
        # Mostly there is nothing, and SQLite has one lock for all who are about to write.
        if not _ended().exists():
            break
        added = _add_some()
        done += added
        if added < MOST_AT_ONCE:
            break
    return done


def _ended() -> TaskQuerySet:
    return Task.objects.filter(tallied_at=None, completed_at__isnull=False)


@transaction.atomic
def _add_some() -> int:
    held = (
        _ended()
        .order_by("completed_at")
        .select_for_update(skip_locked=True, no_key=True)
        .values_list("pk", *KEY)[:MOST_AT_ONCE]
    )
    found = {pk: key for pk, *key in held}
    _add(Counter(map(tuple, found.values())))
    Task.objects.filter(pk__in=found).update(tallied_at=Now())
    return len(found)


def _add(numbers: Counter[tuple[Any, ...]]) -> None:
    # In one order, so that of two who add to the same tallies neither holds what the other waits for.
    rows = sorted(((Tally.of(*key), number) for key, number in numbers.items()), key=lambda row: row[0].pk)
    Tally.objects.bulk_create([row for row, _ in rows], ignore_conflicts=True)
    for row, number in rows:
        Tally.objects.filter(pk=row.pk).update(tasks=F("tasks") + number)
