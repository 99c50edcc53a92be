"""The record as a file."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

from nhi.console import event_sentences
from nhi.console.log_export import LogExport
from nhi.console.log_filters import FILTERS
from nhi.models import AuditEvent


class Export(LogExport):
    title = "Export audit events"
    log = "audit events"
    changelist = "nhi_auditevent_changelist"
    filters = FILTERS
    time = "at"
    head = ("at", "actor", "sentence", "event", "subject", "reason", "source", "request_id", "id")
    only_jsonl = ("before", "after", "details", "row_mac")

    def rows(self) -> QuerySet[Any]:
        return AuditEvent.objects.visible_to(self.actor)

    def cells(self, row: AuditEvent) -> Iterable[Any]:
        said = (row.actor_name, event_sentences.event_text(row), row.event, row.subject_name, row.reason, row.source)
        return (*said, row.request_id or "", row.pk)
