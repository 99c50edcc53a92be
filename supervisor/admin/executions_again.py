"""Running several runs again, each with what it was given."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponse
from django.urls import path
from django.utils.functional import cached_property
from django.utils.html import format_html

from common.console.confirmation_dialogs import Effect, counted
from common.console.forms import ConsoleForm
from common.console.pages import link
from common.errors import Conflict
from nhi.access.bulk import ItemResult
from supervisor import access, admission, submitting
from supervisor.access import Caller
from supervisor.admin import agents_cells
from supervisor.admin.executions_bulk import Bulk
from supervisor.choices import Mode
from supervisor.models import Agent, Execution
from supervisor.submitting import Submitted

NO_MORE_KEPT = "was given secrets or variables, which are not kept: run it again from its page"
MOST_NAMED = 5


class Again(Bulk):
    """Each with what it was given, as the person who asks for it now."""

    verb = "Run again"
    doing = "run runs again"
    leave = "Leave them"
    others = "for the others, narrow the filter by From and Until"

    def fits(self, rows: QuerySet[Execution]) -> QuerySet[Execution]:
        return rows.filter(mode=Mode.TASK)

    @property
    def title(self) -> str:  # type: ignore[override]  # the number is known once there is a request
        return f"Run {self.counted(len(self.fitting))} again"

    @property
    def lead(self) -> str:  # type: ignore[override]  # what would become of them is counted by now
        told = "Each is asked for anew with what it was given, and is yours: you are who started it."
        return " ".join([told, *_foreseen(self.fitting)])

    def misfit(self, one: Execution) -> str:
        if one.mode != Mode.TASK:
            return "was a conversation, which nobody can hold again"
        if one.agent.identity_id not in self._runnable:
            return "is of an agent that you may not run"
        if not one.agent.enabled:
            return "is of an agent that is switched off"
        if why := agents_cells.not_run(one.agent):
            return f"is of an agent whose identity is {why}"
        return "" if one.pk in self._kept else NO_MORE_KEPT

    @cached_property
    def _runnable(self) -> Collection[UUID]:
        return access.runnable(self.actor, {run.agent.identity_id for run in self.chosen})

    @cached_property
    def _kept(self) -> set[UUID]:
        """Those of which all is known that they were given. Looked at one by one: an input may be a megabyte."""
        given = Execution.objects.filter(pk__in=[run.pk for run in self.chosen]).select_related("agent")
        return {run.pk for run in given.iterator(chunk_size=1) if submitting.wish_of(run) is not None}

    def effects(self) -> list[Effect]:
        names = sorted({run.agent.identity.name for run in self.fitting})
        said = ", ".join([*names[:MOST_NAMED], *(["others"] if len(names) > MOST_NAMED else [])])
        return [
            counted("runs", len(self.fitting), "Asks for {} run", "Asks for {} runs"),
            Effect("identities", len(names), f"They act as {said}: what that may call, they may call"),
        ]

    @cached_property
    def _begun(self) -> dict[UUID, Submitted]:
        return {}

    def each(self, form: ConsoleForm) -> Callable[[Execution], Any]:
        return self._again

    def _again(self, run: Execution) -> Execution:
        whole = Execution.objects.select_related("agent__identity__owner").get(pk=run.pk)
        wish = submitting.wish_of(whole)
        if wish is None:
            raise Conflict(f"It {NO_MORE_KEPT}.")
        try:
            begun = submitting.submit(caller=Caller(self.actor), agent=whole.agent, wish=wish)
        except admission.NoRoom as error:
            raise Conflict(error.said) from error
        self._begun[run.pk] = begun
        return begun.execution

    def told(self, results: Sequence[ItemResult]) -> HttpResponse:
        return super().told([replace(item, message=self._became(item)) for item in results])

    def _became(self, item: ItemResult) -> str:
        begun = self._begun.get(item.target_id)
        if begun is None:
            return item.message
        said = "The same was asked for a moment ago: it is {}." if begun.again else "It runs again as {}."
        there = format_html(
            '<a href="{}">{}</a>', link("supervisor_execution_hub", begun.execution.pk), begun.execution
        )
        return format_html(said, there)


def _foreseen(runs: Sequence[Execution]) -> list[str]:
    """What would become of them now, of all agents together."""
    wanted: Counter[UUID] = Counter(run.agent_id for run in runs)
    agents = {run.agent_id: run.agent for run in runs}
    rooms = admission.rooms(agents.values())
    strain = admission.overload() if runs else ""
    if strain:
        return [f"No new run is taken just now: {strain}"]
    taken = {pk: _places(agent, rooms[pk]) for pk, agent in agents.items()}
    full = sum(max(0, count - taken[pk][1]) for pk, count in wanted.items())
    waits = sum(max(0, min(count, taken[pk][1]) - taken[pk][0]) for pk, count in wanted.items())
    return [
        *([f"{waits} of them would wait for a slot."] if waits else []),
        *([f"{full} would find a full queue and be refused."] if full else []),
    ]


def _places(agent: Agent, room: admission.Room) -> tuple[int, int]:
    """How many of its runs would start at once, and how many would be taken at all."""
    most = agent.max_concurrent_executions
    taken = max(0, admission.may_wait(agent, room.running) - room.waiting)
    return (taken if most is None else max(0, most - room.running - room.waiting)), taken


URLS = [path("bulk/again/", Again.as_view(), name="supervisor_execution_bulk_again")]
