"""Form fields that people and identities are chosen with."""

from typing import Any

from django import forms

from nhi.actors import Actor
from nhi.models import Identity, User


class PersonField(forms.ModelChoiceField):  # type: ignore[type-arg]  # Django's stubs do not bind the model of a subclass
    """Someone who is here."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(User.objects.active().order_by("username"), **{"empty_label": "Choose a person", **kwargs})


class NameField(forms.CharField):
    """One identity by its name: typed, with the names that the person sees offered beside the line.

    A select would hold every identity there is.
    """

    def __init__(self, *kinds: str, **kwargs: Any) -> None:
        self.kinds = kinds
        super().__init__(max_length=192, **kwargs)
        self.widget.attrs["autocomplete"] = "off"

    def find(self, actor: Actor, name: str) -> Identity:
        seen = Identity.objects.visible_to(actor).filter(kind__in=self.kinds, name=name.strip())
        found = seen.first()
        if found is None:
            raise forms.ValidationError("There is no identity of this name that you can see.")
        return found
