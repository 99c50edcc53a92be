"""Adding a schedule and changing one, with the next due times worked out while one types."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path

from common import statuses
from common.admin.pages import Crumb, link, render
from common.errors import Conflict, Invalid, NotAllowed
from nhi.actors import Actor
from nhi.admin import names
from nhi.admin.base import ActingPage
from nhi.models import Identity
from supervisor import cron, due_times, schedule_checks, schedule_rights, schedules
from supervisor.admin import schedules_cells
from supervisor.admin.schedules_form import ScheduleForm, initial
from supervisor.admin.schedules_hub import OfSchedule
from supervisor.models import Agent, Schedule


def may_add(actor: Actor) -> bool:
    """By console role, or for handling the identity of some agent."""
    if actor.only_reads:
        return False
    mine = Identity.objects.managed_by(actor).values("pk")
    return actor.may(schedule_rights.ADD) or Agent.objects.filter(identity__in=mine).exists()


class Form(ActingPage):
    template = "admin/supervisor/schedules/form.html"

    def fitting(self, data: Any = None) -> ScheduleForm:
        raise NotImplementedError

    def save(self, form: ScheduleForm) -> Schedule:
        """Call the verb."""
        raise NotImplementedError

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        return self.drawn(self.fitting())

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        form = self.fitting(request.POST)
        if not form.is_valid():
            self.say_the_rest(form)
            return self.drawn(form, status=422)
        try:
            saved = self.save(form)
        except (Invalid, Conflict) as error:
            form.refuse(error)
            return self.drawn(form, status=statuses.of(error))
        return HttpResponseRedirect(link("supervisor_schedule_hub", saved.pk))

    def say_the_rest(self, form: ScheduleForm) -> None:
        """What the verb would find in the fields that could be read: all that is wrong is said at once."""
        try:
            schedules.foresee(given=form.given, inputs=form.inputs, schedule=form.schedule)
        except Invalid as error:
            form.refuse(error)

    def drawn(self, form: ScheduleForm, *, status: int = 200) -> HttpResponse:
        names.for_actor(form, self.actor)
        rule, zone = (str(form[name].value() or "") for name in ("cron_expression", "timezone"))
        return self.page(form=form, status=status, preview_url=link("supervisor_schedule_preview"), **look(rule, zone))


class Add(Form):
    title = "Add a schedule"

    def check(self) -> None:
        if not may_add(self.actor):
            raise NotAllowed("You may not add schedules.", details={"needs": schedule_rights.ADD})

    def context(self) -> dict[str, Any]:
        return {
            "crumb": Crumb("Schedules", link("supervisor_schedule_changelist")),
            "back": link("supervisor_schedule_changelist"),
            "button": "Add schedule",
            "api": ("POST", "/api/nhi/supervisor/schedules"),
        }

    def fitting(self, data: Any = None) -> ScheduleForm:
        known = names.known("runs_here", self.actor, self.request.GET.get("agent", ""))
        form = ScheduleForm(data, initial={"agent": known})
        names.for_actor(form, self.actor)
        return form

    def save(self, form: ScheduleForm) -> Schedule:
        given = form.given
        made = schedules.create(actor=self.actor, agent=given.pop("agent"), given=given, inputs=form.inputs)
        messages.success(self.request, f"{made} was added.")
        return made


class Edit(OfSchedule, Form):
    def check(self) -> None:
        super().check()
        schedule_rights.require_change(self.actor, self.schedule)

    def context(self) -> dict[str, Any]:
        return {
            "title": f"Edit the schedule {self.schedule}",
            "lead": "Runs that are under way go on as they began.",
            "crumb": Crumb(str(self.schedule), self.url("hub")),
            "back": self.url("hub"),
            "button": "Save",
            "api": ("PATCH", self.api()),
        }

    def fitting(self, data: Any = None) -> ScheduleForm:
        form = ScheduleForm(data, initial=initial(self.schedule), schedule=self.schedule)
        names.for_actor(form, self.actor)
        return form

    def save(self, form: ScheduleForm) -> Schedule:
        changed = schedules.change(actor=self.actor, schedule=self.schedule, inputs=form.inputs, **form.given)
        messages.success(self.request, f"{changed} was changed.")
        return changed


class Preview(ActingPage):
    """The next due times of the rule in a form. It reads and changes nothing."""

    http_method_names = ("post",)

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        rule, zone = (request.POST.get(name, "").strip() for name in ("cron_expression", "timezone"))
        return render(request, "admin/supervisor/schedules/look.html", title="When it is due", **look(rule, zone))


def look(rule: str, zone: str) -> dict[str, Any]:
    """The rule in words with its next due times, or what is wrong with it."""
    if not rule:
        return {}
    try:
        times = schedule_checks.preview(cron_expression=rule, timezone=zone or "UTC")
    except Invalid as error:
        return {"wrong": [problem.message for problem in error.fields]}
    place = cron.zone(zone or "UTC")
    return {
        "words": due_times.parsed(rule).words(),
        "due": [schedules_cells.due_time(at, place) for at in times],
        "unusual": schedules_cells.UNUSUAL,
    }


URLS = [
    path("add/", Add.as_view(), name="supervisor_schedule_add"),
    path("preview/", Preview.as_view(), name="supervisor_schedule_preview"),
    path("<uuid:pk>/change/", Edit.as_view(), name="supervisor_schedule_change"),
]
