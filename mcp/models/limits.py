"""How much may be called, and when a failing service is left alone."""

from django.db import models
from django.db.models import Q, QuerySet
from django.utils import timezone

from common.ids import uuid7
from mcp.choices import BreakerScope, BreakerState, BudgetScope
from mcp.models.servers import Server


class Budget(models.Model):
    """Limits on the calls of one server, tool, agent or grant, and what is used of them."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    scope = models.CharField(max_length=8, choices=BudgetScope)
    target_id = models.UUIDField()
    target_name = models.CharField(max_length=400)
    requests_per_second = models.FloatField(null=True, blank=True)
    burst_size = models.PositiveIntegerField(null=True, blank=True)
    concurrency_limit = models.PositiveIntegerField(null=True, blank=True)
    #: Seconds; the shortest of all that apply holds.
    timeout = models.FloatField(null=True, blank=True)
    #: 0 = none.
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
    """Calls of one budget in one minute: a rolling hour is the last sixty of them."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # No constraint: what counts is written in the deciding transaction and must not wait for its parent's lock.
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
    def for_all(self) -> "BreakerQuerySet":
        """Breakers that stop every caller of their service."""
        return self.filter(agent_id=None)

    def for_one(self) -> "BreakerQuerySet":
        """Breakers that stop one identity only."""
        return self.exclude(agent_id=None)


class Breaker(models.Model):
    """Whether a service is called: its consecutive faults, shared by all processes.

    A breaker without an identity stops every caller of its service. A breaker with one stops that identity alone.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    #: A server's name, or that of an outside service which Gatehouse itself calls.
    service_name = models.CharField(max_length=100)
    # No constraint in the database: a fault that makes a row must not wait for whoever has locked the server's.
    server = models.ForeignKey(
        Server, on_delete=models.PROTECT, null=True, related_name="breakers", db_constraint=False
    )
    #: The identity whose calls this breaker stops; null when it stops the calls of all.
    agent_id = models.UUIDField(null=True, editable=False)
    agent_name = models.CharField(max_length=192, blank=True, default="", editable=False)
    state = models.CharField(max_length=12, choices=BreakerState, default=BreakerState.CLOSED, editable=False)
    failure_count = models.PositiveIntegerField(default=0, editable=False)
    #: The last `failure_threshold` faults in a row of a server, oldest first, each as `[source, kind]`.
    recent_faults = models.JSONField(default=list, editable=False)
    failure_threshold = models.PositiveIntegerField(default=5)
    last_failure_time = models.DateTimeField(null=True, editable=False)
    #: Seconds.
    recovery_timeout = models.PositiveIntegerField(default=30)
    last_state_change = models.DateTimeField(default=timezone.now, editable=False)
    #: The one call that tries whether the service is back, and until when it is waited for.
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
