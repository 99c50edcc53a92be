"""Base class of the export of a log as CSV or JSONL. The file is streamed, and the export is recorded."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

from common.console import downloads, keyset
from common.console.lists import Filter, ListQuery, Lookup
from common.console.pages import Crumb, link
from common.errors import InvalidInput
from nhi.audit import events
from nhi.console.base import ActorPage

PAGE_SIZE = 1000
FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}


class LogExport(ActorPage):
    """A page that describes the export, and the file by POST: an export writes an audit event, a GET writes nothing.

    Auditors may not POST. They get the file by GET, because every page that they open is recorded anyway.
    """

    template = "nhi/audit/export.html"
    actor_may = "nhi.export_data"
    #: Name of the log in audit events; with hyphens, the name of the file.
    log: ClassVar[str]
    changelist: ClassVar[str]
    filters: ClassVar[tuple[Filter, ...]]
    #: The time column that orders the log.
    time: ClassVar[str]
    head: ClassVar[Sequence[str]]
    search: ClassVar[Sequence[Lookup]] = ()
    #: Columns that only JSONL contains, and columns that no file contains.
    only_jsonl: ClassVar[tuple[str, ...]] = ()
    never: ClassVar[tuple[str, ...]] = ()
    #: The query in the audit event if no filter is set.
    unfiltered: ClassVar[str] = ""

    def rows(self) -> QuerySet[Any]:
        """Return the rows that the actor may see, before any filter."""
        raise NotImplementedError

    def cells(self, row: Any) -> Iterable[Any]:
        """Return the cells of a CSV line, after the time."""
        raise NotImplementedError

    def context(self) -> dict[str, Any]:
        return {
            "listing": self._listing(),
            "crumb": Crumb(self.log.capitalize(), link(self.changelist)),
            "formats": [("csv", "CSV, for a spreadsheet"), ("jsonl", "JSONL, every column")],
            "by_link": self.actor.only_reads,
        }

    def get(  # type: ignore[override]  # a streamed file has another response type
        self, request: HttpRequest, **_kwargs: Any
    ) -> HttpResponseBase:
        format_name = request.GET.get("format", "")
        return self._file(format_name) if format_name and self.actor.only_reads else self.page()

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponseBase:
        return self._file(request.POST.get("format", ""))

    def _listing(self) -> ListQuery:
        # Only rows up to now: not the event of this export, nor rows written during it.
        rows = self.rows().filter(**{f"{self.time}__lt": timezone.now()})
        return ListQuery(self.request, rows, (), self.filters, self.search, order=(f"-{self.time}", "-id"))

    def _file(self, format_name: str) -> HttpResponseBase:
        if format_name not in FORMATS:
            raise InvalidInput.for_field("format", f"Choose among {', '.join(FORMATS)}.")
        listing = self._listing()
        details = {"format": format_name, "query": listing.state or self.unfiltered}
        events.write("export.made", actor=self.actor, subject_kind="list", subject_name=self.log, details=details)
        lines = self._as_csv(listing.matching()) if format_name == "csv" else self._as_jsonl(listing.matching())
        name = f"{self.log.replace(' ', '-')}.{format_name}"
        return downloads.download(self.request, lines, name=name, content_type=FORMATS[format_name])

    def _as_csv(self, matching: QuerySet[Any]) -> Iterator[str]:
        yield _csv_line(self.head)
        for row in self._everything(matching.defer(*self.only_jsonl, *self.never)):
            yield _csv_line((_format_time(getattr(row, self.time)), *self.cells(row)))

    def _as_jsonl(self, matching: QuerySet[Any]) -> Iterator[str]:
        model: type[Model] = matching.model
        names = [field.attname for field in model._meta.concrete_fields if field.attname not in self.never]
        for row in self._everything(matching.defer(*self.never)):
            whole = {name: getattr(row, name) for name in names} | {self.time: _format_time(getattr(row, self.time))}
            yield json.dumps(whole, default=str, ensure_ascii=False) + "\n"

    def _everything(self, matching: QuerySet[Any]) -> Iterator[Any]:
        """Yield all rows. They are loaded one page at a time."""
        before = ""
        while True:
            part = keyset.page(matching, time=self.time, before=before, size=PAGE_SIZE)
            yield from part.rows
            if not part.older:
                return
            before = part.older


def _csv_line(cells: Iterable[Any]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow([downloads.safe(cell) for cell in cells])
    return out.getvalue()


def _format_time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
