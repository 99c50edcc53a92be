"""The record as a file: CSV for a spreadsheet, JSONL with every column. Streamed, and itself on record."""

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
from nhi.admin import sentences
from nhi.admin.audit_filters import FILTERS
from nhi.admin.base import ActingPage
from nhi.models import AuditEvent
from nhi.record import events

CHUNK = 1000
HEAD = ("at", "actor", "sentence", "event", "subject", "reason", "source", "request_id", "id")
FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}


class Export(ActingPage):
    """A page that says what will be in it, and the file by POST: an export is put on record, and a GET changes nothing.

    Auditors post nothing anywhere; every page that they open is on record, and so the file comes to them by GET.
    """

    template = "nhi/audit/export.html"
    title = "Export audit events"
    actor_may = "nhi.export_data"

    def context(self) -> dict[str, Any]:
        return {
            "listing": self._listing(),
            "crumb": Crumb("Audit events", link("nhi_auditevent_changelist")),
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
        # Up to now: neither this export nor what happens meanwhile is in it.
        rows = AuditEvent.objects.visible_to(self.actor).filter(at__lt=timezone.now())
        return Listing(self.request, rows, (), FILTERS, order=("-at", "-id"))

    def _file(self, wanted: str) -> HttpResponseBase:
        if wanted not in FORMATS:
            raise Invalid.field("format", f"Choose among {', '.join(FORMATS)}.")
        listing = self._listing()
        matching = listing.matching()
        rows = everything(matching if wanted == "jsonl" else matching.defer("before", "after", "details", "row_mac"))
        details = {"format": wanted, "query": listing.state}
        events.write("export.made", actor=self.actor, subject_kind="list", subject_name="audit events", details=details)
        lines = as_csv(rows) if wanted == "csv" else as_jsonl(rows)
        return streams.download(self.request, lines, name=f"audit-events.{wanted}", content_type=FORMATS[wanted])


def everything(matching: Any) -> Iterator[AuditEvent]:
    """Row by row, a page of the log at a time."""
    before = ""
    while True:
        part = keyset.page(matching, time="at", before=before, size=CHUNK)
        yield from part.rows
        if not part.older:
            return
        before = part.older


def as_csv(rows: Iterable[AuditEvent]) -> Iterator[str]:
    yield _line(HEAD)
    for row in rows:
        subject, request_id = row.subject_name, row.request_id or ""
        yield _line(
            (_moment(row), row.actor_name, sentences.text(row), row.event, subject, row.reason, row.source,
             request_id, row.pk)
        )  # fmt: skip


def as_jsonl(rows: Iterable[AuditEvent]) -> Iterator[str]:
    names = [field.attname for field in AuditEvent._meta.concrete_fields]
    for row in rows:
        whole = {name: getattr(row, name) for name in names} | {"at": _moment(row)}
        yield json.dumps(whole, default=str, ensure_ascii=False) + "\n"


def _line(cells: Iterable[Any]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([export.safe(cell) for cell in cells])
    return out.getvalue()


def _moment(row: AuditEvent) -> str:
    return row.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
