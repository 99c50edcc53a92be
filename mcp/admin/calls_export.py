"""The invocation log as a file: CSV for a spreadsheet, JSONL with every column. Streamed, and itself on record."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

from common.admin import export, keyset, streams
from common.admin.lists import Listing
from common.admin.pages import Crumb, link
from common.errors import Invalid
from mcp.admin.calls_filters import FILTERS, within_a_day
from nhi.admin.audit_export import CHUNK, FORMATS
from nhi.admin.base import ActingPage
from nhi.models import InvocationLog
from nhi.record import events

HEAD = (
    "timestamp", "agent_name", "agent_role", "tool_name", "method", "status", "reason", "error_code", "error_message",
    "duration", "redaction_applied", "args_hash", "source", "thread_id", "request_id", "run_id", "id",
)  # fmt: skip


class Export(ActingPage):
    """A page that says what will be in it, and the file by POST: an export is put on record, and a GET changes nothing.

    Auditors post nothing anywhere; every page that they open is on record, and so the file comes to them by GET.
    """

    template = "nhi/audit/export.html"
    title = "Export calls"
    actor_may = "nhi.export_data"

    def context(self) -> dict[str, Any]:
        return {
            "listing": self._listing(),
            "crumb": Crumb("Calls", link("nhi_invocationlog_changelist")),
            "formats": [("csv", "CSV, for a spreadsheet"), ("jsonl", "JSONL, every column")],
            "by_link": self.actor.only_reads,
        }

    def get(  # type: ignore[override]  # a file that is streamed is another kind of response
        self, request: HttpRequest, **_kwargs: Any
    ) -> HttpResponseBase:
        wanted = request.GET.get("format", "")
        return self._file(wanted) if wanted and self.actor.only_reads else self.page()

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponseBase:
        return self._file(request.POST.get("format", ""))

    def _listing(self) -> Listing:
        # Up to now: what ends meanwhile is not in it.
        ended = InvocationLog.objects.visible_to(self.actor).filter(timestamp__lt=timezone.now())
        rows = within_a_day(ended, self.request.GET)
        return Listing(self.request, rows, (), FILTERS, order=("-timestamp", "-id"))

    def _file(self, wanted: str) -> HttpResponseBase:
        if wanted not in FORMATS:
            raise Invalid.field("format", f"Choose among {', '.join(FORMATS)}.")
        listing = self._listing()
        details = {"format": wanted, "query": listing.state or "span=24h"}
        events.write("export.made", actor=self.actor, subject_kind="list", subject_name="calls", details=details)
        rows = everything(listing.matching())
        lines = as_csv(rows) if wanted == "csv" else as_jsonl(rows)
        return streams.download(self.request, lines, name=f"calls.{wanted}", content_type=FORMATS[wanted])


def everything(matching: Any) -> Iterator[InvocationLog]:
    """Row by row, a page of the log at a time."""
    before = ""
    while True:
        part = keyset.page(matching, time="timestamp", before=before, size=CHUNK)
        yield from part.rows
        if not part.older:
            return
        before = part.older


def as_csv(rows: Iterable[InvocationLog]) -> Iterator[str]:
    yield _line(HEAD)
    for row in rows:
        yield _line([_moment(row), *(getattr(row, name) for name in HEAD[1:])])


def as_jsonl(rows: Iterable[InvocationLog]) -> Iterator[str]:
    names = [field.attname for field in InvocationLog._meta.concrete_fields]
    for row in rows:
        whole = {name: getattr(row, name) for name in names} | {"timestamp": _moment(row)}
        yield json.dumps(whole, default=str, ensure_ascii=False) + "\n"


def _line(cells: Iterable[Any]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([export.safe(cell) for cell in cells])
    return out.getvalue()


def _moment(row: InvocationLog) -> str:
    return row.timestamp.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
