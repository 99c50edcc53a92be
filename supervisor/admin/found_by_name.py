"""What goes by a name here, agents and schedules, for the palette: by one question for both, since it may ask few."""

from typing import Any

from django.db.models import Case, CharField, DateTimeField, F, IntegerField, QuerySet, Value, When
from django.db.models.functions import Cast

from common.console.command_palette import PER_GROUP
from nhi.actors import Actor
from supervisor.models import Agent, Schedule

AGENT, SCHEDULE = "agent", "schedule"


def find(actor: Actor, word: str) -> tuple[list[Agent], list[Schedule]]:
    """Those whose names hold the word, prefix first; only what their lines in the palette tell of them."""
    never = Cast(Value(None), DateTimeField())
    agents = _named(Agent.objects.visible_to(actor), word, AGENT, mode=F("mode"), paused=never)
    no_mode = Value("", output_field=CharField())
    schedules = _named(Schedule.objects.visible_to(actor).kept(), word, SCHEDULE, mode=no_mode, paused=F("paused_at"))
    rows = list(agents.union(schedules, all=True).order_by("rank", "name")[: 2 * PER_GROUP])
    found = [Agent(pk=pk, name=name, enabled=on, mode=mode) for what, pk, name, on, mode, _, _ in rows if what == AGENT]
    by_clock = [
        Schedule(pk=pk, name=name, enabled=on, paused_at=paused)
        for what, pk, name, on, _, paused, _ in rows
        if what == SCHEDULE
    ]
    return found[:PER_GROUP], by_clock[:PER_GROUP]


def _named(rows: QuerySet[Any], word: str, what: str, *, mode: Any, paused: Any) -> QuerySet[Any]:
    begins = When(name__istartswith=word, then=Value(0))
    columns = {
        "what": Value(what, output_field=CharField()),
        "shown_mode": mode,
        "paused": paused,
        "rank": Case(begins, default=Value(1), output_field=IntegerField()),
    }
    held = rows.filter(name__icontains=word).order_by().annotate(**columns)
    named: QuerySet[Any] = held.values_list("what", "pk", "name", "enabled", "shown_mode", "paused", "rank")
    return named
