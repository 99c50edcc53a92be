"""Adding a schedule and changing one, with the next due times worked out while one types."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import path

from common.console.pages import Crumb, link, render
from common.errors import InvalidInput, NotAllowed
from nhi.actors import Actor
from nhi.choices import State
from nhi.console import row_by_name_fields
from nhi.console.base import ActorPage
from nhi.console.form_page import FormPage
from nhi.models import Identity
from supervisor import schedules
from supervisor.admin import schedules_cells
from supervisor.admin.schedules_form import ScheduleForm, initial
from supervisor.admin.schedules_hub import OfSchedule
from supervisor.models import Agent
from supervisor.schedules import checks as schedule_checks
from supervisor.schedules import cron, due_times
from supervisor.schedules import rights as schedule_rights


def may_add(actor: Actor) -> bool:
    """By console role, or for handling the identity of some agent that is not archived."""
    if actor.only_reads:
        return False
    mine = Identity.objects.managed_by(actor).exclude(state=State.ARCHIVED).values("pk")
    return actor.may(schedule_rights.ADD) or Agent.objects.filter(identity__in=mine).exists()


class Form(FormPage[ScheduleForm]):
    template = "admin/supervisor/schedules/form.html"

    def say_the_rest(self, form: ScheduleForm) -> None:
        try:
            schedules.foresee(given=form.given, inputs=form.inputs, schedule=form.schedule)
        except InvalidInput as error:
            form.refuse(error)

    def drawn(self, form: ScheduleForm, *, status: int = 200) -> HttpResponse:
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
        known = row_by_name_fields.initial_name("runs_here", self.actor, self.request.GET.get("agent", ""))
        return ScheduleForm(data, initial={"agent": known})

    def save(self, form: ScheduleForm) -> str:
        given = form.given
        made = schedules.create(actor=self.actor, agent=given.pop("agent"), given=given, inputs=form.inputs)
        messages.success(self.request, f"{made} was added.")
        return link("supervisor_schedule_hub", made.pk)


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
        return ScheduleForm(data, initial=initial(self.schedule), schedule=self.schedule)

    def save(self, form: ScheduleForm) -> str:
        changed = schedules.change(actor=self.actor, schedule=self.schedule, inputs=form.inputs, **form.given)
        messages.success(self.request, f"{changed} was changed.")
        return self.url("hub")


class Preview(ActorPage):
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
    except InvalidInput as error:
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
