"""The form field that a person is chosen with."""

from typing import Any

from django import forms

from nhi.models import User


class PersonField(forms.ModelChoiceField):  # type: ignore[type-arg]  # Django's stubs do not bind the model of a subclass
    """Someone who is here."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(User.objects.active().order_by("username"), **{"empty_label": "Choose a person", **kwargs})
