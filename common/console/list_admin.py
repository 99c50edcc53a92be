"""Base admin class of every list page: Gatehouse's own list and none of Django's forms.

Objects are created and changed by pages and dialogs that call functions of the app. Nothing is deleted, and no row is
edited in a list.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import URLPattern, path
from unfold.admin import ModelAdmin

from common.console import downloads, keyset
from common.console.lists import Bulk, Column, Filter, ListQuery, Lookup, Preset
from common.console.pages import Control, Tab, render
from common.errors import NotAllowed


class ListAdmin(ModelAdmin):
    """Base admin class of list pages: declares columns, filters, presets and bulk actions, and renders the list."""

    title = ""
    lead = ""
    columns: Sequence[Column] = ()
    filters: Sequence[Filter] = ()
    #: Lookups of the search, such as `name__icontains`.
    search: Sequence[Lookup] = ()
    search_words = "Search"
    order: Sequence[str] = ("-pk",)
    #: For logs, the field with the time: pages are by time instead of by number, and rows are not counted.
    log_time = ""
    presets: Sequence[Preset] = ()
    bulk: Sequence[Bulk] = ()
    #: Whether bulk actions may apply to all rows that match the filters, as well as to the selected rows.
    bulk_by_filter = False
    empty_title = "Nothing here yet"
    empty_words = ""
    empty_command = ""
    empty_icon = "inbox"
    #: Path of the same list in the REST API.
    api_path = ""
    template = "console/list.html"

    # Apps override these: this module knows neither the actor nor the actor's rights.
    def visible(self, request: HttpRequest) -> QuerySet[Any]:
        raise NotImplementedError

    def may_see_all(self, request: HttpRequest) -> bool:
        raise NotImplementedError

    def may_export(self, request: HttpRequest) -> bool:
        raise NotImplementedError

    def exports_by_link(self, request: HttpRequest) -> bool:
        """Whether a GET request may download the export. Recorded exports need a POST request."""
        return False

    def exported(self, request: HttpRequest, rows: int, query: str) -> None:
        """Record the export in the audit log."""
        raise NotImplementedError

    def saved_views(self, request: HttpRequest) -> list[tuple[str, str]]:
        """Names and queries of the views that this user saved or that are shared with this user."""
        return []

    def save_links(self, request: HttpRequest, listing: ListQuery) -> dict[str, Any]:
        return {}

    def controls(self, request: HttpRequest) -> list[Control]:
        return []

    def first_steps(self, request: HttpRequest) -> list[Control]:
        """Controls that a list without any rows shows for creating the first row."""
        return self.controls(request)

    def bulk_for(self, request: HttpRequest) -> Sequence[Bulk]:
        return self.bulk

    def siblings(self, request: HttpRequest) -> list[Tab]:
        """Other lists of the same group, shown as tabs above this list."""
        return []

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Add the joins that the cells need."""
        return rows

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        """Load data that the cells of one page need, with one query per kind of data."""

    def row_url(self, row: Any) -> str:
        """The URL of a row's detail page; empty for rows without one."""
        return ""

    def pages(self) -> list[URLPattern]:
        """Detail pages, forms and dialogs of this model."""
        return []

    # ── The list ──────────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def list_name(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_changelist"

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        listing = ListQuery(
            request, self.related(self.visible(request)), self.columns, self.filters, self.search, self.order
        )
        if self._asked(request).get("export") == "csv":
            return self._export(request, listing)
        page = self._log_page(listing) if self.log_time else listing.page()
        rows = page.rows if isinstance(page, keyset.Slice) else list(page)
        self.prepare(request, rows)
        return render(
            request,
            self.template,
            title=self.title,
            lead=self.lead,
            listing=listing,
            page=page,
            keyset=page if self.log_time else None,
            rows=[self._drawn(row) for row in rows],
            headings=_headings(listing),
            views=self._views(request, listing),
            siblings=self.siblings(request),
            controls=self.controls(request),
            first_steps=[] if rows or listing.is_narrowed else self.first_steps(request),
            bulk=self.bulk_for(request) if rows else (),
            bulk_by_filter=self.bulk_by_filter,
            searchable=bool(self.search),
            search_words=self.search_words,
            may_export=self.may_export(request),
            exports_by_link=self.exports_by_link(request),
            may_all=self.may_see_all(request),
            empty_title=self.empty_title,
            empty_words=self.empty_words,
            empty_command=self.empty_command,
            empty_icon=self.empty_icon,
            api_path=self.api_path,
            **self.save_links(request, listing),
            **self.more(request),
        )

    def more(self, request: HttpRequest) -> dict[str, Any]:
        """Additional template context for a list with a template of its own."""
        return {}

    def _log_page(self, listing: ListQuery) -> keyset.Slice:
        query = listing.query
        before, after = query.get("before", ""), query.get("after", "")
        return keyset.page(listing.matching(), time=self.log_time, before=before, after=after)

    def _drawn(self, row: Any) -> dict[str, Any]:
        cells = [{"html": column.cell(row), "narrow": column.narrow} for column in self.columns]
        return {"id": str(row.pk), "name": str(row), "url": self.row_url(row), "cells": cells}

    def _views(self, request: HttpRequest, listing: ListQuery) -> list[Tab]:
        views = [(preset.label, preset.query) for preset in self.presets] + self.saved_views(request)
        current = _nearest([query for _, query in views], listing.state)
        return [Tab(name, f"?{query}", current=query == current) for name, query in views]

    def _asked(self, request: HttpRequest) -> QueryDict:
        return request.GET if self.exports_by_link(request) else request.POST

    def _export(self, request: HttpRequest, listing: ListQuery) -> HttpResponse:
        if not self.may_export(request):
            raise NotAllowed("You may not export lists.")
        rows = list(listing.matching()[: downloads.MOST_ROWS])
        self.prepare(request, rows)
        self.exported(request, len(rows), listing.state)
        return downloads.as_csv(self.title.lower().replace(" ", "-"), self.columns, rows)

    # ── Django's own forms are disabled ───────────────────────────────────────────────────────────────────────────
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_urls(self) -> list[URLPattern]:
        guard = self.admin_site.admin_view
        own_urls = [path("", guard(self.changelist_view), name=self.list_name)]
        return own_urls + [_guarded(pattern, guard) for pattern in self.pages()]


def _guarded(pattern: URLPattern, guard: Any) -> URLPattern:
    return URLPattern(pattern.pattern, guard(pattern.callback), pattern.default_args, pattern.name)


def _nearest(queries: list[str], state: str) -> str | None:
    """The view with exactly this state, else the longest query whose parameters are all in the state."""
    if state in queries:
        return state
    state_pairs = set(parse_qsl(state))
    return max((query for query in queries if query and set(parse_qsl(query)) <= state_pairs), key=len, default=None)


def _headings(listing: ListQuery) -> list[dict[str, Any]]:
    return [
        {"label": column.label, "narrow": column.narrow, **_order_of(column, listing)} for column in listing.columns
    ]


def _order_of(column: Column, listing: ListQuery) -> dict[str, Any]:
    """The link of a column heading, and the current order of the list by this column."""
    if not column.sort:
        return {"url": "", "ordered": ""}
    is_ascending, is_descending = listing.sort == column.sort, listing.sort == f"-{column.sort}"
    query = listing.query.copy()
    query.pop("page", None)
    query["sort"] = f"-{column.sort}" if is_ascending else column.sort
    return {
        "url": f"?{query.urlencode()}",
        "ordered": "ascending" if is_ascending else "descending" if is_descending else "",
    }
