"""The limits of a grant as parts of forms: what is typed, and the terms that a verb takes."""

from typing import Any, ClassVar

from django import forms

from common.console.forms import EndsForm, JSONTextField

#: Also the most that a budget takes.
MOST_CALLS = 2_000_000_000
TASKS_PER_HOUR = (
    "Those of the last 60 minutes, exactly. Empty: no limit. Runs that are asked for without a task are refused by a "
    "grant with this limit."
)


class ToolLimits(forms.Form):
    """Of an agent's grant to a tool."""

    limit_aliases = {
        "allowed_parameters": "parameters", "max_calls_per_hour": "per_hour", "requires_approval": "approval",
    }  # fmt: skip
    limits: ClassVar[tuple[str, ...]] = ("parameters", "per_hour", "approval")

    parameters = JSONTextField(
        label="Allowed arguments",
        required=False,
        help_text=(
            'A JSON Schema, like {"properties": {"project": {"const": "alpha"}}, "required": ["project"]}. A plain '
            '{"project": "alpha"} is refused: it would limit nothing. Empty: any arguments.'
        ),
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
    )
    per_hour = forms.IntegerField(
        label="Calls per hour", required=False, min_value=1, max_value=MOST_CALLS, help_text="Empty: no limit."
    )
    approval = forms.BooleanField(
        label="Each call waits for a person",
        required=False,
        help_text="An approver sees its exact arguments and lets that one call pass, or not.",
    )

    @property
    def terms(self) -> dict[str, Any]:
        given = self.cleaned_data
        return {name: given[field] for name, field in self.limit_aliases.items()}

    @staticmethod
    def typed(grant: Any) -> dict[str, Any]:
        """The limits of a grant as the form begins with them."""
        return {name: getattr(grant, column) for column, name in ToolLimits.limit_aliases.items()}


class NhiLimits(forms.Form):
    """Of a grant between identities."""

    limit_aliases = {"allowed_actions": "actions", "max_calls_per_hour": "per_hour"}

    only_some = forms.BooleanField(label="Only some actions", required=False)
    actions = forms.CharField(
        label="Actions",
        required=False,
        help_text="Names or globs over the task type, parted by commas or spaces, like release.*. Empty: none at all.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )

    per_hour = forms.IntegerField(
        label="Tasks per hour",
        required=False,
        min_value=1,
        max_value=MOST_CALLS,
        help_text=TASKS_PER_HOUR,
    )

    @property
    def terms(self) -> dict[str, Any]:
        """No actions typed means all of them, unless only some were asked for."""
        given = self.cleaned_data
        words = given["actions"].replace(",", " ").split()
        actions = words if words or given["only_some"] else None
        return {"allowed_actions": actions, "max_calls_per_hour": given["per_hour"]}

    @staticmethod
    def typed(grant: Any) -> dict[str, Any]:
        actions = grant.allowed_actions
        some = {"only_some": actions is not None, "actions": ", ".join(actions or [])}
        return {**some, "per_hour": grant.max_calls_per_hour}


class LimitedForm(EndsForm):
    """What narrows the grant is folded away until it is wanted, or refused."""

    limits: ClassVar[tuple[str, ...]] = ()

    @property
    def main_fields(self) -> list[forms.BoundField]:
        return [field for field in self.visible_fields() if field.name not in self.limits]

    @property
    def limit_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.limits]

    @property
    def limited(self) -> bool:
        return any(field.value() not in (None, "", False) or field.errors for field in self.limit_fields)
