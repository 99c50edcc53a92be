"""Runs by the clock, and a row for each time that was due."""

from typing import TYPE_CHECKING

from django.db import models
from django.db.models import Q
from django.utils.timezone import now

from common.db.querysets import NonDeletableModel, NonDeletableQuerySet
from common.ids import uuid7
from nhi.models import Identity
from supervisor.choices import FireState, MisfirePolicy, OverlapPolicy
from supervisor.models.agents import Agent

if TYPE_CHECKING:
    from nhi.actors import Actor


class ScheduleQuerySet(NonDeletableQuerySet["Schedule"]):
    def visible_to(self, actor: "Actor") -> "ScheduleQuerySet":
        if actor.may("supervisor.view_schedule"):
            return self
        if actor.is_person:
            return self.filter(agent__identity__in=Identity.objects.managed_by(actor).values("pk"))
        # A schedule is the agent's, never one run's.
        return self.none() if actor.run_id is not None else self.filter(agent__identity_id__in=[actor.id])

    def kept(self) -> "ScheduleQuerySet":
        return self.filter(removed_at=None)

    def active(self) -> "ScheduleQuerySet":
        """Those that fire."""
        return self.kept().filter(enabled=True, paused_at=None)


class Schedule(NonDeletableModel):
    """When an agent is run without being asked. Seed 001: ScheduledTask."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="schedules")
    cron_expression = models.CharField(max_length=200)
    timezone = models.CharField(max_length=64, default="UTC")
    #: `{input, parameters}`, as they may be shown.
    input_parameters = models.JSONField(default=dict)
    sealed_input = models.TextField(blank=True, editable=False)
    #: What its admins want. Whether it fires now is `active`.
    enabled = models.BooleanField(default=True)
    misfire_policy = models.CharField(max_length=4, choices=MisfirePolicy, default=MisfirePolicy.SKIP)
    overlap_policy = models.CharField(max_length=5, choices=OverlapPolicy, default=OverlapPolicy.SKIP)
    paused_at = models.DateTimeField(null=True, editable=False)
    paused_by_name = models.CharField(max_length=192, blank=True, editable=False)
    pause_reason = models.CharField(max_length=500, blank=True, editable=False)
    #: The next due time that has no row of its own yet.
    next_execution = models.DateTimeField(null=True, editable=False)
    last_execution = models.DateTimeField(null=True, editable=False)
    removed_at = models.DateTimeField(null=True, editable=False)
    created_by_id = models.UUIDField(null=True, editable=False)
    created_by_name = models.CharField(max_length=192, editable=False)
    created_at = models.DateTimeField(default=now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    objects = ScheduleQuerySet.as_manager()

    class Meta:
        db_table = "supervisor_schedule"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint("name", condition=Q(removed_at=None), name="supervisor_schedule_name"),
            models.CheckConstraint(
                condition=Q(misfire_policy__in=MisfirePolicy.values), name="supervisor_schedule_misfire"
            ),
            models.CheckConstraint(
                condition=Q(overlap_policy__in=OverlapPolicy.values), name="supervisor_schedule_overlap"
            ),
        ]
        indexes = [models.Index(fields=["next_execution"], name="supervisor_schedule_due")]

    def __str__(self) -> str:
        return self.name

    @property
    def active(self) -> bool:
        """Whether it fires."""
        return self.enabled and self.paused_at is None and self.removed_at is None


class ScheduleFire(NonDeletableModel):
    """One due time and what became of it. There is one row for it, whoever looked."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    schedule = models.ForeignKey(Schedule, on_delete=models.PROTECT, related_name="fires")
    due_at = models.DateTimeField()
    state = models.CharField(max_length=7, choices=FireState)
    reason = models.CharField(max_length=500, blank=True)
    execution_id = models.UUIDField(null=True)
    #: Its run is still to come: it waits for the one before, or for room.
    owed = models.BooleanField(default=False)
    at = models.DateTimeField(default=now)

    class Meta:
        db_table = "supervisor_schedule_fire"
        ordering = ["-due_at", "-id"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint("schedule", "due_at", name="supervisor_fire_once"),
            models.CheckConstraint(condition=Q(state__in=FireState.values), name="supervisor_fire_state"),
        ]
        indexes = [
            models.Index(fields=["schedule", "due_at"], name="supervisor_fire_owed", condition=Q(owed=True)),
            models.Index(fields=["state", "-due_at"], name="supervisor_fire_by_state"),
        ]

    def __str__(self) -> str:
        return f"{self.schedule_id} at {self.due_at:%Y-%m-%d %H:%M}"
