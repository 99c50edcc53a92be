"""Schedules: adding, changing and removing them, and a run out of turn."""

from collections.abc import Mapping
from copy import copy
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from common.errors import Conflict, Duplicate, FieldError, InvalidInput
from nhi.actors import Actor
from nhi.audit import events
from nhi.validation import Problems
from supervisor import submitting
from supervisor.access import Caller
from supervisor.choices import Trigger
from supervisor.models import Agent, Schedule
from supervisor.schedules import checks as schedule_checks
from supervisor.schedules import clock as schedule_clock
from supervisor.schedules import facts as schedule_facts
from supervisor.schedules import pausing
from supervisor.schedules import rights as schedule_rights
from supervisor.schedules.rights import ADD, CHANGE
from supervisor.submitting import Submitted, Wish

TAKEN = [FieldError("name", "This name is taken.")]
HIDDEN = "Give it again: what is masked in it is not handed to another agent."


def create(
    *, actor: Actor, agent: Agent, given: Mapping[str, Any], inputs: Mapping[str, Any] | None = None
) -> Schedule:
    """Set up runs of an agent by the clock; `inputs` is what they are given: input and parameters."""
    schedule_rights.require(actor, ADD, agent, "add schedules")
    schedule = Schedule(agent=agent, created_by_id=actor.id, created_by_name=actor.name)
    _describe(schedule, given)
    opened = schedule_facts.whole(inputs or {})
    _check(schedule, opened, new_agent=True)
    schedule_facts.seal(schedule, opened)
    schedule.next_execution = schedule_facts.next_due(schedule)
    try:
        with transaction.atomic():
            schedule.save(force_insert=True)
            events.write("schedule.added", actor=actor, subject=schedule, after=schedule_facts.for_record(schedule))
    except IntegrityError as error:
        raise Duplicate(f"There is already a schedule {schedule.name}.", fields=TAKEN) from error
    return schedule


def change(
    *, actor: Actor, schedule: Schedule, inputs: Mapping[str, Any] | None = None, **given: Any
) -> Schedule:  # fmt: skip
    """Change a schedule. Runs that are under way go on as they began."""
    schedule_rights.require_change(actor, schedule)
    if "agent" in given:
        schedule_rights.require(actor, CHANGE, given["agent"], "change schedules of this agent")
    try:
        with transaction.atomic():
            current = pausing.locked(schedule)
            before, clockwork, was = schedule_facts.for_record(current), _clockwork(current), copy(current)
            _describe(current, given)
            opened = _input(current, inputs, was)
            _check(current, opened, new_agent=current.agent_id != was.agent_id)
            if opened is not None:
                schedule_facts.seal(current, opened)
            if _clockwork(current) != clockwork:
                current.next_execution = schedule_facts.next_due(current)
            current.save()
            if not current.active:
                pausing.forgive(Schedule.objects.filter(pk=current.pk), "The schedule was switched off.")
            _record_change(actor, current, before, new_input=opened is not None and not _has_input(was, opened))
    except IntegrityError as error:
        raise Duplicate(f"There is already a schedule {given.get('name')}.", fields=TAKEN) from error
    return current


def foresee(*, given: Mapping[str, Any], inputs: Mapping[str, Any], schedule: Schedule | None = None) -> None:
    """Raise what adding it, or changing `schedule`, would be refused for, of what is said so far; change nothing."""
    draft = Schedule() if schedule is None else copy(schedule)
    _describe(draft, given)
    if "agent" in given:
        new_agent = schedule is None or schedule.agent_id != draft.agent_id
        _check(draft, schedule_facts.whole(inputs), new_agent=new_agent)
    else:
        problems = Problems()
        schedule_checks.check_described(problems, draft)
        problems.raise_if_any()


def remove(*, actor: Actor, schedule: Schedule, reason: str = "") -> Schedule:
    """It fires no more and its name is free; its runs and what became of its due times stay on record."""
    schedule_rights.require_change(actor, schedule)
    problems = Problems()
    problems.check_reason(reason, required=False)
    problems.raise_if_any()
    with transaction.atomic():
        rows = Schedule.objects.filter(pk=schedule.pk)
        moved = rows.filter(removed_at=None).update(
            removed_at=schedule_clock.now(), next_execution=None, updated_at=Now()
        )
        if not moved:
            raise Conflict(f"{schedule} is removed already. Nothing was changed.")
        pausing.forgive(rows, "The schedule was removed.")
        before = schedule_facts.for_record(schedule)
        events.write("schedule.removed", actor=actor, subject=schedule, before=before, reason=reason)
    return pausing.read(schedule)


def run_now(*, caller: Caller, schedule: Schedule) -> Submitted:
    """A run out of turn, with the schedule's input. Its next due time stays as it is."""
    schedule_rights.require_operate(caller.actor, schedule)
    asked = submitting.submit(caller=caller, agent=schedule.agent, wish=wish(schedule, trigger=Trigger.MANUAL))
    Schedule.objects.filter(pk=schedule.pk).update(last_execution=schedule_clock.now())
    return asked


def wish(schedule: Schedule, *, trigger: Trigger, **context: Any) -> Wish:
    """What a run of it is given."""
    return Wish(**schedule_facts.opened(schedule), trigger=trigger, schedule_id=schedule.pk, context=context)


def _describe(schedule: Schedule, given: Mapping[str, Any]) -> None:
    for field, value in given.items():
        if field not in schedule_facts.DESCRIBED:
            raise TypeError(f"{field} does not describe a schedule")
        setattr(schedule, field, value)


def _input(schedule: Schedule, given: Mapping[str, Any] | None, was: Schedule) -> dict[str, Any] | None:
    """Its input, open, where it has to be looked at; None where it stays as it is, whatever its agent wants by now."""
    new_agent = schedule.agent_id != was.agent_id
    if given is not None:
        return schedule_facts.whole(given)
    if new_agent and schedule_facts.hides(schedule):
        # Whoever sees only the mask would have another program print what is behind it.
        raise InvalidInput.for_field("input_parameters", HIDDEN)
    return schedule_facts.opened(schedule) if new_agent or (schedule.enabled and not was.enabled) else None


def _check(schedule: Schedule, opened: dict[str, Any] | None, *, new_agent: bool) -> None:
    problems = Problems()
    schedule_checks.check(problems, schedule, opened, new_agent=new_agent)
    problems.raise_if_any()


def _clockwork(schedule: Schedule) -> tuple[Any, ...]:
    """What its next due time follows from."""
    return schedule.cron_expression, schedule.timezone, schedule.active


def _has_input(schedule: Schedule, opened: Mapping[str, Any]) -> bool:
    """Whether this is its input already. What is masked in the record of a schedule differs here."""
    try:
        return schedule_facts.opened(schedule) == opened
    except schedule_facts.InputUnreadable:
        return False


def _record_change(actor: Actor, schedule: Schedule, before: dict[str, Any], *, new_input: bool) -> None:
    """A new secret in the input changes nothing that is shown, and is a change: its author stands behind the runs."""
    after = schedule_facts.for_record(schedule)
    changed = [name for name in after if before[name] != after[name] or (name == "input_parameters" and new_input)]
    if changed:
        events.write(
            "schedule.changed",
            actor=actor,
            subject=schedule,
            before={name: before[name] for name in changed},
            after={name: after[name] for name in changed},
        )
