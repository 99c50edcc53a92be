"""The log as it grows: what a page that is left open asks for, again and again."""

import zlib
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from common.console.lists import OWN, ListQuery
from common.console.pages import Crumb, link
from mcp.admin.calls import cells as calls_cells
from mcp.admin.calls import filters
from mcp.gateway import call_statistics
from nhi.console.base import ActorPage
from nhi.models import InvocationLog

SHOWN = 50


def url(request: HttpRequest) -> str:
    """Empty for a page of older calls, or one that ends at some time: it does not grow."""
    if any(request.GET.get(name) for name in ("before", "after", "until")):
        return ""
    query = {name: value for name, value in request.GET.items() if name not in OWN}
    return f"{link('nhi_invocationlog_tail')}?{urlencode(query)}"


class Tail(ActorPage):
    """The newest calls that the filters leave; no content while they are those that were seen last.

    A call is written when it ends, under the time at which it began, so new rows may stand among known ones. They
    are looked for as far back as a call may have begun, by the index of time, and told apart by whoever asks.
    """

    template = "admin/mcp/calls/tail.html"

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        unchanged = request.GET.get("seen") == self.seen
        return HttpResponse(status=204, headers={"X-Console-Part": "1"}) if unchanged else self.page()

    def context(self) -> dict[str, Any]:
        return {
            "title": "New calls",
            "crumb": Crumb("Calls", link("nhi_invocationlog_changelist")),
            "seen": self.seen,
            "full": len(self.found) > SHOWN,
            "rows": [_drawn(row) for row in self.found[:SHOWN]],
            "headings": [{"label": column.label, "narrow": column.narrow} for column in calls_cells.COLUMNS],
        }

    @property
    def seen(self) -> str:
        """One word for these rows and no others."""
        return f"{zlib.crc32(b''.join(row.pk.bytes for row in self.found)):08x}"

    @cached_property
    def found(self) -> list[InvocationLog]:
        rows = filters.within_a_day(InvocationLog.objects.visible_to(self.actor), self.request.GET)
        young = rows.filter(timestamp__gte=timezone.now() - call_statistics.SETTLE_DELAY).defer(*calls_cells.NOT_SHOWN)
        order = ("-timestamp", "-id")
        listing = ListQuery(self.request, young, calls_cells.COLUMNS, filters.FILTERS, order=order)
        return list(listing.matching()[: SHOWN + 1])


def _drawn(row: InvocationLog) -> dict[str, Any]:
    cells = [{"html": column.cell(row), "narrow": column.narrow} for column in calls_cells.COLUMNS]
    return {"id": str(row.pk), "url": link("nhi_invocationlog_call", row.pk), "cells": cells}
