"""What runs out before it comes back, and which servers were away: a query each."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Case, Count, F, FloatField, IntegerField, Max, OuterRef, Q, Subquery, Sum, Value, When
from django.db.models.functions import Cast, Coalesce, Least, TruncHour
from django.utils import timezone

from common.db.clock import start_of_hour
from mcp.admin.limits.budget_usage import NEAR
from mcp.choices import HealthStatus
from mcp.limits.budget_state import ROLLING_HOUR, floor_to_minute
from mcp.models import Budget, BudgetWindow, CallSlot, HealthReport, Server
from nhi.actors import Actor
from nhi.models import ToolPermission

SHOWN = 8
CELLS = 24
SERVERS = 12
#: The worst that was found in an hour is what the hour shows.
WORST = (HealthStatus.HEALTHY, HealthStatus.DEGRADED, HealthStatus.UNHEALTHY)


def near_their_end() -> list[Any]:
    """Budgets of which most is used, the fullest first: `share` in hundredths, of the tightest that they count."""
    now = timezone.now()
    hour = BudgetWindow.objects.filter(budget_id=OuterRef("pk"), minute__gte=floor_to_minute(now) - ROLLING_HOUR)
    slots = CallSlot.objects.filter(budget_id=OuterRef("pk"), deadline__gt=now)
    granted = ToolPermission.objects.filter(pk=OuterRef("target_id")).values("max_calls_per_hour")
    rows: Any = Budget.objects.annotate(
        granted=Subquery(granted),
        hourly=Least(Coalesce("calls_per_hour", "granted"), Coalesce("granted", "calls_per_hour")),
        hour_used=_total(hour.values("budget_id").annotate(all=Sum("used")).values("all")),
        flying=_total(slots.values("budget_id").annotate(all=Count("pk")).values("all")),
        today_used=Case(
            When(day=now.astimezone(UTC).date(), then=F("day_used")), default=Value(0), output_field=IntegerField()
        ),
    )
    shares = {
        "hour_share": _share("hour_used", "hourly"),
        "day_share": _share("today_used", "daily_quota"),
        "slot_share": _share("flying", "concurrency_limit"),
    }
    near = Q(hour_share__gte=NEAR) | Q(day_share__gte=NEAR) | Q(slot_share__gte=NEAR)
    found = list(rows.annotate(**shares).filter(near).order_by("target_name")[:100])
    return sorted(found, key=lambda row: -max(row.hour_share, row.day_share, row.slot_share))[:SHOWN]


def _total(counted: Any) -> Coalesce:
    return Coalesce(Subquery(counted[:1], output_field=IntegerField()), 0)


def _share(used: str, limit: str) -> Case:
    whole = 100.0 * Cast(used, FloatField()) / Cast(limit, FloatField())
    return Case(When(**{f"{limit}__gt": 0}, then=whole), default=Value(0.0), output_field=FloatField())


def health(actor: Actor) -> dict[Any, dict[datetime, int]]:
    """For each server the worst of every hour of the last day, as a place in WORST."""
    begins = start_of_hour(timezone.now()) - timedelta(hours=CELLS - 1)
    enabled = Server.objects.visible_to(actor).enabled().order_by("name")
    servers = dict(enabled.values_list("pk", "name")[:SERVERS])
    rank = Case(*(When(status=status, then=Value(place)) for place, status in enumerate(WORST)), default=Value(0))
    rows = HealthReport.objects.filter(server__in=servers, timestamp__gte=begins).order_by()
    by_hour = rows.values_list("server_id", TruncHour("timestamp", tzinfo=UTC)).annotate(worst=Max(rank))
    found: dict[Any, dict[datetime, int]] = {(name, server): {} for server, name in servers.items()}
    for server, hour, worst in by_hour:
        found[servers[server], server][hour] = worst
    return found
