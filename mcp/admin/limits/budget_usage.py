"""The usage of budgets and the calls that they refused."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Any
from uuid import UUID

from django.db.models import Sum
from django.utils import timezone

from mcp.choices import BudgetScope
from mcp.limits.budgets import BudgetUsage
from mcp.models import Budget
from nhi.choices import CallStatus
from nhi.models import InvocationLog

#: From here on a budget runs out before it comes back, unless somebody looks.
NEAR = 70


@dataclass(frozen=True)
class Line:
    kind: str
    limit_words: str
    used: float = 0.0
    limit: float = 0.0
    #: What the numbers count: "this hour".
    words: str = ""

    @property
    def is_counted(self) -> bool:
        return self.limit > 0

    @property
    def percent(self) -> int:
        return min(100, round(100 * self.used / self.limit)) if self.limit else 0

    @property
    def tone(self) -> str:
        return "full" if self.percent >= 100 else "near" if self.percent >= NEAR else "some"

    @property
    def used_words(self) -> str:
        return f"{self.used:,.0f} of {self.limit:,.0f} {self.words}"


def lines_of(budget: Budget, used: BudgetUsage, *, hourly: int | None = None) -> list[Line]:
    """`hourly` is what the grant itself allows, where it says so."""
    return list(_lines(budget, used, _lower(budget.calls_per_hour, hourly)))


def _lines(budget: Budget, used: BudgetUsage, per_hour: int | None) -> Iterator[Line]:
    if budget.daily_quota:
        yield Line("daily_quota", f"{budget.daily_quota:,} a day", used.day, budget.daily_quota, "today")
    if per_hour:
        yield Line("calls_per_hour", f"{per_hour:,} an hour", used.hour, per_hour, "this hour")
    if budget.concurrency_limit:
        limit = budget.concurrency_limit
        yield Line("concurrency_limit", f"{limit:,} at once", used.in_flight, limit, "in flight")
    if budget.requests_per_second:
        burst = f", {budget.burst_size:,} in a burst" if budget.burst_size else ""
        yield Line("requests_per_second", f"{budget.requests_per_second:g} a second{burst}")
    if budget.timeout:
        yield Line("timeout", f"{budget.timeout:g} s a call")


def _lower(one: int | None, other: int | None) -> int | None:
    given = [limit for limit in (one, other) if limit is not None]
    return min(given) if given else None


def refused_today(budgets: list[Budget]) -> dict[UUID, int]:
    """One query: a day's refusals by agent, tool and grant, of which each scope adds up its own."""
    if not budgets:
        return {}
    today = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = (
        InvocationLog.objects.filter(status=CallStatus.RATE_LIMITED, timestamp__gte=today)
        .order_by().values_list("agent_id", "tool_id", "tool_name", "grant_id").annotate(calls=Sum("calls"))
    )  # fmt: skip
    sums: Counter[tuple[str, Any]] = Counter()
    for agent, tool, server, grant, calls in rows:
        sums.update(
            {("agent", agent): calls, ("tool", tool): calls, ("server", server): calls, ("grant", grant): calls}
        )
    return {budget.pk: sums[budget.scope, _key(budget)] for budget in budgets}


def _key(budget: Budget) -> Any:
    """The log knows servers by their names."""
    return budget.target_name if budget.scope == BudgetScope.SERVER else budget.target_id
