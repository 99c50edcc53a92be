"""What signs callbacks: whose, for which URLs, since when. A secret is shown once, when it is made or rotated."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from a2a import webhooks
from a2a.admin import webhook_secrets_beside
from a2a.admin.deliveries_filters import list_url
from a2a.admin.webhook_secret_ends import URLS, OfSecret
from a2a.admin.webhook_secrets_beside import signs_alone
from a2a.models import WebhookSecret
from a2a.webhooks import Shown
from common.console import times
from common.console.confirmation_dialogs import ApiExample, Effect
from common.console.forms import ConsoleForm
from common.console.lists import Bulk, Column, text_filter
from common.console.pages import Control, Tab, link, render, render_once
from common.errors import InvalidInput, NotAllowed
from common.templatetags.console import icon, outside
from nhi.console import columns, row_by_name_fields
from nhi.console.base import ActorDialog, VisibleRowsAdmin
from nhi.console.request_actor import actor_of

HOURS = int(webhooks.OVERLAP.total_seconds() // 3600)


def siblings(current: str) -> list[Tab]:
    """Deliveries, and what signs them."""
    known = (("Deliveries", "a2a_delivery_changelist"), ("Webhook secrets", "a2a_webhooksecret_changelist"))
    return [Tab(label, link(page), current=page == current) for label, page in known]


def _prefix(row: Any) -> SafeString:
    if row.url_prefix:
        return outside(row.url_prefix, 120)
    return SafeString('<span class="gh-subtle">any URL without a secret of its own</span>')


def _do(row: Any) -> SafeString:
    if not row.is_ours:
        return SafeString("")
    verbs = [("rotate", "autorenew", "Rotate"), ("remove", "delete", "Remove")]
    if not signs_alone(row):
        verbs.insert(1, ("revoke_previous", "key_off", webhook_secrets_beside.revoking(row)))
    buttons = format_html_join(
        "",
        '<a class="gh-btn gh-btn--small" data-dialog href="{}">{}{}<span class="gh-hidden"> {}</span></a>',
        ((link(f"a2a_webhooksecret_{verb}", row.pk), icon(drawn), said, row) for verb, drawn, said in verbs),
    )
    return format_html('<span class="gh-actions">{}</span>', buttons)


@admin.register(WebhookSecret)
class WebhookSecretAdmin(VisibleRowsAdmin):
    title = "Webhook secrets"
    lead = (
        "What callbacks are signed with: the longest prefix that the URL begins with, of who asked for the task. "
        "Kept encrypted, shown once."
    )
    template = "admin/a2a/deliveries/secrets.html"
    view_right = "a2a.view_webhooksecret"
    columns = (
        Column("Whose", lambda row: outside(row.owner_name, 80), lambda row: row.owner_name, "owner_name", narrow=True),
        Column("Signs for URLs that begin with", _prefix, lambda row: row.url_prefix, "url_prefix", narrow=True),
        columns.moment("Made", lambda row: row.created_at, sort="created_at"),
        columns.moment("Rotated", lambda row: row.rotated_at, sort="rotated_at"),
        webhook_secrets_beside.COLUMN,
        Column("Do", _do, lambda _row: "", narrow=True),
    )
    filters = (text_filter("owner", "Whose", "owner_name"),)
    search = ("owner_name__icontains", "url_prefix__icontains")
    search_words = "Name or URL"
    order = ("owner_name", "url_prefix", "id")
    bulk: tuple[Bulk, ...] = ()
    empty_title = "Nothing was signed yet"
    empty_words = (
        "Whoever first sends a task with a callback_url gets a secret for any URL, which rotating shows. One for the "
        "URLs of a receiver alone is made here, for you or an identity that you manage."
    )
    empty_command = (
        'curl -X POST …/api/nhi/a2a/webhook-secrets -H "Authorization: Bearer $TOKEN" \\\n'
        '  -H "Content-Type: application/json" -d \'{"url_prefix": "https://hooks.example.com/"}\''
    )
    empty_icon = "signature"
    api_path = "/api/nhi/a2a/webhook-secrets"

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.defer("sealed", "sealed_previous")

    def siblings(self, _request: HttpRequest) -> list[Tab]:
        return siblings("a2a_webhooksecret_changelist")

    def controls(self, request: HttpRequest) -> list[Control]:
        if actor_of(request).only_reads:
            return []
        return [Control("Make a secret", link("a2a_webhooksecret_make"), "add")]

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        """What this person may do with each row of the page and what signs too, however many they are."""
        webhook_secrets_beside.note(rows)
        may = webhooks.rotatable(actor_of(request), [row.pk for row in rows])
        for row in rows:
            row.is_ours = row.pk in may

    def row_url(self, row: Any) -> str:
        """The callbacks that it signs are among those of its owner."""
        return list_url(by=row.owner_name)

    def pages(self) -> list[URLPattern]:
        return [
            path("make/", Make.as_view(), name="a2a_webhooksecret_make"),
            path("make/preview/", MakePreview.as_view(), name="a2a_webhooksecret_make_preview"),
            path("<uuid:pk>/rotate/", Rotate.as_view(), name="a2a_webhooksecret_rotate"),
            *URLS,
        ]


class MakeForm(ConsoleForm):
    owner = row_by_name_fields.RowByNameField(
        "caller", label="Whose", required=False,
        help_text="An agent or a service account that you manage: whose tasks have the callbacks. Empty: you yourself.",
    )  # fmt: skip
    url_prefix = forms.CharField(
        label="Signs for URLs that begin with", required=False, max_length=webhooks.LONGEST_PREFIX,
        help_text="Like https://hooks.example.com/. Empty: any URL without a secret of its own.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "inputmode": "url"}),
    )  # fmt: skip


class ShownOnce(ActorDialog):
    """A dialog whose answer is a page that nobody keeps."""

    def back(self) -> str:
        return link("a2a_webhooksecret_changelist")

    def shown_once(self, shown: Shown) -> HttpResponse:
        return render_once(
            self.request, "admin/a2a/deliveries/secret.html",
            title=f"The new secret of {shown.row.owner_name}", shown=shown, beside=_beside(shown.row), back=self.back(),
        )  # fmt: skip


def _beside(row: WebhookSecret) -> SafeString:
    webhook_secrets_beside.note([row])
    return webhook_secrets_beside.which(row)


class Make(ShownOnce):
    template = "admin/a2a/deliveries/secret_make.html"
    title = "Make a webhook secret"
    button = "Make secret"
    form_class = MakeForm
    lead = "Callbacks are signed with it, so that their receiver knows them from others. It is shown to you once."

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed("You may not make webhook secrets.")

    def context(self) -> dict[str, Any]:
        return {"preview_url": link("a2a_webhooksecret_make_preview")}

    def effects(self) -> list[Effect]:
        """What it takes URLs over from is known once somebody has said which."""
        given = self._given() if self.request.method == "POST" else {}
        if not {"owner", "url_prefix"} <= given.keys():
            return []
        try:
            found = webhooks.taken_over(actor=self.actor, url_prefix=given["url_prefix"], holder=given["owner"])
        except NotAllowed:
            return []
        return [Effect("both", 1, _both_sign(found))] if found else []

    def _given(self) -> dict[str, Any]:
        form = self.form(self.request.POST)
        form.is_valid()
        return form.cleaned_data

    def initial(self) -> dict[str, Any]:
        return {"owner": row_by_name_fields.initial_name("caller", self.actor, self.request.GET.get("owner", ""))}

    def form(self, data: Any = None) -> ConsoleForm:
        return row_by_name_fields.bind_name_fields(super().form(data), self.actor)

    def by_api(self) -> ApiExample:
        return ApiExample("/api/nhi/a2a/webhook-secrets", {"url_prefix": "https://hooks.example.com/", "owner_id": "…"})

    def act(self, form: ConsoleForm) -> HttpResponse:
        given = form.cleaned_data
        try:
            shown = webhooks.make(actor=self.actor, url_prefix=given["url_prefix"], holder=given["owner"])
        except NotAllowed as error:
            # Whom one sees is not always whom one may do this for: the field that named them says so.
            raise InvalidInput.for_field("owner", error.message) from error
        return self.shown_once(shown)


class MakePreview(Make):
    """The line under the fields, worked out while one types. It reads and changes nothing."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        effects = self.effects()
        seen = ",".join(f"{effect.name}:{effect.count}" for effect in effects)
        return render(
            request, "admin/a2a/deliveries/secret_make_preview.html", title="Preview", effects=effects, seen=seen
        )


def _both_sign(before: WebhookSecret) -> SafeString:
    now = timezone.now()
    which = (
        format_html("the secret for {}", outside(before.url_prefix, 120))
        if before.url_prefix
        else "the one for any URL"
    )
    return format_html(
        "Callbacks to these URLs are also signed by {} until {}, so receivers can change over in that time",
        which, times.absolute(now + webhooks.OVERLAP, now),
    )  # fmt: skip


class Rotate(OfSecret, ShownOnce):
    button = "Rotate"
    leave = "Keep it"
    refusal = "You may not rotate the webhook secret of somebody else."

    @property
    def lead(self) -> str:  # type: ignore[override]  # whose it is known once there is a secret
        where = self.secret.url_prefix or "any URL without one of its own"
        return f"A new secret signs callbacks of {self.secret.owner_name} to {where}. It is shown to you once."

    def context(self) -> dict[str, Any]:
        return {"title": f"Rotate {self.secret}"}

    def effects(self) -> list[Effect]:
        two = not signs_alone(self.secret)
        return [
            Effect("both", 1, f"For {HOURS} hours both sign each callback, so receivers can change over in that time"),
            Effect("before", int(two), "What signs beside the present one now does so for as long as was promised"),
        ]

    def by_api(self) -> ApiExample:
        return ApiExample(f"{self.api}/rotate")

    def act(self, form: ConsoleForm) -> HttpResponse:
        return self.shown_once(webhooks.rotate(actor=self.actor, secret=self.secret))
