"""One schedule: when is it due, did it fire, what does it run?"""

from typing import Any

from django.utils.functional import cached_property

from common.console.pages import Control, Crumb, Tab, link
from common.errors import NotFound
from nhi.console.base import ActorMixin, ActorPage
from supervisor.admin import agents_cells, schedules_cells
from supervisor.models import Schedule
from supervisor.schedules import facts as schedule_facts
from supervisor.schedules import rights as schedule_rights

TABS = (("hub", "Overview"), ("fires", "Due times"), ("runs", "Runs"), ("changes", "Changes"))


class OfSchedule(ActorMixin):
    """A page or dialog about one schedule that the person may see; a removed one is still read."""

    kwargs: dict[str, Any]
    schedule: Schedule

    def check(self) -> None:
        super().check()
        seen = Schedule.objects.visible_to(self.actor).select_related("agent__identity")
        found = seen.filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        self.schedule = found

    def url(self, page: str) -> str:
        return link(f"supervisor_schedule_{page}", self.schedule.pk)

    def api(self, verb: str = "") -> str:
        path = f"/api/nhi/supervisor/schedules/{self.schedule.pk}"
        return f"{path}/{verb}" if verb else path

    def back(self) -> str:
        return self.url("hub")


class Hub(OfSchedule, ActorPage):
    """The frame of every tab."""

    tab = "hub"

    def context(self) -> dict[str, Any]:
        schedule = self.schedule
        return {
            "title": f"{schedule}: {dict(TABS)[self.tab]}, schedule" if self.tab != "hub" else f"{schedule}, schedule",
            "schedule": schedule,
            "standing": schedules_cells.standing(schedule, runs=self.runs),
            "rule": schedule_facts.words(schedule),
            "next": schedules_cells.next_due(schedule),
            "last_run": schedules_cells.by_its_clock(schedule, schedule.last_execution, "never"),
            "crumb": Crumb("Schedules", link("supervisor_schedule_changelist")),
            "controls": self._controls(),
            "more": self._more(),
            "tabs": [Tab(label, self.url(name), current=name == self.tab) for name, label in TABS],
            "api": self.api(),
        }

    @cached_property
    def runs(self) -> bool:
        return bool(schedule_facts.running([self.schedule]))

    @cached_property
    def _operates(self) -> bool:
        kept = self.schedule.removed_at is None
        return kept and schedule_rights.may(self.actor, schedule_rights.OPERATE, self.schedule.agent)

    def _controls(self) -> list[Control]:
        if not self._operates:
            return []
        unable = agents_cells.unable(self.schedule.agent, "Its agent", "Its agent's")
        paused = self.schedule.paused_at is not None
        turn = ("Resume", "resume", "play_circle") if paused else ("Pause", "pause", "pause_circle")
        return [
            Control("Run now", self.url("run"), "play_arrow", blocked=unable),
            Control(turn[0], self.url(turn[1]), turn[2]),
        ]

    def _more(self) -> list[Control]:
        kept = self.schedule.removed_at is None
        if not kept or not schedule_rights.may(self.actor, schedule_rights.CHANGE, self.schedule.agent):
            return []
        return [
            Control("Edit", self.url("change"), "edit", dialog=False),
            Control("Remove", self.url("remove"), "delete", danger=True),
        ]
