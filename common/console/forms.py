"""Base form and common form fields. A form parses input; the called function validates it and reports field errors."""

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
    """Base class of console forms. `aliases` maps field names of errors to field names of the form."""

    aliases: dict[str, str] = {}
    required_css_class = "gh-required"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})

    def refuse(self, error: GatehouseError) -> None:
        """Add an error's messages to the form fields that it names."""
        for problem in error.fields:
            name = self.aliases.get(problem.field, problem.field)
            self.add_error(name if name in self.fields else None, problem.message)
        if not error.fields:
            self.add_error(None, error.message)


class Chips(forms.RadioSelect):
    """A widget with a few options, one of them selected, rendered as buttons in a row."""

    template_name = "console/chips.html"

    def _render(self, template_name: str, context: dict[str, Any], renderer: Any = None) -> SafeString:
        # Django's default renderer does not find the console's templates.
        return SafeString(TemplatesSetting().render(template_name, context))


class ReasonField(forms.CharField):
    """The reason for a change, recorded as entered. Presets fill the input; the first one is its initial value.

    With `prefilled=False` the input is empty, for actions that need a considered reason.
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
    """A list of words, separated by commas or spaces."""

    def to_python(self, value: Any) -> Any:
        return [word for word in str(value or "").replace(",", " ").split() if word]

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def run_validators(self, value: Any) -> None:
        super().run_validators(" ".join(value))


class JSONTextField(forms.JSONField):
    """A text field for JSON: empty for no value; for invalid JSON the error states the line and column."""

    def to_python(self, value: Any) -> Any:
        try:
            parsed = super().to_python(value)
            # Django returns a parsed JSON string as a subclass of str that other code does not expect.
            return str(parsed) if isinstance(parsed, str) else parsed
        except forms.ValidationError:
            raise forms.ValidationError(_where_it_breaks(value), code="invalid") from None

    def prepare_value(self, value: Any) -> Any:
        return "" if value is None else super().prepare_value(value)


def _where_it_breaks(value: str) -> str:
    try:
        json.loads(value)
    except json.JSONDecodeError as error:
        reason = f"{error.msg[:1].lower()}{error.msg[1:]}"
        return f"This is not JSON: line {error.lineno}, column {error.colno}, {reason}."
    except (ValueError, RecursionError):
        return "This is not JSON that can be read: a number is too long, or it is nested too deep."
    return "This is not JSON."


class MomentField(forms.DateTimeField):
    """A date and time in the user's time zone, limited to the range of MIN_TIME and MAX_TIME."""

    def __init__(self, **options: Any) -> None:
        widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
        super().__init__(**{"widget": widget, **options})

    def get_bound_field(self, form: forms.BaseForm, field_name: str) -> forms.BoundField:
        """Add the time zone to the help text; it is known only during a request."""
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
            # A stored time at the end of the calendar cannot be converted to this user's time zone.
            return None


class EndsForm(ConsoleForm):
    """A form for the time at which something expires: after a preset number of days, on a date, or never."""

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
