"""The form field for choosing a person."""

from typing import Any, TypeVar

from django import forms
from django.urls import reverse_lazy

from common.console.forms import ConsoleForm
from nhi.actors import Actor
from nhi.models import User

F = TypeVar("F", bound=ConsoleForm)


class PersonField(forms.CharField):
    """Finds a person by username among those that the actor sees. The operation checks if this person is allowed."""

    def __init__(self, *, required: bool = True, label: str | None = None, help_text: str = "") -> None:
        super().__init__(required=required, label=label, max_length=150, help_text=help_text)
        names = reverse_lazy("admin:names", args=("person",))
        self.actor: Actor | None = None
        #: The current people by username. They stay valid even if they are deactivated or the actor cannot see them.
        self.current_people: dict[str, User] = {}
        self.widget.attrs |= {"autocomplete": "off", "spellcheck": "false", "data-names": names}

    def to_python(self, value: Any) -> Any:
        text = str(value or "").strip()
        if not text or self.actor is None:
            return None
        person = self.current_people.get(text) or User.objects.visible_to(self.actor).filter(username=text).first()
        if person is None:
            raise forms.ValidationError("There is nobody here by this name.")
        return person

    def prepare_value(self, value: Any) -> Any:
        return value.username if isinstance(value, User) else value

    def run_validators(self, value: Any) -> None:
        """Do nothing: `to_python` returned a valid person."""


def bind_people_fields(form: F, actor: Actor, *current_people: User | None) -> F:
    """Let the form's person fields accept the people that this actor sees, and the current ones."""
    for field in form.fields.values():
        if isinstance(field, PersonField):
            field.actor, field.current_people = (
                actor,
                {person.username: person for person in current_people if person is not None},
            )
    return form
