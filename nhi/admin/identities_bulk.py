"""One verb for several identities: counted first, then each with its own result."""

from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from django.urls import path
from django.utils.functional import cached_property

from common.admin import several
from common.admin.dialogs import Effect, counted
from common.admin.forms import ConsoleForm, WordsField
from common.admin.pages import link, render
from common.errors import NotAllowed
from nhi import identities, lifecycle
from nhi.access import ItemResult, attempt
from nhi.admin.base import ActingDialog
from nhi.admin.fields import PersonField, among_people
from nhi.admin.identities_moves import STOPS, StopForm
from nhi.choices import State
from nhi.models import Identity


class Bulk(ActingDialog):
    """Works on what was ticked and can be seen; what the verb does not fit is skipped and said."""

    template = "nhi/identity/bulk.html"
    verb = ""

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed("You may not change identities.")

    @cached_property
    def chosen(self) -> list[Identity]:
        seen = Identity.objects.visible_to(self.actor).filter(pk__in=several.ticked(self.request))
        return list(seen.select_related("owner", "backup_owner").order_by("name"))

    @cached_property
    def fitting(self) -> list[Identity]:
        return [one for one in self.chosen if not self.misfit(one)]

    @property
    def skipped(self) -> list[str]:
        return [f"{one.name}: {why}" for one in self.chosen if (why := self.misfit(one))]

    def misfit(self, _one: Identity) -> str:
        """Why the verb has nothing to do for this one; empty when it has."""
        return ""

    def back(self) -> str:
        return link("nhi_identity_changelist")

    @property
    def title(self) -> str:  # type: ignore[override]  # the number is known once there is a request
        count = len(self.fitting)
        return f"{self.verb} {count} {'identity' if count == 1 else 'identities'}"

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return self.title if self.fitting else ""

    @property
    def typed(self) -> str:  # type: ignore[override]  # the same
        return several.to_type(len(self.fitting)) if self.danger else ""

    def context(self) -> dict[str, Any]:
        names = [one.name for one in self.fitting]
        return {
            "title": self.title,
            **several.named(names),
            "skipped": self.skipped,
        }

    def each(self, form: ConsoleForm) -> Callable[[Identity], Identity]:
        raise NotImplementedError

    def act(self, form: ConsoleForm) -> HttpResponse:
        verb = self.each(form)
        results = [
            attempt(one.kind, one.name, one.pk, lambda one=one: verb(one), done="done")
            for one in self.fitting
        ]  # fmt: skip
        done = sum(item.result == "done" for item in results)
        skipped = [
            ItemResult("skipped", one.kind, one.name, one.pk, message=why)
            for one in self.chosen
            if (why := self.misfit(one))
        ]
        title = f"{self.verb}: {done} of {len(self.chosen)} done"
        return render(self.request, "console/results.html", title=title, results=[*results, *skipped], back=self.back())


class Suspend(Bulk):
    verb = "Suspend"
    danger = True
    form_class = StopForm
    lead = "From the moment this is answered, no request of theirs is allowed. Their grants stay."

    def misfit(self, one: Identity) -> str:
        return "" if one.state == State.ACTIVE else f"is {State(one.state).label.lower()}"

    def effects(self) -> list[Effect]:
        totals = lifecycle.consequences_of(self.fitting)
        number = counted("identities", len(self.fitting), "Suspends {} identity", "Suspends {} identities")
        return [number, *(counted(name, count, *STOPS[name]) for name, count in totals.items() if name in STOPS)]

    def each(self, form: ConsoleForm) -> Callable[[Identity], Identity]:
        reason = form.cleaned_data["reason"]
        return lambda one: lifecycle.suspend(actor=self.actor, identity=one, reason=reason).identity


class OwnerForm(ConsoleForm):
    aliases = {"owner_id": "owner", "backup_owner_id": "owner"}

    owner = PersonField(label="New owner")


class ReassignOwner(Bulk):
    verb = "Reassign"
    form_class = OwnerForm
    lead = "The new owner handles their lifecycle and their credentials from now on."

    def form(self, data: Any = None) -> ConsoleForm:
        return among_people(super().form(data), self.actor)

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
