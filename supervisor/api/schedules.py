"""Schedules: setting them up, pausing and running them, what became of their due times, and trying a rule."""

from typing import Any
from uuid import UUID

from common.api.operations import listing, operation
from nhi.api.views import ApiView
from supervisor import schedules
from supervisor.api.agents import caller_of
from supervisor.api.shapes import schedules as shapes
from supervisor.models import Agent, Schedule
from supervisor.schedules import checks as schedule_checks
from supervisor.schedules import pausing

ROWS = Schedule.objects.select_related("agent", "agent__identity")


def _named(view: ApiView, given: dict[str, Any]) -> dict[str, Any]:
    """What a body says, in the words of the verbs."""
    said = dict(given)
    if "agent_id" in said:
        said["agent"] = view.named(Agent.objects.select_related("identity"), "agent_id", said.pop("agent_id"))
    if "input_parameters" in said:
        said["inputs"] = said.pop("input_parameters")
    return said


class Schedules(ApiView):
    @listing(gives=shapes.ScheduleShape, filters=shapes.ScheduleFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List schedules

        Those you may see: all of them for console roles; else those of agents whose identities you manage. An identity
        sees its own."""
        active = asked.pop("active", None)
        rows = ROWS.visible_to(self.actor).kept().filter(**asked)
        if active is not None:
            fires = Schedule.objects.active().values("pk")
            rows = rows.filter(pk__in=fires) if active else rows.exclude(pk__in=fires)
        return rows

    @operation(takes=shapes.NewSchedule, gives=shapes.ScheduleShape, status=201, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Schedule:
        """Set up a schedule

        For security admins, and for people who manage the agent's identity. A rule with `*` as its hour goes by real
        time. Any other rule fires once for each local time: a time that a clock change leaves out fires at the first
        moment after the gap, a time that is repeated fires at its first occurrence."""
        said = _named(self, given)
        agent, inputs = said.pop("agent"), said.pop("inputs", None)
        return schedules.create(actor=self.actor, agent=agent, given=said, inputs=inputs)


class OfSchedule(ApiView):
    schedule: Schedule

    def find(self, **path: UUID) -> None:
        self.schedule = self.visible(ROWS.kept(), path["schedule_id"])


class OneSchedule(OfSchedule):
    @operation(gives=shapes.ScheduleShape)
    def get(self) -> Schedule:
        """Read a schedule"""
        return self.schedule

    @operation(takes=shapes.ScheduleChange, partial=True, gives=shapes.ScheduleShape, refusals=(409,))
    def patch(self, given: dict[str, Any]) -> Schedule:
        """Change a schedule

        Another rule, zone or `enabled` sets the next due time anew. Runs that are under way go on as they began."""
        return schedules.change(actor=self.actor, schedule=self.schedule, **_named(self, given))

    @operation(filters=shapes.WhyRemoved, gives=shapes.ScheduleShape, refusals=(400, 409))
    def delete(self, asked: dict[str, Any]) -> Schedule:
        """Remove a schedule

        It fires no more and its name is free. The answer is the schedule as it was last; its runs stay."""
        return schedules.remove(actor=self.actor, schedule=self.schedule, reason=asked.get("reason", ""))


class Run(OfSchedule):
    @operation(gives=shapes.RunShape, refusals=(409,))
    def post(self) -> Any:
        """Run a schedule now

        A run out of turn, with the schedule's input; `next_execution` stays. It is refused as a run of the agent
        itself would be."""
        run = schedules.run_now(caller=caller_of(self), schedule=self.schedule).execution
        return shapes.Shown.alone(pausing.read(self.schedule), execution_id=run.pk)


class Pause(OfSchedule):
    @operation(takes=shapes.WhyPerhaps, gives=shapes.ScheduleShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Schedule:
        """Pause a schedule

        Due times that pass until it is resumed are not missed; a run that is under way goes on."""
        return pausing.pause(actor=self.actor, schedule=self.schedule, **given)


class Resume(OfSchedule):
    @operation(takes=shapes.WhyPerhaps, gives=shapes.ScheduleShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Schedule:
        """Resume a schedule

        It fires from its next due time on."""
        return pausing.resume(actor=self.actor, schedule=self.schedule, **given)


class Fires(OfSchedule):
    @listing(gives=shapes.FireShape, filters=shapes.FireFilters, paged="cursor", time_column="due_at")
    def get(self, asked: dict[str, Any]) -> Any:
        """List due times of a schedule

        What became of each, the latest first. A due time that was missed has a run if the schedule's policy gave it
        one."""
        return self.schedule.fires.filter(**asked)


class Preview(ApiView):
    @operation(takes=shapes.Rule, gives=shapes.TimesShape)
    def post(self, given: dict[str, Any]) -> dict[str, Any]:
        """Say when a rule would be due

        Nothing is kept."""
        return {"times": schedule_checks.preview(**given)}
