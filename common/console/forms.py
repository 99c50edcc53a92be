"""Forms of our own: they read what was typed, a verb decides, and its problems land beside their fields."""

import json
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.forms.renderers import TemplatesSetting
from django.utils import timezone
from django.utils.safestring import SafeString

from common.db.clock import MAX_TIME, MIN_TIME
from common.errors import GatehouseError

ENDS = (
    ("1", "1 day"),
    ("7", "7 days"),
    ("30", "30 days"),
    ("90", "90 days"),
    ("date", "On a date"),
    ("never", "Never"),
)


class ConsoleForm(forms.Form):
    """Drawn by `console/fields.html`. `aliases` maps a verb's word for a field onto the form's."""

    aliases: dict[str, str] = {}
    required_css_class = "gh-required"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})

    def refuse(self, error: GatehouseError) -> None:
        """Put what a verb said beside the fields that it named."""
        for problem in error.fields:
            name = self.aliases.get(problem.field, problem.field)
            self.add_error(name if name in self.fields else None, problem.message)
        if not error.fields:
            self.add_error(None, error.message)


class Chips(forms.RadioSelect):
    """A few presets, one of them chosen, drawn as buttons in a row."""

    template_name = "console/chips.html"

    def _render(self, template_name: str, context: dict[str, Any], renderer: Any = None) -> SafeString:
        # Django looks for widgets' templates beside its own; ours is among the console's.
        return SafeString(TemplatesSetting().render(template_name, context))


class ReasonField(forms.CharField):
    """Why, kept on record as it was typed. Presets fill the line; the first one stands there from the start.

    With `prefilled=False` the line is empty, for what nobody should confirm without a thought.
    """

    def __init__(self, *presets: str, required: bool = True, prefilled: bool = True) -> None:
        self.presets = presets
        prefill = presets[0] if presets and prefilled else ""
        super().__init__(
            label="Reason",
            max_length=500,
            required=required,
            initial=prefill,
            help_text="Kept on record." if required else "Optional, kept on record.",
        )
        self.widget.attrs["autocomplete"] = "off"
        if prefill:
            self.widget.attrs["data-preset"] = prefill


class WordsField(forms.CharField):
    """Words parted by commas or spaces, as a list."""

    def to_python(self, value: Any) -> Any:
        return [word for word in str(value or "").replace(",", " ").split() if word]

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def run_validators(self, value: Any) -> None:
        super().run_validators(" ".join(value))


class JSONLinesField(forms.JSONField):
    """JSON as text; nothing where there is none, and where it breaks off when it is not JSON."""

    def to_python(self, value: Any) -> Any:
        try:
            read = super().to_python(value)
            # Django marks a text that was read with a type of its own, which nothing else knows.
            return str(read) if isinstance(read, str) else read
        except forms.ValidationError:
            raise forms.ValidationError(_where_it_breaks(value), code="invalid") from None

    def prepare_value(self, value: Any) -> Any:
        return "" if value is None else super().prepare_value(value)


def _where_it_breaks(value: str) -> str:
    try:
        json.loads(value)
    except json.JSONDecodeError as error:
        said = f"{error.msg[:1].lower()}{error.msg[1:]}"
        return f"This is not JSON: line {error.lineno}, column {error.colno}, {said}."
    except (ValueError, RecursionError):
        return "This is not JSON that can be read: a number is too long, or it is nested too deep."
    return "This is not JSON."


class MomentField(forms.DateTimeField):
    """A date and a time in the person's zone, kept away from the ends of the calendar."""

    def __init__(self, **options: Any) -> None:
        widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
        super().__init__(**{"widget": widget, **options})

    def get_bound_field(self, form: forms.BaseForm, field_name: str) -> forms.BoundField:
        """Says whose clock it is: the zone is known once somebody looks."""
        self.help_text = f"{self.help_text} Time zone: {timezone.get_current_timezone_name()}.".strip()
        return super().get_bound_field(form, field_name)

    def to_python(self, value: Any) -> datetime | None:
        moment = super().to_python(value)
        if moment is not None and not MIN_TIME <= moment < MAX_TIME:
            raise forms.ValidationError(f"Choose a time between the years {MIN_TIME.year} and {MAX_TIME.year}.")
        return moment

    def prepare_value(self, value: Any) -> Any:
        try:
            return super().prepare_value(value)
        except OverflowError:
            # Stored at the end of the calendar, where this person's zone has no time for it.
            return None


class EndsForm(ConsoleForm):
    """When it ends: a preset, a date, or never."""

    aliases = {"expires_at": "ends"}

    ends = forms.ChoiceField(label="Ends", choices=ENDS, initial="30", widget=Chips)
    ends_on = MomentField(label="Date", required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["ends_on"].shown_for = "ends=date"  # type: ignore[attr-defined]  # read by the field's template

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("ends") == "date" and not cleaned.get("ends_on"):
            self.add_error("ends_on", "Choose the date.")
        return cleaned

    @property
    def expires_at(self) -> datetime | None:
        chosen = self.cleaned_data["ends"]
        if chosen == "never":
            return None
        if chosen == "date":
            moment: datetime = self.cleaned_data["ends_on"]
            return moment
        return timezone.now() + timedelta(days=int(chosen))
