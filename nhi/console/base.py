"""Base classes of lists, pages and dialogs that know their actor."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from common.console.confirmation_dialogs import Dialog, go
from common.console.list_admin import ListAdmin
from common.console.lists import Bulk, ListQuery
from common.console.pages import ConsolePage, link
from nhi.actors import Actor
from nhi.audit import events
from nhi.console.request_actor import actor_of
from nhi.models import SavedView
from nhi.people import sessions


class VisibleRowsAdmin(ListAdmin):
    """Base of all lists: shows the rows that its actor may see, with saved views and an export that is recorded."""

    #: The right to see every row. People without it see their own rows.
    view_right = ""

    def visible(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.model.objects.visible_to(actor_of(request))
        return rows

    def may_see_all(self, request: HttpRequest) -> bool:
        return actor_of(request).may(self.view_right)

    def may_export(self, request: HttpRequest) -> bool:
        return actor_of(request).may("nhi.export_data")

    def exports_by_link(self, request: HttpRequest) -> bool:
        """Auditors export by GET: they may not POST, and every page that they open is recorded."""
        return actor_of(request).only_reads

    def exported(self, request: HttpRequest, rows: int, query: str) -> None:
        details = {"rows": rows, "query": query}
        events.write(
            "export.made", actor=actor_of(request), subject_kind="list", subject_name=self.title, details=details
        )

    def bulk_for(self, request: HttpRequest) -> tuple[Bulk, ...]:
        return () if actor_of(request).only_reads else tuple(self.bulk)

    def saved_views(self, request: HttpRequest) -> list[tuple[str, str]]:
        return [(view.name, view.query) for view in _load_saved_views(request, self.list_name)]

    def save_links(self, request: HttpRequest, listing: ListQuery) -> dict[str, Any]:
        actor = actor_of(request)
        if actor.only_reads:
            return {}
        mine = [view for view in _load_saved_views(request, self.list_name) if view.query == listing.state]
        if mine:
            own = [view for view in mine if view.user_id == actor.id]
            return {"forget_url": link("saved_view_remove", own[0].pk)} if own else {}
        is_preset = any(preset.query == listing.state for preset in self.presets)
        return {} if is_preset else {"save_url": f"{link('saved_view_add', self.list_name)}?{listing.state}"}


def _load_saved_views(request: HttpRequest, page: str) -> list[SavedView]:
    """Return the saved views of a page. They are queried once per request, because tabs and links both read them."""
    views_by_page: dict[str, list[SavedView]] = request.__dict__.setdefault("_saved_views", {})
    if page not in views_by_page:
        views_by_page[page] = list(
            SavedView.objects.visible_to(actor_of(request)).filter(page=page).order_by("name")[:20]
        )
    return views_by_page[page]


class ActorMixin:
    """Gives a page or dialog its actor, and requires the right `actor_may` of the actor."""

    request: HttpRequest
    actor_may: ClassVar[str] = ""

    @property
    def actor(self) -> Actor:
        return actor_of(self.request)

    def check(self) -> None:
        """Require the right `actor_may`. Pages of one object also check the object."""
        if self.actor_may:
            self.actor.require(self.actor_may, "open this page")


class ActorPage(ActorMixin, ConsolePage):
    """A page that knows its actor."""


class ActorDialog(ActorMixin, Dialog):
    """A dialog that knows its actor."""


class FreshProofDialog(ActorDialog):
    """A dialog that requires a fresh proof of identity: its effect would outlive a hijacked session.

    If the proof is too old, the dialog redirects to reauthentication and back.
    """

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return self._unproven() or super().get(request, **kwargs)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return self._unproven() or super().post(request, **kwargs)

    def _unproven(self) -> HttpResponse | None:
        url = sessions.reauthentication_url(self.request, return_path=self.request.get_full_path())
        return go(self.request, url) if url else None
