"""One verb for several identities."""

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from django.urls import path

from common.console.confirmation_dialogs import Effect, counted
from common.console.forms import ConsoleForm, WordsField
from nhi.admin.identities.state_changes import StopForm
from nhi.admin.identities.stop_effects import stop_effects
from nhi.choices import State
from nhi.console.bulk_dialog import BulkDialog
from nhi.console.row_by_name_fields import PersonField, bind_people_fields
from nhi.identities import identities, lifecycle
from nhi.models import Identity


class Bulk(BulkDialog[Identity]):
    nouns = ("identity", "identities")
    kind = "identity"
    list_name = "nhi_identity_changelist"
    order = ("name",)

    def rows(self) -> QuerySet[Identity]:
        return Identity.objects.visible_to(self.actor).select_related("owner", "backup_owner")


class Suspend(Bulk):
    verb = "Suspend"
    danger = True
    form_class = StopForm
    lead = "From the moment this is answered, no request of theirs is allowed. Their grants stay."

    def misfit(self, one: Identity) -> str:
        return "" if one.state == State.ACTIVE else f"is {State(one.state).label.lower()}"

    def effects(self) -> list[Effect]:
        number = counted("identities", len(self.fitting), "Suspends {} identity", "Suspends {} identities")
        return [number, *stop_effects(self.fitting)]

    def each(self, form: ConsoleForm) -> Callable[[Identity], Identity]:
        assert isinstance(form, StopForm)
        terms = form.terms
        return lambda one: lifecycle.suspend(actor=self.actor, identity=one, **terms).identity


class OwnerForm(ConsoleForm):
    aliases = {"owner_id": "owner", "backup_owner_id": "owner"}

    owner = PersonField(label="New owner")


class ReassignOwner(Bulk):
    verb = "Reassign"
    form_class = OwnerForm
    lead = "The new owner handles their lifecycle and their credentials from now on."

    def form(self, data: Any = None) -> ConsoleForm:
        return bind_people_fields(super().form(data), self.actor)

    def misfit(self, one: Identity) -> str:
        return "is archived" if one.state == State.ARCHIVED else ""

    def each(self, form: ConsoleForm) -> Callable[[Identity], Identity]:
        return lambda one: identities.change(actor=self.actor, identity=one, owner=form.cleaned_data["owner"])


class TagForm(ConsoleForm):
    tags = WordsField(label="Add tags", help_text="Words parted by commas.")
    without = WordsField(label="Take away", required=False)


class Tag(Bulk):
    verb = "Tag"
    form_class = TagForm

    def each(self, form: ConsoleForm) -> Callable[[Identity], Identity]:
        return lambda one: identities.change(actor=self.actor, identity=one, tags=_tags(one, form))


def _tags(one: Identity, form: ConsoleForm) -> list[str]:
    gone = set(form.cleaned_data["without"])
    return [tag for tag in dict.fromkeys([*one.tags, *form.cleaned_data["tags"]]) if tag not in gone]


URLS = [
    path("bulk/suspend/", Suspend.as_view(), name="nhi_identity_bulk_suspend"),
    path("bulk/owner/", ReassignOwner.as_view(), name="nhi_identity_bulk_owner"),
    path("bulk/tag/", Tag.as_view(), name="nhi_identity_bulk_tag"),
]
