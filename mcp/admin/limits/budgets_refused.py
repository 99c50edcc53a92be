"""How many calls of what a budget is about were refused today for a budget, from the log and its index of outcomes."""

from collections import Counter
from datetime import UTC
from typing import Any
from uuid import UUID

from django.db.models import Sum
from django.utils import timezone

from mcp.choices import BudgetScope
from mcp.models import Budget
from nhi.choices import CallStatus
from nhi.models import InvocationLog


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
