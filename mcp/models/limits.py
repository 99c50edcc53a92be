"""Budgets and circuit breakers."""

from django.db import models
from django.db.models import Q, QuerySet
from django.utils import timezone

from common.ids import uuid7
from mcp.choices import BreakerScope, BreakerState, BudgetScope
from mcp.models.servers import Server


class Budget(models.Model):
    """Limits on the calls of one server, tool, agent or grant, and their usage."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    scope = models.CharField(max_length=8, choices=BudgetScope)
    target_id = models.UUIDField()
    target_name = models.CharField(max_length=400)
    requests_per_second = models.FloatField(null=True, blank=True)
    burst_size = models.PositiveIntegerField(null=True, blank=True)
    concurrency_limit = models.PositiveIntegerField(null=True, blank=True)
    #: Seconds. The shortest timeout of all budgets that apply to a call is used.
    timeout = models.FloatField(null=True, blank=True)
    #: 0 means no quota.
    daily_quota = models.PositiveIntegerField(default=0)
    calls_per_hour = models.PositiveIntegerField(null=True, blank=True)

    tokens = models.FloatField(null=True, editable=False)
    tokens_at = models.DateTimeField(null=True, editable=False)
    #: The day, in UTC, that `day_used` counts.
    day = models.DateField(null=True, editable=False)
    day_used = models.PositiveIntegerField(default=0, editable=False)

    created_by_name = models.CharField(max_length=192, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "mcp_budget"
        ordering = ["scope", "target_name", "id"]
        constraints = [
            models.UniqueConstraint("scope", "target_id", name="mcp_budget_once"),
            models.CheckConstraint(condition=Q(scope__in=BudgetScope.values), name="mcp_budget_scope"),
        ]

    def __str__(self) -> str:
        return f"{BudgetScope(self.scope).label} {self.target_name}"


class BudgetWindow(models.Model):
    """The number of calls of one budget in one minute. A rolling hour is the sum of the last sixty windows."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # No constraint: the deciding transaction writes this row and must not wait for the lock of the budget.
    budget = models.ForeignKey(Budget, on_delete=models.DO_NOTHING, db_constraint=False, related_name="windows")
    minute = models.DateTimeField()
    used = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "mcp_budget_window"
        default_permissions = ()
        constraints = [models.UniqueConstraint("budget", "minute", name="mcp_budget_window_once")]

    def __str__(self) -> str:
        return f"{self.used} at {self.minute:%H:%M}"


class BreakerQuerySet(QuerySet["Breaker"]):
    """Circuit breakers. A breaker stops all callers of its service, or one identity."""

    def for_all(self) -> "BreakerQuerySet":
        """Breakers that stop every caller of their service."""
        return self.filter(agent_id=None)

    def for_one(self) -> "BreakerQuerySet":
        """Breakers that stop one identity only."""
        return self.exclude(agent_id=None)


class Breaker(models.Model):
    """A circuit breaker of a service. All processes share its state and its count of consecutive faults.

    A breaker without an identity stops every caller of its service. A breaker with one stops that identity alone.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    #: The name of a server, or of an external service that Gatehouse itself calls.
    service_name = models.CharField(max_length=100)
    # No constraint in the database: creating a breaker after a fault must not wait for a lock of the server's row.
    server = models.ForeignKey(
        Server, on_delete=models.PROTECT, null=True, related_name="breakers", db_constraint=False
    )
    #: The identity whose calls this breaker stops; null when it stops all callers.
    agent_id = models.UUIDField(null=True, editable=False)
    agent_name = models.CharField(max_length=192, blank=True, default="", editable=False)
    state = models.CharField(max_length=12, choices=BreakerState, default=BreakerState.CLOSED, editable=False)
    failure_count = models.PositiveIntegerField(default=0, editable=False)
    #: The last `failure_threshold` consecutive faults of a server, oldest first, each as `[source, kind]`.
    recent_faults = models.JSONField(default=list, editable=False)
    failure_threshold = models.PositiveIntegerField(default=5)
    last_failure_time = models.DateTimeField(null=True, editable=False)
    #: Seconds.
    recovery_timeout = models.PositiveIntegerField(default=30)
    last_state_change = models.DateTimeField(default=timezone.now, editable=False)
    #: The call that probes whether the service works again, and the time until which its result is awaited.
    probe_id = models.UUIDField(null=True, editable=False)
    probe_until = models.DateTimeField(null=True, editable=False)

    objects = BreakerQuerySet.as_manager()

    class Meta:
        db_table = "mcp_breaker"
        ordering = ["service_name", "agent_name", "id"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=BreakerState.values), name="mcp_breaker_state"),
            models.UniqueConstraint("service_name", condition=Q(agent_id=None), name="mcp_breaker_of_service"),
            models.UniqueConstraint("server", condition=Q(agent_id=None), name="mcp_breaker_of_server"),
            models.UniqueConstraint(
                "server", "agent_id", condition=Q(agent_id__isnull=False), name="mcp_breaker_of_identity"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.service_name} for {self.agent_name}" if self.agent_id else self.service_name

    @property
    def scope(self) -> BreakerScope:
        return BreakerScope.IDENTITY if self.agent_id else BreakerScope.SERVER
