"""Confirmation dialogs: they state the effects of an action, ask for a reason and execute the action.

The effects are counted when the dialog opens and again when it is submitted. The URL of a dialog is a page, so it works
without scripts; with scripts the same form is shown over the page from which it was opened. A GET changes nothing.
"""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from common import http_statuses
from common.console.forms import ConsoleForm
from common.console.pages import ConsolePage, wants_part
from common.errors import Conflict, InvalidInput

#: Response header with the URL to open after a dialog that was shown over a page.
GO = "X-Console-Go"


@dataclass(frozen=True)
class ApiExample:
    """The REST API request that does the same as the dialog, shown as a `curl` command."""

    path: str
    body: dict[str, Any] | None = None
    method: str = "POST"


@dataclass(frozen=True)
class Effect:
    """One effect of the action: a count, and a text like "ends 2 tokens"."""

    name: str
    count: int
    words: str
    #: URL of the list of the counted objects.
    url: str = ""


def counted(name: str, count: int, singular: str, plural: str) -> Effect:
    """`counted("tokens", 2, "ends {} token", "ends {} tokens")`."""
    return Effect(name, count, (singular if count == 1 else plural).format(count))


class Dialog(ConsolePage):
    """A dialog for one action. Subclasses state its effects in `effects` and execute it in `act`."""

    template = "console/dialog.html"
    form_class: type[ConsoleForm] = ConsoleForm
    #: The action and its object: "Suspend deploy-bot".
    button = ""
    danger = False
    #: Label of the button that changes nothing.
    leave = "Back"
    lead = ""
    wide = False
    #: The text that the user must type to confirm an action that cannot be undone.
    typed = ""

    def effects(self) -> list[Effect]:
        return []

    def act(self, form: ConsoleForm) -> str | HttpResponse:
        """Execute the action; return the URL to open next, or a response."""
        raise NotImplementedError

    def back(self) -> str:
        """The URL of the Back button."""
        return "/admin/"

    def by_api(self) -> ApiExample | None:
        """The same action in the REST API, or None."""
        return None

    def initial(self) -> dict[str, Any]:
        return {}

    def form(self, data: Any = None) -> ConsoleForm:
        return self.form_class(data, initial=self.initial())

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        return self._drawn(self.form(), self.effects())

    def post(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        form, effects = self.form(request.POST), self.effects()
        if self.typed and request.POST.get("typed", "").strip() != self.typed:
            form.add_error(None, f"Type {self.typed} to go on.")
        if not form.is_valid():
            return self._drawn(form, effects, status=422)
        if grown := _grown(request.POST.get("seen", ""), effects):
            return self._drawn(form, effects, grown=grown, status=409)
        try:
            result = self.act(form)
        except (InvalidInput, Conflict) as error:
            form.refuse(error)
            return self._drawn(form, self.effects(), status=http_statuses.status_for(error))
        return result if isinstance(result, HttpResponse) else go(request, result)

    def _drawn(
        self, form: ConsoleForm, effects: list[Effect], *, grown: list[Effect] | None = None, status: int = 200
    ) -> HttpResponse:
        return self.page(
            status=status,
            form=form,
            effects=[effect for effect in effects if effect.count],
            seen=_seen(effects),
            grown=grown or [],
            button=self.button,
            danger=self.danger,
            leave=self.leave,
            lead=self.lead,
            wide=self.wide,
            typed=self.typed,
            call=self.by_api(),
            back=self.back(),
            action=self.request.get_full_path(),
            fields_template=getattr(self, "fields_template", "console/fields.html"),
        )


def go(request: HttpRequest, url: str) -> HttpResponse:
    """Redirect to a URL. A dialog over a page gets the URL in a header: scripts cannot read redirect targets."""
    if wants_part(request):
        return HttpResponse(status=204, headers={GO: url})
    return HttpResponseRedirect(url)


def _seen(effects: list[Effect]) -> str:
    return ",".join(f"{effect.name}:{effect.count}" for effect in effects)


def _grown(shown_counts: str, effects: list[Effect]) -> list[Effect]:
    """The effects whose count is larger than when the dialog was rendered."""
    counts_by_name = dict(part.partition(":")[::2] for part in shown_counts.split(",") if ":" in part)
    return [effect for effect in effects if effect.count > _number(counts_by_name.get(effect.name, "0"))]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
