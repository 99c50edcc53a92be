"""The audit log: list and export."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from common.console import times
from common.console.lists import OWN, Bulk, Column, Preset
from common.console.pages import Tab, link
from nhi.admin.audit.detail import Event
from nhi.choices import State
from nhi.console import columns, event_sentences
from nhi.console.base import VisibleRowsAdmin
from nhi.console.log_export import LogExport
from nhi.console.log_filters import FILTERS
from nhi.models import AuditEvent, Identity


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


LOGS = (
    ("Audit events", "nhi_auditevent_changelist"),
    ("Refused sign-ins and tokens", "nhi_refusedauthentication_changelist"),
)


def logs(current: str) -> list[Tab]:
    return [Tab(label, link(page), current=page == current) for label, page in LOGS]


def _said(row: Any) -> SafeString:
    """The sentence with the names of its time, and what became of who is no more."""
    gone = format_html(' <span class="gh-subtle">{}</span>', "(archived since)") if row.subject_is_gone else ""
    return format_html("<span>{}{}</span>", event_sentences.event_sentence(row).html, gone)


@admin.register(AuditEvent)
class AuditEventAdmin(VisibleRowsAdmin):
    title = "Audit events"
    lead = "Who did what to whom. Written in the same transaction as the change, and never changed since."
    template = "nhi/audit/list.html"
    view_right = "nhi.view_auditevent"
    log_time = "at"
    columns = (
        columns.moment("Time", lambda row: row.at, form="log", narrow=True),
        Column("Who", lambda row: row.actor_name, lambda row: row.actor_name),
        Column("What", _said, event_sentences.event_text, narrow=True),
        columns.plain("Reason", lambda row: row.reason),
        columns.plain("From", lambda row: row.source),
    )
    filters = FILTERS
    order = ("-at", "-id")
    bulk: tuple[Bulk, ...] = ()
    empty_words = "Every change is written here as a sentence: who did it, to whom, why and from where."
    empty_icon = "history"
    presets = (
        Preset("All"),
        Preset("Access", "event=grant.%2A"),
        Preset("Credentials", "event=credential.%2A"),
        Preset("Identities", "event=identity.%2A"),
        Preset("People", "event=person.%2A"),
        Preset("Sign-ins", "event=sign_in.%2A"),
        Preset("Opened by auditors", "event=page.opened"),
    )
    api_path = "/api/nhi/audit-events"

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.defer("before", "after", "details", "row_mac")

    def prepare(self, _request: HttpRequest, rows: list[Any]) -> None:
        event_sentences.read_changes(rows)
        subjects = {row.subject_id for row in rows if row.subject_kind == "identity" and row.subject_id}
        archived = (
            Identity.objects.filter(pk__in=subjects, state=State.ARCHIVED) if subjects else Identity.objects.none()
        )
        gone = set(archived.values_list("pk", flat=True))
        for row in rows:
            row.subject_is_gone = row.subject_id in gone and row.event != "identity.archived"

    def siblings(self, _request: HttpRequest) -> list[Tab]:
        return logs(self.list_name)

    def row_url(self, row: Any) -> str:
        return link("nhi_auditevent_event", row.pk)

    def may_export(self, _request: HttpRequest) -> bool:
        """Not as other lists, which are read whole: the record has an export that streams."""
        return False

    def more(self, request: HttpRequest) -> dict[str, Any]:
        if not super().may_export(request):
            return {}
        query = {name: value for name, value in request.GET.items() if name not in OWN}
        return {"export_url": f"{link('nhi_auditevent_export')}?{urlencode(query)}"}

    def pages(self) -> list[URLPattern]:
        return [
            path("export/", Export.as_view(), name="nhi_auditevent_export"),
            path("<uuid:pk>/", Event.as_view(), name="nhi_auditevent_event"),
        ]

    def _drawn(self, row: Any) -> dict[str, Any]:
        return {**super()._drawn(row), "name": f"event of {times.exact(row.at)}"}
