"""Budgets that are used up and breakers that are open, for pages to show."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.utils import timezone

from mcp.choices import BreakerState
from mcp.limits import budgets
from mcp.limits.budget_state import floor_to_minute
from mcp.models import Breaker, Budget, BudgetWindow, CallSlot, Server
from nhi.actors import SYSTEM
from tests.console.conftest import identity


def budget(scope: str = "agent", target: Any = None, **limits: Any) -> Budget:
    return budgets.create(actor=SYSTEM, scope=scope, target_id=(target or identity()).pk, **limits)


def spend(of: Budget, *, hour: int = 0, day: int = 0, slots: int = 0) -> None:
    now = timezone.now()
    BudgetWindow.objects.create(budget=of, minute=floor_to_minute(now), used=hour)
    Budget.objects.filter(pk=of.pk).update(day=now.date(), day_used=day)
    later = now + timedelta(seconds=30)
    CallSlot.objects.bulk_create(CallSlot(budget_id=of.pk, call_id=uuid4(), deadline=later) for _ in range(slots))


def breaker(name: str = "github", **columns: Any) -> Breaker:
    server = Server.objects.filter(name=name).first()
    given = {"state": BreakerState.OPEN, "failure_count": 5, "last_failure_time": timezone.now(), **columns}
    return Breaker.objects.create(service_name=name, server=server, **given)
