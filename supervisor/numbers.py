"""How the runs of an installation are doing, in a few numbers for whoever scrapes them."""

from dataclasses import dataclass

from django.db.models import Count, Q, Sum
from django.db.models.functions import Now

from supervisor.admission import HEARD_WITHIN
from supervisor.models import Execution, Runner


@dataclass(frozen=True)
class Numbers:
    waiting: int
    held: int
    capacity: int
    runners: int


def now() -> Numbers:
    """Rows that wait and rows that hold a slot are found by indexes of their own, however many have ended."""
    runs = Execution.objects.filter(Q(state="queued") | Q(slot__isnull=False)).aggregate(
        waiting=Count("pk", filter=Q(slot=None)), held=Count("pk", filter=Q(slot__isnull=False))
    )
    heard = Runner.objects.filter(seen_at__gt=Now() - HEARD_WITHIN).aggregate(
        capacity=Sum("capacity"), runners=Count("pk")
    )
    return Numbers(runs["waiting"], runs["held"], heard["capacity"] or 0, heard["runners"])
