"""What describes a schedule, as one form."""

from collections.abc import Mapping
from typing import Any
from zoneinfo import available_timezones

from django import forms

from common.console.forms import Chips, ConsoleForm, JSONTextField
from common.errors import GatehouseError, InvalidInput
from nhi.console import row_by_name_fields
from nhi.console.row_by_name_fields import NamedRows, RowByNameField
from supervisor import schedules
from supervisor.choices import MisfirePolicy, OverlapPolicy
from supervisor.models import Agent, Schedule
from supervisor.schedules import facts as schedule_facts

row_by_name_fields.NAMED_ROWS.setdefault("runs_here", NamedRows("agent that runs here", Agent.objects.visible_to))
PLAIN = {"autocomplete": "off", "spellcheck": "false"}


class ScheduleForm(ConsoleForm):
    aliases = {"agent_id": "agent"}

    name = forms.CharField(max_length=100, widget=forms.TextInput(attrs=PLAIN))
    agent = RowByNameField("runs_here", label="Agent", help_text="One that runs tasks and is switched on.")
    cron_expression = forms.CharField(
        label="When",
        max_length=200,
        help_text="Minute, hour, day of month, month, day of week, like 30 9 * * MON-FRI; or @hourly, @daily, @weekly.",
        widget=forms.TextInput(attrs=PLAIN),
    )
    timezone = forms.CharField(
        label="Time zone",
        max_length=64,
        initial="UTC",
        help_text="Whose clock the rule is about, like Europe/Vienna.",
        widget=forms.TextInput(attrs={**PLAIN, "list": "gh-zones"}),
    )
    input = forms.CharField(
        required=False, strip=False, help_text="What each run is given.", widget=forms.Textarea(attrs={"rows": 4})
    )
    parameters = JSONTextField(
        required=False,
        help_text='A JSON object, like {"topic": "sales"}. Masked values stay as they are.',
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
    )
    misfire_policy = forms.ChoiceField(
        label="If a time was missed",
        choices=MisfirePolicy.choices,
        initial=MisfirePolicy.SKIP,
        help_text="Nobody was there within 30 seconds, as in an outage.",
        widget=Chips,
    )
    overlap_policy = forms.ChoiceField(
        label="If the run before is not done",
        choices=OverlapPolicy.choices,
        initial=OverlapPolicy.SKIP,
        widget=Chips,
    )
    enabled = forms.BooleanField(label="In use", required=False, initial=True)

    def __init__(self, *args: Any, schedule: Schedule | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.schedule = schedule

    @property
    def zones(self) -> list[str]:
        """For the list that the browser offers."""
        return sorted(name for name in available_timezones() if "/" in name or name == "UTC")

    @property
    def given(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in schedule_facts.DESCRIBED if name in self.cleaned_data}

    @property
    def inputs(self) -> dict[str, Any]:
        """As typed; what stands as it was shown stays as it is, since what was shown may be masked."""
        said = self.cleaned_data
        typed = {"input": said.get("input", ""), "parameters": said.get("parameters") or {}}
        if self.schedule is None:
            return typed
        shown, opened = self.schedule.input_parameters, schedule_facts.opened(self.schedule)
        kept: dict[str, Any] = _unmasked(typed, shown=shown, opened=opened)
        if kept != typed and said.get("agent", self.schedule.agent) != self.schedule.agent:
            raise InvalidInput.for_field("input_parameters", schedules.HIDDEN)
        return kept

    def clean_input(self) -> str:
        """A browser sends lines as the web does; a program expects what was typed."""
        return str(self.cleaned_data["input"]).replace("\r\n", "\n")

    def clean_parameters(self) -> Any:
        value = self.cleaned_data["parameters"]
        if value is not None and not isinstance(value, dict):
            raise forms.ValidationError("Write a JSON object: names and values.")
        return value

    def refuse(self, error: GatehouseError) -> None:
        """Problems of one parameter stand beside the box that holds them all, and name it."""
        told = {*self.errors}
        for problem in error.fields:
            name, _, part = problem.field.removeprefix("input_parameters.").partition(".")
            name = self.aliases.get(name, name)
            if name in told:
                continue  # of what could not be read, the verb saw nothing
            self.add_error(
                name if name in self.fields else None, f"{part}: {problem.message}" if part else problem.message
            )
        if not error.fields:
            self.add_error(None, error.message)


def _unmasked(typed: Any, *, shown: Any, opened: Any) -> Any:
    if typed == shown:
        return opened
    if not all(isinstance(value, Mapping) for value in (typed, shown, opened)):
        return typed
    return {
        name: _unmasked(value, shown=shown[name], opened=opened[name]) if name in shown and name in opened else value
        for name, value in typed.items()
    }


def initial(schedule: Schedule) -> dict[str, Any]:
    known = {name: getattr(schedule, name) for name in schedule_facts.DESCRIBED}
    inputs = schedule.input_parameters
    return {
        **known, "agent": schedule.agent.name, "input": inputs["input"], "parameters": inputs["parameters"] or None,
    }  # fmt: skip
