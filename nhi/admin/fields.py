"""The form field that a person is chosen with."""

from typing import Any

from django import forms
from django.urls import reverse_lazy

from nhi.models import User


class PersonField(forms.CharField):
    """Someone by their name. Whether they may be chosen is the verb's to say: who stays need not be here any more."""

    def __init__(self, *, required: bool = True, label: str | None = None, help_text: str = "") -> None:
        super().__init__(required=required, label=label, max_length=150, help_text=help_text)
        names = reverse_lazy("admin:names", args=("person",))
        self.widget.attrs |= {"autocomplete": "off", "spellcheck": "false", "data-names": names}

    def to_python(self, value: Any) -> Any:
        text = str(value or "").strip()
        if not text:
            return None
        found = User.objects.filter(username=text).first()
        if found is None:
            raise forms.ValidationError("There is nobody here by this name.")
        return found

    def prepare_value(self, value: Any) -> Any:
        return value.username if isinstance(value, User) else value

    def run_validators(self, value: Any) -> None:
        """Nothing is left to check in a person who was found."""
