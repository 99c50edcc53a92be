"""The form field that a person is chosen with."""

from typing import Any, TypeVar

from django import forms
from django.urls import reverse_lazy

from common.console.forms import ConsoleForm
from nhi.actors import Actor
from nhi.models import User

F = TypeVar("F", bound=ConsoleForm)


class PersonField(forms.CharField):
    """Someone by their name, among those whom the actor sees. Whether they may be chosen is the verb's to say."""

    def __init__(self, *, required: bool = True, label: str | None = None, help_text: str = "") -> None:
        super().__init__(required=required, label=label, max_length=150, help_text=help_text)
        names = reverse_lazy("admin:names", args=("person",))
        self.actor: Actor | None = None
        #: Who stands there now: they may stay, seen or not, and need not be here any more.
        self.kept: dict[str, User] = {}
        self.widget.attrs |= {"autocomplete": "off", "spellcheck": "false", "data-names": names}

    def to_python(self, value: Any) -> Any:
        text = str(value or "").strip()
        if not text or self.actor is None:
            return None
        found = self.kept.get(text) or User.objects.visible_to(self.actor).filter(username=text).first()
        if found is None:
            raise forms.ValidationError("There is nobody here by this name.")
        return found

    def prepare_value(self, value: Any) -> Any:
        return value.username if isinstance(value, User) else value

    def run_validators(self, value: Any) -> None:
        """Nothing is left to check in a person who was found."""


def bind_people_fields(form: F, actor: Actor, *kept: User | None) -> F:
    """Let the form's person fields look among whom this actor sees, and those who stand there now."""
    for field in form.fields.values():
        if isinstance(field, PersonField):
            field.actor, field.kept = actor, {one.username: one for one in kept if one is not None}
    return form
