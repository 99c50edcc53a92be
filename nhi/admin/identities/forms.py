"""Adding an identity and editing what describes it."""

from typing import Any

from django import forms
from django.contrib import messages

from common.console.forms import ConsoleForm, MomentField, WordsField
from common.console.pages import Crumb, link
from common.errors import NotAllowed
from nhi.access import rights
from nhi.admin.identities.hub import OfIdentity
from nhi.choices import Kind
from nhi.console.console_role_rights import missing_console_notice
from nhi.console.form_page import FormPage
from nhi.console.row_by_name_fields import PersonField, bind_people_fields
from nhi.identities import identities
from nhi.models import Identity, User

ALIASES = {"owner_id": "owner", "backup_owner_id": "backup_owner"}


class DescriptionForm(ConsoleForm):
    """What describes an identity of any kind."""

    aliases = ALIASES

    owner = PersonField()
    backup_owner = PersonField(required=False, help_text="Takes over when the owner is away. Empty: nobody.")
    purpose = forms.CharField(required=False, max_length=1000, help_text="What it is for, in one sentence.")
    description = forms.CharField(required=False, max_length=1000, widget=forms.Textarea(attrs={"rows": 3}))
    team = forms.CharField(required=False, max_length=100)
    environment = forms.CharField(required=False, max_length=100, help_text="For example prod, staging, dev.")
    tags = WordsField(required=False, help_text="Words parted by commas.")
    expires_at = MomentField(
        required=False,
        label="Ends",
        help_text="From then on it can neither call nor be called. Empty: it does not end by itself.",
    )
    inactivity_days = forms.IntegerField(
        label="Unused after days", initial=90, min_value=1, max_value=3650, help_text="Reported as unused after this."
    )
    capability = forms.CharField(
        required=False,
        max_length=200,
        help_text="Tools only. What roles match, like github.read. Empty: made from the name.",
    )

    def described(self) -> dict[str, Any]:
        """What the verb takes; an empty capability is left to it."""
        given = {name: self.cleaned_data[name] for name in DescriptionForm.base_fields if name in self.cleaned_data}
        given["capability"] = given.get("capability") or None
        return given


class AddForm(DescriptionForm):
    kind = forms.ChoiceField(choices=Kind.choices)
    name = forms.CharField(
        max_length=192,
        help_text="Lower-case letters, digits, dots, underscores and hyphens. A tool is <server>__<tool>. "
        "It cannot be changed later.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )

    field_order = ("kind", "name", "owner", "purpose")
    main = frozenset(field_order)

    @property
    def main_fields(self) -> list[forms.BoundField]:
        return [field for field in self.visible_fields() if field.name in self.main]

    @property
    def further_fields(self) -> list[forms.BoundField]:
        return [field for field in self.visible_fields() if field.name not in self.main]

    @property
    def told_more(self) -> bool:
        """Whether the further fields stand open: one of them was refused."""
        return any(field.errors for field in self.further_fields)


class EditForm(DescriptionForm):
    """The name and the kind stay."""


class Add(FormPage[AddForm]):
    template = "nhi/identity/add.html"
    title = "Add an identity"

    def check(self) -> None:
        self.actor.require("nhi.add_identity", "add identities")
        if self.actor.only_reads:
            raise NotAllowed("You may not add identities.")

    def context(self) -> dict[str, Any]:
        return {
            "crumb": Crumb("Identities", link("nhi_identity_changelist")),
            "back": link("nhi_identity_changelist"),
            "buttons": [("active", "Create and activate"), ("inactive", "Create inactive")],
        }

    def fitting(self, data: Any = None) -> AddForm:
        asked = self.request.GET
        kind, name = asked.get("kind", Kind.AGENT), asked.get("name", "")[:192]
        form = AddForm(data, initial={"kind": kind, "owner": self.actor.name, "name": name})
        return bind_people_fields(form, self.actor)

    def save(self, form: AddForm) -> str:
        made = self._create(form, activate=self.request.POST.get("do") != "inactive")
        messages.success(self.request, f"{made.name} was added{_next(made)}")
        self._tell_of(made.owner)
        # What it needs next: a caller a credential, a tool nothing.
        return link("nhi_identity_hub" if made.kind == Kind.TOOL else "nhi_identity_credentials", made.pk)

    def _tell_of(self, owner: User) -> None:
        if said := missing_console_notice(owner):
            messages.info(self.request, said)

    def _create(self, form: AddForm, *, activate: bool) -> Identity:
        owner: User = form.cleaned_data["owner"]
        described = {name: value for name, value in form.described().items() if name != "owner"}
        if described["capability"] is None:
            del described["capability"]
        return identities.create(
            actor=self.actor,
            kind=Kind(form.cleaned_data["kind"]),
            name=form.cleaned_data["name"].strip(),
            owner=owner,
            activate=activate,
            **described,
        )


class Edit(OfIdentity, FormPage[EditForm]):
    template = "console/form.html"

    def check(self) -> None:
        super().check()
        if self.actor.only_reads:
            raise NotAllowed(f"You may not change {self.identity.name}.")
        rights.require_to_edit(self.actor, self.identity)

    def context(self) -> dict[str, Any]:
        return {
            "title": f"Edit {self.identity.name}",
            "crumb": Crumb(self.identity.name, self.url("hub")),
            "back": self.url("hub"),
            "buttons": [("save", "Save")],
        }

    def fitting(self, data: Any = None) -> EditForm:
        one = self.identity
        known = {name: getattr(one, name) for name in DescriptionForm.base_fields}
        form = EditForm(data, initial=known if data is None else None)
        if one.kind != Kind.TOOL:
            del form.fields["capability"]
        return bind_people_fields(form, self.actor, one.owner, one.backup_owner)

    def save(self, form: EditForm) -> str:
        identities.change(actor=self.actor, identity=self.identity, **self._changed(form))
        messages.success(self.request, f"{self.identity.name} was changed.")
        self._tell_of(form)
        return self.url("hub")

    def _tell_of(self, form: EditForm) -> None:
        if "owner" in form.changed_data and (said := missing_console_notice(form.cleaned_data["owner"])):
            messages.info(self.request, said)

    def _changed(self, form: EditForm) -> dict[str, Any]:
        """Only what was altered: an end that has passed may stay as it is."""
        given = {name: value for name, value in form.described().items() if name in form.fields}
        before = self.identity
        if self.identity.kind == Kind.TOOL and not given["capability"]:
            given["capability"] = identities.default_capability(before.name)
        return {name: value for name, value in given.items() if _differs(getattr(before, name), value)}


def _differs(old: Any, new: Any) -> bool:
    if hasattr(old, "replace") and hasattr(old, "second"):
        # The form knows minutes.
        old = old.replace(second=0, microsecond=0)
    return bool(old != new)


def _next(made: Identity) -> str:
    return "." if made.kind == Kind.TOOL else ". Give it a credential and access next."
