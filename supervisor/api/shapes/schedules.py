"""Schedules as they are set up and read, what became of their due times, and when a rule is due."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from rest_framework import serializers

from common.api.fields import Flag, Identifier, Mapping, Moment, Text, Whole, Word
from common.api.shapes import Filters, Input, Shape
from nhi.api.shapes import examples as story
from supervisor.api.shapes import examples
from supervisor.choices import FireState, MisfirePolicy, OverlapPolicy, ScheduleState
from supervisor.models import Schedule
from supervisor.schedules import clock as schedule_clock
from supervisor.schedules import facts as schedule_facts

WEEKDAYS = "30 9 * * MON-FRI"
RULE = (
    "Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly, @yearly. With `*` as its "
    "hour it goes by real time over clock changes."
)
MISSED = "What becomes of due times that are more than 30 seconds late: `once` is one run for the latest."
OVERLAP = "What becomes of a due time while the run before is not done."
NEXT_EXECUTION = (
    "When it fires next. Null while it does not fire: it is paused or not enabled, its agent is switched off, or the "
    "agent's identity may not act."
)
NEXT_FIVE = "The next due times of its rule, whether or not it fires then."
DUE = [f"2026-11-{day}T08:30:00.000000Z" for day in (19, 20, 23, 24, 25)]


class InputsShape(Shape):
    input = Text()
    parameters = Mapping()


class ScheduleRows(serializers.ListSerializer[Any]):
    """The clock, and which schedules of a page have a run that is not done, are read once for the page."""

    def to_representation(self, data: Any) -> list[Any]:
        rows = list(data)
        running, now = schedule_facts.running(rows), schedule_clock.now()
        return super().to_representation([Shown(row, runs=row.pk in running, now=now) for row in rows])


class ScheduleShape(Shape):
    id = Identifier()
    name = Text()
    agent_id = Identifier()
    agent_name = Text(source="agent.name")
    cron_expression = Text()
    timezone = Text()
    words = Text(help_text="The rule as a person would say it.")
    input_parameters = InputsShape(help_text="What each run is given. What looks like a secret is masked.")
    enabled = Flag(help_text="What its admins want.")
    active = Flag(help_text="Whether it fires: enabled, and not paused.")
    state = Word(choices=ScheduleState.choices)
    misfire_policy = Word(choices=MisfirePolicy.choices, help_text=MISSED)
    overlap_policy = Word(choices=OverlapPolicy.choices, help_text=OVERLAP)
    paused_by = Text(source="paused_by_name", help_text="Empty while it is not paused.")
    pause_reason = Text()
    last_execution = Moment(allow_null=True, help_text="When a run of it was asked for last.")
    next_execution = Moment(allow_null=True, help_text=NEXT_EXECUTION)
    next_five = serializers.ListField(child=Moment(), help_text=NEXT_FIVE)
    problem = Text(help_text="Why nobody can tell when it is due; empty while one can.")
    created_by = Text(source="created_by_name")
    created_at = Moment()
    updated_at = Moment()

    example = {
        "id": examples.SCHEDULE,
        "name": "morning-report",
        "agent_id": examples.AGENT,
        "agent_name": "summarise",
        "cron_expression": WEEKDAYS,
        "timezone": "Europe/Berlin",
        "words": "at 09:30 on Monday to Friday",
        "input_parameters": {"input": "Yesterday's figures", "parameters": {"tone": "dry"}},
        "enabled": True,
        "active": True,
        "state": "active",
        "misfire_policy": "once",
        "overlap_policy": "skip",
        "paused_by": "",
        "pause_reason": "",
        "last_execution": None,
        "next_execution": DUE[0],
        "next_five": DUE,
        "problem": "",
        "created_by": "mara",
        "created_at": story.NOW,
        "updated_at": story.NOW,
    }

    class Meta:
        list_serializer_class = ScheduleRows

    def to_representation(self, instance: Any) -> dict[str, Any]:
        whole = instance if isinstance(instance, Shown) else Shown.alone(instance)
        return super().to_representation(whole)


class RunShape(ScheduleShape):
    """The schedule, and the run."""

    execution_id = Identifier(help_text="The run's.")

    example = {**ScheduleShape.example, "state": "executing", "execution_id": examples.RUN}


class Shown:
    """A schedule, with what is derived from its row; after a run out of turn, with that."""

    def __init__(
        self, schedule: Schedule, *, runs: bool, execution_id: UUID | None = None, now: datetime | None = None
    ) -> None:
        self._schedule, self._now = schedule, now
        self.state = schedule_facts.state(schedule, runs=runs)
        self.execution_id = execution_id

    @classmethod
    def alone(cls, schedule: Schedule, *, execution_id: UUID | None = None) -> "Shown":
        return cls(schedule, runs=bool(schedule_facts.running([schedule])), execution_id=execution_id)

    @property
    def words(self) -> str:
        return schedule_facts.words(self._schedule)

    @property
    def next_execution(self) -> datetime | None:
        return schedule_facts.next_execution(self._schedule)

    @property
    def next_five(self) -> Sequence[datetime]:
        return schedule_facts.upcoming(self._schedule, now=self._now)

    @property
    def problem(self) -> str:
        return schedule_facts.problem(self._schedule)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schedule, name)


class Inputs(Input):
    input = Text(required=False, help_text="What each run is given, in the way that its agent reads it.")
    parameters = Mapping(required=False, help_text="By name; the agent's command line may want some.")

    example = {"input": "Yesterday's figures", "parameters": {"tone": "dry"}}


class ScheduleChange(Input):
    name = Text(required=False, help_text="Unique among schedules.")
    agent_id = Identifier(required=False, help_text="An agent that runs tasks and is switched on.")
    cron_expression = Text(required=False, help_text=RULE)
    timezone = Text(required=False, help_text="Whose clock the rule is about, like Europe/Vienna. UTC unless given.")
    input_parameters = Inputs(required=False, help_text="All of it anew. Kept encrypted.")
    enabled = Flag(required=False)
    misfire_policy = Word(choices=MisfirePolicy.choices, required=False, help_text=MISSED)
    overlap_policy = Word(choices=OverlapPolicy.choices, required=False, help_text=OVERLAP)

    example = {"cron_expression": WEEKDAYS, "misfire_policy": "once"}


class NewSchedule(ScheduleChange):
    name = Text(help_text="Unique among schedules.")
    agent_id = Identifier(help_text="An agent that runs tasks and is switched on.")
    cron_expression = Text(help_text=RULE)

    example = {
        "name": "morning-report",
        "agent_id": examples.AGENT,
        "cron_expression": WEEKDAYS,
        "timezone": "Europe/Berlin",
        "input_parameters": Inputs.example,
        "misfire_policy": "once",
    }


class ScheduleFilters(Filters):
    agent_id = Identifier(required=False)
    name = serializers.CharField(required=False, help_text="The whole name.")
    enabled = serializers.BooleanField(required=False)
    active = serializers.BooleanField(required=False)


class WhyRemoved(Filters):
    reason = Text(required=False, help_text="Why, in at most 500 characters; it is kept on record.")


class WhyPerhaps(Input):
    reason = Text(required=False, help_text="Why, in at most 500 characters; it is kept on record.")

    example = {"reason": "Maintenance"}


class FireShape(Shape):
    due_at = Moment()
    state = Word(choices=FireState.choices)
    reason = Text(help_text="Why there was no run in time; empty when there was.")
    execution_id = Identifier(allow_null=True)

    example = {"due_at": DUE[0], "state": "fired", "reason": "", "execution_id": examples.RUN}


class FireFilters(Filters):
    state = Word(choices=FireState.choices, required=False)


class Rule(Input):
    cron_expression = Text(help_text=RULE)
    timezone = Text(required=False, help_text="UTC unless given.")
    after = Moment(required=False, help_text="Now unless given.")
    count = Whole(required=False, help_text="1 to 100; 5 unless given.")

    example = {"cron_expression": WEEKDAYS, "timezone": "Europe/Berlin", "count": 5}


class TimesShape(Shape):
    times = serializers.ListField(child=Moment())

    example = {"times": DUE}
