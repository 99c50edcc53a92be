"""Saving a list's filters under a name, and removing what was saved."""

from django import forms
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.urls import NoReverseMatch, URLPattern, path, reverse

from common.console.forms import ConsoleForm
from common.errors import NotAllowed, NotFound
from nhi.console.base import ActorDialog
from nhi.models import SavedView
from nhi.people import saved_views


class NameForm(ConsoleForm):
    name = forms.CharField(max_length=64, widget=forms.TextInput(attrs={"autocomplete": "off"}))
    shared = forms.BooleanField(
        required=False, label="Everyone sees it", help_text="They see the rows that they may see."
    )


class SaveView(ActorDialog):
    title = "Save this view"
    button = "Save view"
    form_class = NameForm
    lead = "The filters, the search and the order of this list, as a tab above it."

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed("You may not save views.")
        try:
            self.back()
        except NoReverseMatch as error:
            raise NotFound from error

    def back(self) -> str:
        return f"{reverse('admin:' + self.kwargs['page'])}?{self._query}"

    @property
    def _query(self) -> str:
        return self.request.GET.urlencode()

    def act(self, form: ConsoleForm) -> str:
        given = form.cleaned_data
        saved_views.create(
            actor=self.actor, page=self.kwargs["page"], name=given["name"], query=self._query, shared=given["shared"]
        )
        return self.back()


class RemoveView(ActorDialog):
    title = "Remove this view"

    view: SavedView

    def check(self) -> None:
        self.view = self._find()

    def _find(self) -> SavedView:
        found = SavedView.objects.visible_to(self.actor).filter(pk=self.kwargs["pk"]).first()
        if found is None or found.user_id != self.actor.id or self.actor.only_reads:
            raise NotFound
        return found

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a view
        return f"Remove {self.view.name}"

    def back(self) -> str:
        return reverse("admin:" + self.view.page)

    def act(self, form: ConsoleForm) -> str:
        back = self.back()
        saved_views.remove(actor=self.actor, view=self.view)
        return back


@admin.register(SavedView)
class SavedViewAdmin(ModelAdmin):  # type: ignore[type-arg]  # Django's class takes no parameter at run time
    """No list of its own: views stand as tabs above the lists that they are of."""

    def get_urls(self) -> list[URLPattern]:
        guard = self.admin_site.admin_view
        return [
            path("<slug:page>/add/", guard(SaveView.as_view()), name="saved_view_add"),
            path("<uuid:pk>/remove/", guard(RemoveView.as_view()), name="saved_view_remove"),
        ]
