"""What describes an agent that runs here, as one form."""

import sys
from typing import Any

from django import forms
from django.conf import settings

from common.console.forms import Chips, ConsoleForm, WordsField
from common.console.multiline_fields import LinesField, PairsField
from common.errors import GatehouseError
from common.process import executable_allowlist
from nhi.console.row_by_name_fields import RowByNameField
from supervisor import agents
from supervisor.choices import AccessType, InputPattern, Kind, Mode, OutputPattern
from supervisor.models import Agent

#: What all processes of a run may have together.
OF_PROCESSES = ("max_processes", "max_memory_mb", "max_cpu_seconds")
OF_PROGRAM = (
    "executable_path", "cli_args", "working_directory", "mode", "input_pattern", "input_file_template",
    "output_pattern", "output_file_template", *OF_PROCESSES,
)  # fmt: skip
#: A model has none.
ENVIRONMENT = ("envs", "allowed_env_vars")
OF_MODEL = ("base_url", "model", "instructions", "api_key", "max_steps")
#: Fields that stand only for one answer of another one.
ONLY_FOR = {
    **dict.fromkeys((*OF_PROGRAM, *ENVIRONMENT), "kind=process"),
    **dict.fromkeys((*OF_MODEL, "forget_key"), "kind=model"),
    "input_file_template": "input_pattern=file",
    "output_file_template": "output_pattern=file",
    **dict.fromkeys(("session_timeout", "idle_timeout", "keep_alive"), "mode=interactive"),
}
BEGINNING = ("name", "identity", "kind", *OF_PROGRAM[: -len(OF_PROCESSES)], *OF_MODEL[:-1], "forget_key")
LIMITS = (
    "access_type", "max_concurrent_executions", "timeout", "session_timeout", "idle_timeout", "keep_alive",
)  # fmt: skip
MORE_LIMITS = ("max_retries", "queue_depth", "queue_wait", *OF_PROCESSES, "max_steps", "deduplicate")
#: Where 0 is none.
LIMITLESS = ("max_concurrent_executions", "max_memory_mb", "max_cpu_seconds")
SURROUNDINGS = (*ENVIRONMENT, "enabled")
PLAIN = {"autocomplete": "off", "spellcheck": "false"}


def _line(label: str, help_text: str = "", *, required: bool = False, most: int = 1000, **attrs: str) -> Any:
    widget = forms.TextInput(attrs={**PLAIN, **attrs})
    return forms.CharField(label=label, required=required, max_length=most, help_text=help_text, widget=widget)


def _number(label: str, help_text: str, initial: int | None = None, *, required: bool = True) -> forms.IntegerField:
    return forms.IntegerField(label=label, help_text=help_text, initial=initial, required=required, min_value=0)


def _choice(label: str, choices: Any, initial: str, help_text: str = "") -> forms.ChoiceField:
    return forms.ChoiceField(label=label, choices=choices, initial=initial, help_text=help_text, widget=Chips)


class AgentForm(ConsoleForm):
    aliases = {"identity_id": "identity"}

    name = _line("Name", "Its runs are called by it, like summarise #88.", required=True, most=100)
    kind = _choice("What runs", Kind.choices, Kind.PROCESS)

    executable_path = _line(
        "Program", "The absolute path of a program that this machine's list allows.", list="gh-programs"
    )
    cli_args = LinesField(
        label="Arguments",
        help_text="One a line, as the program is given them: no quotes, no shell. {{ name }} stands for a parameter of "
        "the run, {{ input_file }} and {{ output_file }} for its files.",
    )
    working_directory = _line("Working directory", "Empty: a fresh directory for each run, removed when it is done.")
    mode = _choice(
        "Mode", Mode.choices, Mode.TASK, "A task is one input and one output; interactive is a conversation."
    )
    input_pattern = _choice("Input comes by", InputPattern.choices, InputPattern.STDIN)
    output_pattern = _choice("Output comes by", OutputPattern.choices, OutputPattern.STDOUT)
    input_file_template = _line(
        "Name of the input file",
        "May hold {{execution_id}}, {{agent_id}}, {{timestamp}}. It stands in the run's own directory.", most=200,
    )  # fmt: skip
    output_file_template = _line("Name of the output file", "The same; read when the program has ended.", most=200)

    base_url = _line("Address", "Where the model is asked, like https://models.example.com/v1.", most=2000)
    model = _line("Model", "By the name that the address knows it by.", most=200)
    instructions = forms.CharField(
        label="Instructions", required=False, strip=False, help_text="What it is told before each input.",
        widget=forms.Textarea(attrs={"rows": 4}),
    )  # fmt: skip
    api_key = forms.CharField(
        label="Key", required=False, strip=False, max_length=8000,
        help_text="Kept encrypted and never shown again. Empty: stays as it is.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )  # fmt: skip
    forget_key = forms.BooleanField(label="Take the key away: the address wants none", required=False)

    access_type = _choice(
        "Access", AccessType.choices, AccessType.READ_ONLY,
        "Left to itself, a read-write agent runs one at a time and is never tried again.",
    )  # fmt: skip
    max_concurrent_executions = _number(
        "Slots", f"How many of it run at once; 0: no limit. Empty: {agents.READERS_AT_ONCE}, or 1 where it writes.",
        required=False,
    )  # fmt: skip
    timeout = _number("Timeout", "Seconds that one attempt may take.", 300)
    max_retries = _number(
        "Further attempts",
        "After failures that pass, like a connection that was refused. Empty: 3 where it only reads; a read-write "
        "agent is not tried again, as nobody knows what it had written by then. A number here counts for either.",
        required=False,
    )  # fmt: skip
    queue_depth = _number("Queue", "How many may wait for a slot; one more is refused.", 10)
    queue_wait = _number("Longest wait", "Seconds in the queue, after which a run is given up.", 1800)
    session_timeout = _number("Longest session", "Seconds, of an interactive one.", 1800)
    idle_timeout = _number("Idle session", "Seconds without a message, after which it is closed.", 300)
    keep_alive = forms.BooleanField(label="Do not close sessions for being idle", required=False)
    max_processes = _number("Processes", "How many one run may have at once.", 64)
    max_memory_mb = _number("Memory", "Megabytes that the processes of one run may have together; 0: no limit.", 2048)
    max_cpu_seconds = _number("CPU time", "Seconds that they may use together; 0: no limit but the timeout.", 0)
    max_steps = _number("Steps", "How many turns a model may take for one input.", 20)

    envs = PairsField(
        mark="=",
        label="Variables",
        help_text="NAME=value, one a line, given to every run and kept encrypted. A masked value stays as it is.",
    )
    allowed_env_vars = WordsField(
        label="Variables that a run may set", required=False, help_text="Names, parted by commas."
    )
    deduplicate = forms.BooleanField(
        label="Give the run that is there to who asks for the same within a minute", required=False
    )

    def __init__(self, *args: Any, agent: Agent | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent = agent
        for name in ("cli_args", *ENVIRONMENT, "working_directory", "instructions", "api_key"):
            self.fields[name].optional = True  # type: ignore[attr-defined]  # read by the field's template
        for name, answer in ONLY_FOR.items():
            self.fields[name].shown_for = answer  # type: ignore[attr-defined]  # the same
        if agent is None or not agent.sealed_key:
            del self.fields["forget_key"]

    # ── For the template ──────────────────────────────────────────────────────────────────────────────────────────
    @property
    def beginning(self) -> list[forms.BoundField]:
        return [self[name] for name in BEGINNING if name in self.fields]

    @property
    def limits(self) -> list[forms.BoundField]:
        return [self[name] for name in LIMITS]

    @property
    def more_limits(self) -> list[forms.BoundField]:
        return [self[name] for name in MORE_LIMITS]

    @property
    def refused_more(self) -> bool:
        """Whether something is wrong in what is folded away."""
        return any(name in self.errors for name in MORE_LIMITS)

    @property
    def surroundings(self) -> list[forms.BoundField]:
        return [self[name] for name in SURROUNDINGS if name in self.fields]

    @property
    def programs(self) -> list[str]:
        return allowed_programs()

    # ── For the verbs ─────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def given(self) -> dict[str, Any]:
        """What describes it, without what is left to its usual value, and without what is of the other kind."""
        data = self.cleaned_data
        other = OF_PROGRAM if self.is_model else OF_MODEL
        said = {name: data[name] for name in agents.DESCRIBED if name in data and name not in other}
        emptied: dict[str, Any] = {
            name: "" for name in ("executable_path", "working_directory", *OF_MODEL[:3]) if name in other
        }
        mode = {} if "mode" in said else {"mode": Mode.TASK}
        if self.is_model:
            emptied["allowed_env_vars"] = []
        known = {name: value for name, value in {**said, **emptied, **mode}.items() if value is not None}
        return {**known, **{name: None for name in LIMITLESS if known.get(name) == 0}}

    @property
    def variables(self) -> dict[str, str]:
        """As typed; a line that shows what its variable is shown as leaves the value that is there."""
        typed: dict[str, str] = {} if self.is_model else self.cleaned_data.get("envs", {})
        if self.agent is None:
            return typed
        declared, shown = agents.declared(self.agent), agents.shown(self.agent)
        return {name: declared[name] if shown.get(name) == value else value for name, value in typed.items()}

    @property
    def is_model(self) -> bool:
        return bool(self.cleaned_data.get("kind") == Kind.MODEL)

    @property
    def key(self) -> str:
        return str(self.cleaned_data.get("api_key", ""))

    @property
    def new_key(self) -> str | None:
        """None leaves the one that is there."""
        return self.key or ("" if self.cleaned_data.get("forget_key") else None)

    def refuse(self, error: GatehouseError) -> None:
        """Problems of one argument or variable stand beside the box that holds it, and name it."""
        told = {*self.errors}
        for problem in error.fields:
            name, _, part = self.aliases.get(problem.field, problem.field).partition(".")
            if name in told:
                continue  # of what could not be read, the verb saw nothing
            about = f"Argument {int(part) + 1}: " if part.isdecimal() else f"{part}: " if part else ""
            self.add_error(name if name in self.fields else None, f"{about}{problem.message}")
        if not error.fields:
            self.add_error(None, error.message)


class AddForm(AgentForm):
    identity = RowByNameField(
        "agent", label="Identity", help_text="The agent that it acts as: its grants are what it may do."
    )

    #: Afterwards a dialog switches it, with a reason.
    enabled = forms.BooleanField(label="Switched on", required=False, initial=True)
    field_order = ("name", "identity")


def initial(agent: Agent) -> dict[str, Any]:
    known = {name: getattr(agent, name) for name in agents.DESCRIBED}
    limitless = {name: 0 for name in LIMITLESS if known[name] is None}
    return {**known, **limitless, "envs": agents.shown(agent)}


def allowed_programs() -> list[str]:
    """What may be run here, for the list that the browser offers."""
    if settings.EXECUTABLE_ALLOWLIST is None:
        return [
            sys.executable,
            *(str(path) for path in sorted((executable_allowlist.EXAMPLES_DIRECTORY / "agents").glob("*.py"))),
        ]
    try:
        return sorted(executable_allowlist.read_allowlist(settings.EXECUTABLE_ALLOWLIST))
    except executable_allowlist.ExecutableRefused:
        return []
