"""Creates, changes, removes and reads budgets."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Count, Sum

from common.db import clock
from common.errors import Duplicate, FieldError
from mcp.choices import BudgetScope
from mcp.limits.budget_state import ROLLING_HOUR, BudgetState, floor_to_minute
from mcp.models import Budget, BudgetWindow, CallSlot, Server, Tool
from nhi.actors import Actor
from nhi.audit import events
from nhi.choices import Kind
from nhi.models import Identity, ToolPermission
from nhi.validation import Problems

#: Allowed values of the limits.
MAX_LIMIT = 2_000_000_000
MIN_RATE, MAX_RATE = 0.001, 100_000
MIN_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS = 0.1, 600
LIMIT_FIELDS = (
    "requests_per_second", "burst_size", "concurrency_limit", "timeout", "daily_quota", "calls_per_hour",
)  # fmt: skip


@dataclass(frozen=True)
class BudgetUsage:
    """A budget's calls today and in the last hour, its active calls and its tokens left, as of `at`."""

    day: int
    hour: int
    in_flight: int
    tokens: float | None
    at: datetime


def create(*, actor: Actor, scope: str, target_id: UUID, **limits: Any) -> Budget:
    actor.require("mcp.add_budget", "set budgets")
    problems = Problems()
    is_known_scope = scope in BudgetScope.values
    problems.unless(is_known_scope, "scope", "Choose server, tool, agent or grant.")
    name = find_target_name(BudgetScope(scope), target_id) if is_known_scope else ""
    problems.unless(
        name or not is_known_scope, "target_id", f"There is no {scope} with this id that can have a budget."
    )
    _check_limits(problems, limits)
    problems.raise_if_any()
    budget = Budget(scope=scope, target_id=target_id, target_name=name, created_by_name=actor.name, **limits)
    try:
        with transaction.atomic():
            budget.save(force_insert=True)
            events.write("budget.set", actor=actor, subject=budget, after=_limit_values(budget))
    except IntegrityError as error:
        field_errors = [FieldError("target_id", "This has a budget; change that one.")]
        raise Duplicate(f"{name} has a budget already.", fields=field_errors) from error
    return budget


def change(*, actor: Actor, budget: Budget, **limits: Any) -> Budget:
    """Change limits. The usage is kept."""
    actor.require("mcp.change_budget", "change budgets")
    with transaction.atomic():
        current = Budget.objects.select_for_update().get(pk=budget.pk)
        before = _limit_values(current)
        problems = Problems()
        _check_limits(problems, {**{name: getattr(current, name) for name in LIMIT_FIELDS}, **limits})
        problems.raise_if_any()
        for name, value in limits.items():
            setattr(current, name, value)
        current.save(update_fields=[*limits, "updated_at"])
        after = _limit_values(current)
        if before != after:
            events.write("budget.set", actor=actor, subject=current, before=before, after=after)
    return current


def remove(*, actor: Actor, budget: Budget) -> None:
    """Remove a budget. Active calls keep their slots until they end."""
    actor.require("mcp.delete_budget", "remove budgets")
    with transaction.atomic():
        current = Budget.objects.select_for_update().get(pk=budget.pk)
        events.write("budget.removed", actor=actor, subject=current, before=_limit_values(current))
        BudgetWindow.objects.filter(budget_id=current.pk).delete()
        current.delete()


def move_to_grant(old: UUID, new: UUID) -> None:
    """Move the budget of a renewed or changed grant to the grant's new row. The usage is kept. The event of the grant
    records which row replaced which."""
    Budget.objects.filter(scope=BudgetScope.GRANT, target_id=old).update(target_id=new)


def load_usage(budgets: list[Budget]) -> dict[UUID, BudgetUsage]:
    """Load the usage of several budgets, in three queries whatever their number."""
    now = clock.database_now()
    ids = [budget.pk for budget in budgets]
    hours = dict(
        BudgetWindow.objects.filter(budget_id__in=ids, minute__gte=floor_to_minute(now) - ROLLING_HOUR)
        .values("budget_id").annotate(calls=Sum("used")).values_list("budget_id", "calls")
    )  # fmt: skip
    in_flight = dict(
        CallSlot.objects.filter(budget_id__in=ids, deadline__gt=now)
        .values("budget_id").annotate(calls=Count("id")).values_list("budget_id", "calls")
    )  # fmt: skip
    return {
        budget.pk: _build_usage(budget, now, hours.get(budget.pk, 0), in_flight.get(budget.pk, 0)) for budget in budgets
    }


def find_target_name(scope: BudgetScope, target_id: UUID) -> str:
    """Return the name of a budget's target; empty when there is no such target."""
    if scope == BudgetScope.SERVER:
        server = Server.objects.filter(pk=target_id).first()
        return str(server) if server else ""
    if scope == BudgetScope.TOOL:
        tool = Tool.objects.select_related("server").filter(pk=target_id).first()
        return str(tool) if tool else ""
    if scope == BudgetScope.AGENT:
        agent = Identity.objects.filter(pk=target_id).exclude(kind=Kind.TOOL).first()
        return str(agent) if agent else ""
    grant = ToolPermission.objects.live().select_related("agent", "tool").filter(pk=target_id).first()
    return str(grant) if grant else ""


def remove_old_windows() -> int:
    """Remove windows that are older than any rolling hour."""
    return BudgetWindow.objects.filter(minute__lt=floor_to_minute(clock.database_now()) - 2 * ROLLING_HOUR).delete()[0]


def _build_usage(budget: Budget, now: datetime, hour: int, in_flight: int) -> BudgetUsage:
    budget_state = BudgetState(
        id=budget.pk, scope=budget.scope, target_id=budget.target_id, target_name=budget.target_name,
        requests_per_second=budget.requests_per_second, burst_size=budget.burst_size, tokens=budget.tokens,
        tokens_at=budget.tokens_at, day=budget.day, day_used=budget.day_used,
    )  # fmt: skip
    budget_state.refresh(now)
    tokens = (
        None if budget_state.tokens is None or budget.requests_per_second is None else round(budget_state.tokens, 3)
    )
    return BudgetUsage(budget_state.day_used, hour, in_flight, tokens, now)


def _limit_values(budget: Budget) -> dict[str, Any]:
    return {name: getattr(budget, name) for name in LIMIT_FIELDS}


def _check_limits(problems: Problems, limits: dict[str, Any]) -> None:
    rate, timeout = limits.get("requests_per_second"), limits.get("timeout")
    is_valid = rate is None or MIN_RATE <= rate <= MAX_RATE
    problems.unless(is_valid, "requests_per_second", f"Use {MIN_RATE:g} to {MAX_RATE} calls a second.")
    is_valid = timeout is None or MIN_TIMEOUT_SECONDS <= timeout <= MAX_TIMEOUT_SECONDS
    problems.unless(is_valid, "timeout", f"Use {MIN_TIMEOUT_SECONDS:g} to {MAX_TIMEOUT_SECONDS} seconds.")
    for name in ("burst_size", "concurrency_limit", "calls_per_hour"):
        problems.check_positive(name, limits.get(name))
    quota = limits.get("daily_quota") or 0
    problems.unless(0 <= quota <= MAX_LIMIT, "daily_quota", f"Use a whole number up to {MAX_LIMIT}; 0 for no quota.")
    burst = limits.get("burst_size")
    problems.unless(
        burst is None or rate is not None,
        "burst_size",
        "A burst is what a rate lets through at once: set calls per second too.",
    )
    has_limit = any(limits.get(name) for name in LIMIT_FIELDS)
    problems.unless(has_limit, "requests_per_second", "Set at least one limit.")
