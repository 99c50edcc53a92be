"""Asking for a run of an agent: what it is given, and what would become of it, before the button is pressed."""

from dataclasses import replace
from functools import cached_property
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path

from common import http_statuses
from common.console.forms import ConsoleForm, JSONTextField
from common.console.pages import Crumb, link
from common.errors import Conflict, InvalidInput, NotAllowed
from common.ids import parse_uuid
from nhi.console.base import ActorPage
from supervisor import access, admission, command_lines, origins, submitting
from supervisor.access import Caller
from supervisor.admin import executions_cells
from supervisor.admin.agents_hub import OfAgent
from supervisor.admission import Room
from supervisor.choices import InputPattern, Kind, Mode, Trigger
from supervisor.models import Agent, Execution
from supervisor.submitting import Wish

INPUT_HELP = {
    InputPattern.STDIN: "The agent reads it as its standard input.",
    InputPattern.FILE: "It is written to a file in the run's directory, and the agent is told where.",
    InputPattern.ARGS: "The agent is given it as the last argument of its command line.",
    InputPattern.JSON_RPC: "It is sent as the input of one JSON-RPC request, execute.",
}
PARAMETER, VARIABLE = "parameter:", "env:"


class RunForm(ConsoleForm):
    """Fields by agent: a line for each parameter of its command line, and for each variable that it allows."""

    input = forms.CharField(
        required=False, strip=False, widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "autofocus": True})
    )

    def __init__(self, agent: Agent, data: Any = None, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.agent = agent
        is_program = agent.kind == Kind.PROCESS
        help_text = INPUT_HELP[InputPattern(agent.input_pattern)] if is_program else "What the model is asked."
        self.fields["input"].help_text = f"{help_text} At most 1 MiB."
        self.named = command_lines.wanted(agent.cli_args) if is_program else []
        for name in self.named:
            self.fields[f"{PARAMETER}{name}"] = _line(name, "Its command line needs this.", required=True)
        self.fields["parameters"] = _parameters(further=bool(self.named))
        for name in agent.allowed_env_vars:
            self.fields[f"{VARIABLE}{name}"] = _line(name, "A variable of this run alone; empty: not given.")
        if is_program and settings.WORKDIR_ALLOWLIST:
            self.fields["working_directory"] = _directory(agent)
        self.fields["timeout"] = _timeout(agent)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        further = data.get("parameters")
        if further is not None and not isinstance(further, dict):
            self.add_error("parameters", 'Write a JSON object, like {"limit": 3}.')
        return data

    @property
    def wish(self) -> Wish:
        data = self.cleaned_data
        named = {name: data[f"{PARAMETER}{name}"] for name in self.named}
        given = {name: data[f"{VARIABLE}{name}"] for name in self.agent.allowed_env_vars}
        return Wish(
            # A browser ends lines as letters on the wire do; what was typed had plain ends.
            input=data["input"].replace("\r\n", "\n"),
            parameters={**(data["parameters"] or {}), **named},
            working_directory=data.get("working_directory", ""),
            env_vars={name: value for name, value in given.items() if value},
            timeout=data["timeout"],
            trigger=Trigger.MANUAL,
        )

    def refuse(self, error: InvalidInput | Conflict) -> None:  # type: ignore[override]  # the verb raises no other kinds here
        self.aliases = {
            problem.field: problem.field.replace("parameters.", PARAMETER).replace("env_vars.", VARIABLE)
            for problem in error.fields
        }
        super().refuse(error)


def _line(name: str, help_text: str, *, required: bool = False) -> forms.CharField:
    widget = forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"})
    return forms.CharField(label=name, required=required, strip=False, help_text=help_text, widget=widget)


def _parameters(*, further: bool) -> JSONTextField:
    return JSONTextField(
        label="Further parameters" if further else "Parameters",
        required=False,
        help_text='A JSON object, like {"limit": 3}. A program finds them in the file parameters.json.',
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
    )


def _directory(agent: Agent) -> forms.CharField:
    roots = ", ".join(map(str, settings.WORKDIR_ALLOWLIST))
    usual = agent.working_directory or "a fresh directory of its own"
    return _line("Working directory", f"Below one of: {roots}. Empty: {usual}.")


def _timeout(agent: Agent) -> forms.IntegerField:
    return forms.IntegerField(
        label="Timeout",
        required=False,
        min_value=1,
        max_value=agent.timeout,
        error_messages=dict.fromkeys(("min_value", "max_value"), f"Use 1 to {agent.timeout} seconds."),
        help_text=f"Seconds, at most {agent.timeout}, which is also what it gets when this is empty.",
    )


class Run(OfAgent, ActorPage):
    template = "admin/supervisor/agents/run.html"

    def check(self) -> None:
        super().check()
        if not access.may_run(self.actor, self.agent):
            raise NotAllowed(f"You may not run {self.agent}.")

    def context(self) -> dict[str, Any]:
        return {
            "title": f"Run the agent {self.agent}",
            "agent": self.agent,
            "crumb": Crumb(str(self.agent), self.url("hub")),
            "back": self.url("hub"),
            "unable": self._unable(),
            "foreseen": self._foreseen(),
            "starting": self.starting(),
            "last": self._last,
            "like": self._like,
            "masked": self._like is not None and executions_cells.was_masked(self._like),
            "env_vars": self._like.context.get("env_vars", []) if self._like else [],
        }

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        return self.page(form=RunForm(self.agent, initial=_as_before(self._like) if self._like else None))

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        form = RunForm(self.agent, request.POST)
        if not form.is_valid():
            return self.page(form=form, status=422)
        try:
            submitted = submitting.submit(caller=Caller(self.actor), agent=self.agent, wish=self._wish(form))
        except admission.NoRoom as error:
            form.add_error(None, error.said)
            return self.page(form=form, status=503)
        except (InvalidInput, Conflict) as error:
            form.refuse(error)
            return self.page(form=form, status=http_statuses.status_for(error))
        if submitted.again:
            messages.info(request, "The same was asked for a moment ago: this is that run.")
        return HttpResponseRedirect(link("supervisor_execution_hub", submitted.execution.pk))

    def _wish(self, form: RunForm) -> Wish:
        """A run that began with another's input names that run, whose people stand behind this one too."""
        return form.wish if self._like is None else replace(form.wish, context=origins.again(self._like))

    def _unable(self) -> str:
        if self.agent.mode != Mode.TASK:
            return "It is interactive and runs no tasks: open a session with it."
        return self.unable or self.trouble

    def _foreseen(self) -> str:
        """What would become of a run that is asked for now."""
        room = admission.rooms([self.agent])[self.agent.pk]
        try:
            admission.check(self.agent, room, admission.overload())
        except admission.NoRoom as error:
            return error.said
        return foreseen(self.agent, room)

    @cached_property
    def _last(self) -> Execution | None:
        seen = Execution.objects.visible_to(self.actor).filter(agent=self.agent)
        return seen.order_by("-created_at", "-id").only("number", "agent_name").first()

    @cached_property
    def _like(self) -> Execution | None:
        """The run whose input the form begins with."""
        known = parse_uuid(self.request.GET.get("like", ""))
        seen = Execution.objects.visible_to(self.actor).filter(agent=self.agent)
        return seen.filter(pk=known).select_related("agent").first() if known else None


def foreseen(agent: Agent, room: Room) -> str:
    """Of one that is taken: whether it has a slot at once."""
    most, waiting = agent.max_concurrent_executions, room.waiting
    if not waiting and (most is None or room.running < most):
        return "A slot is free: it starts as soon as a worker takes it."
    before = "nothing else waits" if not waiting else "1 run waits" if waiting == 1 else f"{waiting} runs wait"
    slots = f"{room.running} of {most} slots are in use" if most else f"{room.running} are under way"
    return f"It would wait at place {waiting + 1}: {slots}, and {before} before it."


def _as_before(run: Execution) -> dict[str, Any]:
    """As that run was given it, as far as that may be shown."""
    named = {f"{PARAMETER}{name}": command_lines.text(value) for name, value in run.parameters.items()}
    wanted = command_lines.wanted(run.agent.cli_args)
    rest = {name: value for name, value in run.parameters.items() if name not in wanted}
    timeout = run.timeout if run.timeout != run.agent.timeout else None
    same = {"input": run.input, "parameters": rest or None, "timeout": timeout}
    return {**named, **same, "working_directory": run.working_directory}


URLS = [path("<uuid:pk>/run/", Run.as_view(), name="supervisor_agent_run")]
