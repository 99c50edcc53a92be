"""What was refused at the door: tokens and sign-ins of strangers, counted by minute."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from common.console.lists import Filter, choice_filter, text_filter
from common.console.pages import Tab
from nhi.admin.audit.changelist import logs
from nhi.audit.authentication_failures import UNKNOWN_PUBLIC_ID
from nhi.console import columns
from nhi.console.base import VisibleRowsAdmin
from nhi.console.log_filters import FILTERS, SPANS
from nhi.models import Credential, RefusedAuthentication

REASONS = {
    "credential_unknown": "No such credential",
    "credential_revoked": "The credential was revoked",
    "credential_expired": "The credential had ended",
    "network_not_allowed": "From a network that the credential does not allow",
    "token_expired": "The short-lived token had ended",
    "token_stopped": "The short-lived token was stopped",
    "audience_not_allowed": "The short-lived token is for another service",
    "person_inactive": "The person is deactivated",
    "caller_inactive": "The identity is inactive",
    "caller_suspended": "The identity is suspended",
    "caller_deprecated": "The identity is deprecated",
    "caller_archived": "The identity is archived",
    "caller_expired": "The identity has expired",
    "decision_failed": "The decision broke, so it was a no",
    "passkey_refused": "A passkey did not fit",
    "sso_failed": "Single sign-on failed",
}


def _within(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
    return rows.filter(minute__gte=timezone.now() - SPANS[value][1])


@admin.register(RefusedAuthentication)
class RefusedAuthenticationAdmin(VisibleRowsAdmin):
    title = "Refused sign-ins and tokens"
    lead = (
        "Counted by credential, address and minute, so that a flood costs a row a minute; the reason is the last. "
        "A malformed token is refused without a trace. A wrong password at the console is an audit event."
    )
    view_right = "nhi.view_auditevent"
    log_time = "minute"
    columns = (
        columns.moment("Minute", lambda row: row.minute, form="log", narrow=True),
        columns.plain("Whose", lambda row: row.holder, narrow=True),
        columns.plain("Public id", lambda row: row.public_id),
        columns.plain("Why", lambda row: REASONS.get(row.reason, row.reason), narrow=True),
        columns.plain("Times", lambda row: row.count, narrow=True),
        columns.plain("From", lambda row: row.source),
    )
    filters = (
        Filter("span", "Time", _within, FILTERS[0].choices),
        choice_filter("reason", "Why", "reason", REASONS.items()),
        text_filter("public_id", "Public id", "public_id"),
        text_filter("source", "From", "source"),
    )
    order = ("-minute", "-id")
    empty_title = "Nothing was refused"
    empty_words = "Here is counted who showed a token that was revoked, ended or never ours, and from where."
    empty_icon = "gpp_good"

    def siblings(self, _request: HttpRequest) -> list[Tab]:
        return logs(self.list_name)

    def prepare(self, _request: HttpRequest, rows: list[Any]) -> None:
        """Whose credential it was, or whose run's."""
        shown = {row.public_id for row in rows} - {UNKNOWN_PUBLIC_ID}
        known = Credential.objects.filter(public_id__in=shown).select_related("identity", "user")
        holders = {credential.public_id: str(credential.identity or credential.user) for credential in known}
        runs = Credential.runs.filter(public_id__in=shown).select_related("identity")
        holders |= {credential.public_id: f"A run of {credential.identity}" for credential in runs}
        for row in rows:
            row.holder = holders.get(row.public_id, "")
