"""Whether what is said of a schedule can be taken: every problem, by its field."""

from datetime import datetime
from typing import Any

from common.db.clock import MAX_TIME, MIN_TIME
from common.errors import InvalidInput
from nhi.validation import Problems
from supervisor import submitting
from supervisor.choices import MisfirePolicy, Mode, OverlapPolicy
from supervisor.models import Agent, Schedule
from supervisor.schedules import clock as schedule_clock
from supervisor.schedules import cron, due_times
from supervisor.schedules.cron import BadCron, BadZone
from supervisor.schedules.facts import NEXT
from supervisor.submitting import Wish

MOST_PREVIEWED = 100


def check(problems: Problems, schedule: Schedule, given: dict[str, Any] | None, *, new_agent: bool) -> None:
    """`given` is its input, open, where that is to be looked at; `new_agent`: it is given this agent now."""
    check_described(problems, schedule)
    if new_agent:
        _check_agent(problems, schedule.agent)
    if given is not None:
        _check_input(problems, schedule.agent, given)


def check_described(problems: Problems, schedule: Schedule) -> None:
    """What is said of it besides its agent and its input."""
    problems.check_line("name", schedule.name, max_length=100, required=True)
    check_times(problems, schedule.cron_expression, schedule.timezone)
    _among(problems, "misfire_policy", schedule.misfire_policy, MisfirePolicy.values)
    _among(problems, "overlap_policy", schedule.overlap_policy, OverlapPolicy.values)


def check_times(problems: Problems, expression: str, timezone: str) -> None:
    try:
        due_times.parsed(expression)
    except BadCron as error:
        problems.add("cron_expression", str(error))
    try:
        cron.zone(timezone)
    except BadZone as error:
        problems.add("timezone", str(error))


def preview(
    *, cron_expression: str, timezone: str = "UTC", after: datetime | None = None, count: int = NEXT
) -> list[datetime]:
    """When a rule would be due."""
    problems = Problems()
    check_times(problems, cron_expression, timezone)
    moment = after or schedule_clock.now()
    problems.unless(MIN_TIME <= moment < MAX_TIME, "after", f"Use a time from {MIN_TIME.year} to {MAX_TIME.year - 1}.")
    problems.unless(1 <= count <= MOST_PREVIEWED, "count", f"Use 1 to {MOST_PREVIEWED}.")
    problems.raise_if_any()
    return due_times.upcoming(due_times.parsed(cron_expression), cron.zone(timezone), moment, count)


def _check_agent(problems: Problems, agent: Agent) -> None:
    runs_tasks = agent.mode == Mode.TASK
    problems.unless(runs_tasks, "agent_id", f"{agent} is interactive: it holds sessions and runs no tasks.")
    problems.unless(agent.enabled, "agent_id", f"{agent} is switched off. Switch it on first.")


def _check_input(problems: Problems, agent: Agent, given: dict[str, Any]) -> None:
    try:
        submitting.check(agent, Wish(input=given["input"], parameters=given["parameters"]))
    except InvalidInput as error:
        for one in error.fields:
            problems.add(f"input_parameters.{one.field}", one.message)


def _among(problems: Problems, field: str, value: str, known: list[str]) -> None:
    problems.unless(value in known, field, f"Choose {', '.join(known[:-1])} or {known[-1]}.")
