"""The forms of cards, skills and endpoints."""

from typing import Any

from django import forms
from django.conf import settings as installation

from a2a.choices import Authentication, CardForm, Transport
from a2a.endpoint_changes import PLACES
from a2a.wire import methods
from common.console.forms import Chips, ConsoleForm, ReasonField, WordsField
from common.console.multiline_fields import LinesField
from nhi.console.row_by_name_fields import RowByNameField

PLAIN = {"autocomplete": "off", "spellcheck": "false"}
MODES = "Media types such as text/plain, parted by commas."


def _line(label: str, help_text: str = "", *, required: bool = False, most: int = 500) -> forms.CharField:
    widget = forms.TextInput(attrs=PLAIN)
    return forms.CharField(label=label, required=required, max_length=most, help_text=help_text, widget=widget)


def _text(label: str, help_text: str) -> forms.CharField:
    area = forms.Textarea(attrs={"rows": 3})
    return forms.CharField(label=label, required=False, max_length=1000, help_text=help_text, widget=area)


def _number(label: str, help_text: str, *, required: bool = False) -> forms.IntegerField:
    return forms.IntegerField(label=label, required=required, min_value=1, help_text=help_text)


class CardFields(ConsoleForm):
    aliases = {"provider.organization": "provider_organization", "provider.url": "provider_url"}

    version = _line("Version", "Of the agent itself, such as 1.0.0.", required=True, most=50)
    description = _text("Description", "Empty: the identity's own.")
    provider_organization = _line("Provider", "Who offers it.", most=200)
    provider_url = _line("Provider's URL")
    documentation_url = _line("Documentation")
    icon_url = _line("Icon")
    default_input_modes = WordsField(
        label="Takes", required=False, help_text=f"{MODES} Empty: what its endpoint takes."
    )
    default_output_modes = WordsField(label="Gives", required=False, help_text=f"{MODES} Empty: the same.")
    form = forms.ChoiceField(
        label="Form", choices=CardForm.choices, widget=Chips, help_text="For clients that ask for no version."
    )
    reason = ReasonField(required=False)


class SkillFields(ConsoleForm):
    skill_id = _line("Id", "What callers name it by, often a task's type.", required=True, most=100)
    name = _line("Name", required=True, most=200)
    description = _text("Description", "What it does, for whoever chooses among agents.")
    tags = WordsField(label="Tags", required=False, help_text="Parted by commas. Empty: its id.")
    examples = LinesField(label="Examples", help_text="What one might ask, one a line.")
    input_modes = WordsField(label="Takes", required=False, help_text=f"{MODES} Empty: those of the card.")
    output_modes = WordsField(label="Gives", required=False, help_text=f"{MODES} Empty: those of the card.")
    public = forms.BooleanField(
        label="Strangers are told of it", required=False, initial=True,
        help_text="Else it stands on the card of callers whose grant covers it.",
    )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["examples"].optional = True  # type: ignore[attr-defined]  # read by the field's template

    def clean_description(self) -> str:
        """Typed in a box, kept on one line."""
        return " ".join(str(self.cleaned_data["description"]).split())

    def refuse(self, error: Any) -> None:
        """The verb names a skill by its place; there is one here."""
        for problem in error.fields:
            name = problem.field.rpartition(".")[2]
            name = "skill_id" if name == "id" else name
            self.add_error(name if name in self.fields else None, problem.message)
        if not error.fields:
            self.add_error(None, error.message)


class EndpointFields(ConsoleForm):
    aliases = {place: name for name, place in PLACES.items()}

    transports = forms.MultipleChoiceField(
        label="Reached over", choices=Transport.choices, widget=forms.CheckboxSelectMultiple, required=False
    )
    authentication = forms.ChoiceField(label="Callers show", choices=Authentication.choices, widget=Chips)
    api_key_header = _line("Header", "Where the caller's token stands, such as X-API-Key.", most=100)
    open_as = RowByNameField(
        "caller", label="They ask as", required=False, help_text="Whose grants say what they may who show nothing."
    )
    tasks_per_minute = _number("Tasks a minute", "From all callers together. Empty: no limit.")
    tasks_per_hour = _number("Tasks an hour", "The same.")
    max_concurrent_tasks = _number("Tasks at a time", "Open ones; one more is refused. Empty: no limit.")
    max_input_size = _number("Largest request", "Bytes.", required=True)
    max_output_size = _number("Largest artifact", "Bytes of JSON.", required=True)
    streaming = forms.BooleanField(label="Callers may follow tasks as a stream", required=False)
    content_types = WordsField(
        label="Types of content", required=False, help_text="Such as text/plain, image/*. Empty: any."
    )  # fmt: skip
    supported_methods = forms.MultipleChoiceField(
        label="Operations", choices=[(name, name) for name in methods.ALL], widget=forms.CheckboxSelectMultiple,
        required=False,
    )  # fmt: skip
    reason = ReasonField("Requested by the owner", "Too much load", "Not needed")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["api_key_header"].shown_for = "authentication=api_key"  # type: ignore[attr-defined]  # read by the field's template
        self.fields["open_as"].shown_for = "authentication=none"  # type: ignore[attr-defined]  # the same
        chosen = self.initial.get("authentication")
        if not installation.DEBUG and chosen != Authentication.NONE:
            # What this server refuses whatever one says is not offered.
            offered = [choice for choice in Authentication.choices if choice[0] != Authentication.NONE]
            self.fields["authentication"].choices = offered  # type: ignore[attr-defined]  # a ChoiceField
            del self.fields["open_as"]

    @property
    def given(self) -> dict[str, Any]:
        data = {name: value for name, value in self.cleaned_data.items() if name in PLACES}
        if not data.get("api_key_header"):
            data.pop("api_key_header", None)
        return data
