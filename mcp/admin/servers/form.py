"""What describes a server, how it is reached, and its secrets, as one form."""

import re
from typing import Any

from django import forms

from common.console.forms import Chips, ConsoleForm
from common.console.multiline_fields import LinesField, PairsField
from common.errors import FieldError, GatehouseError
from mcp.choices import Transport
from mcp.models import Server, ServerSecret
from mcp.servers import secrets
from nhi.console.row_by_name_fields import PersonField

#: Rows for secrets that are not there yet.
NEW_SECRETS = 4
DESCRIBED = ("description", "owner", "timeout", "schema_version")
OF_PROCESS, OF_ADDRESS = ("command", "args", "env"), ("base_url", "headers")
#: `args[0]`, `env.HOME`: which part of a field a problem is about.
PART = re.compile(r"(args|env|headers|secrets)(?:\[(\d+)\]|\.(.+))?")


class ServerForm(ConsoleForm):
    aliases = {"owner_id": "owner"}

    transport = forms.ChoiceField(choices=Transport.choices, initial=Transport.HTTP, widget=Chips, label="Reached by")
    base_url = forms.CharField(
        label="Address",
        required=False,
        max_length=2000,
        help_text="The address of its MCP endpoint, like https://todo.example.com/mcp.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "inputmode": "url"}),
    )
    headers = PairsField(
        mark=":",
        label="Headers",
        help_text="One a line, like Authorization: Bearer ${TOKEN}. ${NAME} is a secret below.",
    )
    command = forms.CharField(
        required=False,
        max_length=1000,
        strip=False,
        help_text="The program to run, as an absolute path. Only what is listed on this machine may run.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    args = LinesField(label="Arguments", help_text="One a line, as the program is given them: no quotes, no shell.")
    env = PairsField(
        mark="=", label="Environment", help_text="NAME=value, one a line. ${NAME} in a value is a secret below."
    )
    description = forms.CharField(required=False, max_length=1000, help_text="What it is for, in one sentence.")
    owner = PersonField(help_text="Owns the tools that it lists, too.")
    timeout = forms.FloatField(initial=30, help_text="Seconds that a call may take.")
    schema_version = forms.CharField(required=False, max_length=32, help_text="Like 1.2.0. Empty: not said.")

    def __init__(self, *args: Any, known: list[ServerSecret] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.known = known or []
        for name in OF_PROCESS:
            self.fields[name].shown_for = "transport=stdio"  # type: ignore[attr-defined]  # read by the field's template
        for name in OF_ADDRESS:
            self.fields[name].shown_for = "transport=http|sse"  # type: ignore[attr-defined]  # the same
        for name in ("headers", "args", "env"):
            self.fields[name].optional = True  # type: ignore[attr-defined]  # the same
        for secret in self.known:
            self.fields[f"secret:{secret.name}"] = _value(f"New value of {secret.name}")
            self.fields[f"remove:{secret.name}"] = forms.BooleanField(required=False, label=f"Remove {secret.name}")
        for number in range(NEW_SECRETS):
            self.fields[f"secret_name_{number}"] = _name(number)
            self.fields[f"secret_value_{number}"] = _value(f"Value {number + 1}")

    # ── For the template ──────────────────────────────────────────────────────────────────────────────────────────
    @property
    def main_fields(self) -> list[forms.BoundField]:
        names = ("name", "transport", *OF_ADDRESS, *OF_PROCESS)
        return [self[name] for name in names if name in self.fields]

    @property
    def described_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in DESCRIBED]

    @property
    def known_secrets(self) -> list[tuple[ServerSecret, forms.BoundField, forms.BoundField]]:
        return [(secret, self[f"secret:{secret.name}"], self[f"remove:{secret.name}"]) for secret in self.known]

    @property
    def new_secrets(self) -> list[tuple[forms.BoundField, forms.BoundField]]:
        return [(self[f"secret_name_{number}"], self[f"secret_value_{number}"]) for number in range(NEW_SECRETS)]

    # ── For the verbs ─────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def given(self) -> dict[str, Any]:
        """What is said of how it is reached; fields of the other way, and those that cannot be read, are empty."""
        data = self.cleaned_data
        process = data.get("transport") == Transport.STDIO
        empty: dict[str, Any] = {"command": "", "args": [], "env": {}, "base_url": "", "headers": {}}
        chosen = {name: data.get(name, empty[name]) for name in (OF_PROCESS if process else OF_ADDRESS)}
        described = {name: data.get(name, self.fields[name].initial or "") for name in DESCRIBED if name != "owner"}
        return {"transport": data.get("transport", ""), **empty, **chosen, **described}

    @property
    def secret_values(self) -> dict[str, str | None]:
        """By name; None takes one away, and what was left empty stays as it is."""
        data, said = self.cleaned_data, dict[str, str | None]()
        for secret in self.known:
            if data.get(f"remove:{secret.name}"):
                said[secret.name] = None
            elif value := data.get(f"secret:{secret.name}"):
                said[secret.name] = value
        for number in range(NEW_SECRETS):
            if name := data.get(f"secret_name_{number}"):
                said[name] = data.get(f"secret_value_{number}") or ""
        return said

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        names = [secret.name for secret in self.known]
        for number in range(NEW_SECRETS):
            name, value = data.get(f"secret_name_{number}"), data.get(f"secret_value_{number}")
            if value and not name:
                self.add_error(f"secret_name_{number}", "Name the secret.")
            if name and name in names:
                self.add_error(f"secret_name_{number}", f"There is a secret {name} already; replace that one.")
            if name:
                names.append(name)
        return data

    def refuse(self, error: GatehouseError) -> None:
        """Problems of one argument, variable or header stand beside the box that holds it, and name it.

        Of a field that could not be read the verb knows nothing: what the form said of it stands alone.
        """
        unread = frozenset(self.errors)
        for problem in error.fields:
            self._put(problem, unread)
        if not error.fields:
            self.add_error(None, error.message)

    def _put(self, problem: FieldError, unread: frozenset[str]) -> None:
        part, about = PART.fullmatch(problem.field), ""
        if part is None or part[1] == "secrets":
            name = self._of_secret(part[3] or "") if part else self.aliases.get(problem.field, problem.field)
        else:
            name = part[1]
            about = f"Argument {int(part[2]) + 1}: " if part[2] else f"{part[3]}: " if part[3] else ""
        if name not in unread:
            self.add_error(name if name in self.fields else None, f"{about}{problem.message}")

    def _of_secret(self, name: str) -> str:
        for number in range(NEW_SECRETS):
            if self.cleaned_data.get(f"secret_name_{number}") == name:
                fine = secrets.SECRET_NAME.fullmatch(name) is not None
                return f"secret_value_{number}" if fine else f"secret_name_{number}"
        return f"secret:{name}"


class AddForm(ServerForm):
    name = forms.CharField(
        max_length=63,
        help_text="Lower-case letters, digits and hyphens. Its tools are seen as name__tool. It stays.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


def initial(server: Server) -> dict[str, Any]:
    known = {name: getattr(server, name) for name in ("transport", *OF_PROCESS, *OF_ADDRESS, *DESCRIBED)}
    return {**known, "timeout": f"{server.timeout:g}"}


def _name(number: int) -> forms.CharField:
    widget = forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"})
    return forms.CharField(label=f"Name {number + 1}", required=False, max_length=100, widget=widget)


def _value(label: str) -> forms.CharField:
    """Written and never drawn again, not even after a mistake elsewhere in the form."""
    widget = forms.PasswordInput(attrs={"autocomplete": "new-password"})
    return forms.CharField(label=label, required=False, max_length=8000, strip=False, widget=widget)
