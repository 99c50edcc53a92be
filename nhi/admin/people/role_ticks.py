"""The console roles as ticks; those that the actor neither gives nor takes are disabled, with the reason."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django import forms
from django.forms.renderers import TemplatesSetting
from django.utils.safestring import SafeString

from nhi.access import rights
from nhi.actors import Actor
from nhi.console.role_rights import LABELS

#: Why a role cannot be ticked.
ONLY_SUPERUSERS = "Only a superuser gives or takes it here: who approves must be a second person."


class Ticks(forms.CheckboxSelectMultiple):
    template_name = "nhi/people/ticks.html"
    #: Values that cannot be ticked or unticked here, each with the reason.
    blocked: Mapping[str, str] = {}
    #: Of these, the ones that are ticked and stay so.
    fixed: Sequence[str] = ()

    def _render(self, template_name: str, context: dict[str, Any], renderer: Any = None) -> SafeString:
        # Django looks for widgets' templates beside its own; this one is among the console's.
        return SafeString(TemplatesSetting().render(template_name, context))

    def create_option(self, name: str, value: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option = super().create_option(name, value, *args, **kwargs)
        option["blocked"] = self.blocked.get(str(value), "")
        if option["blocked"]:
            option["attrs"]["disabled"] = True
        return option

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        """A browser does not send disabled ticks; what they show stays."""
        sent = list(super().value_from_datadict(data, files, name) or [])
        return sent + [value for value in self.fixed if value not in sent]


class RoleTicks(forms.MultipleChoiceField):
    """The console roles, those that this actor may not give or take disabled with the reason."""

    def __init__(self, **options: Any) -> None:
        super().__init__(choices=list(LABELS.items()), required=False, widget=Ticks, **options)

    def bind_to(self, actor: Actor, held: Collection[str]) -> None:
        assert isinstance(self.widget, Ticks)
        fixed = rights.fixed_roles(actor, held)
        self.widget.blocked = dict.fromkeys(fixed, ONLY_SUPERUSERS)
        self.widget.fixed = [role for role in held if role in fixed and role in LABELS]
