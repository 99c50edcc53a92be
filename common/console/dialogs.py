"""Dialogs: consequences counted when it opens and counted again on submit, a reason, the verb on the button.

The address of a dialog is a page, so it works without scripts; with them the same form is shown over the page that
it was opened from. A GET changes nothing.
"""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from common import http_statuses
from common.console.forms import ConsoleForm
from common.console.pages import Page, wants_part
from common.errors import Conflict, InvalidInput

#: Where the browser goes after a dialog that was shown over a page.
GO = "X-Console-Go"


@dataclass(frozen=True)
class Call:
    """The same verb over REST, shown as `curl`."""

    path: str
    body: dict[str, Any] | None = None
    method: str = "POST"


@dataclass(frozen=True)
class Effect:
    """One consequence: how many, and of what, in words like "ends 2 tokens"."""

    name: str
    count: int
    words: str
    #: Where those are that it counts.
    url: str = ""


def counted(name: str, count: int, one: str, many: str) -> Effect:
    """`counted("tokens", 2, "ends {} token", "ends {} tokens")`."""
    return Effect(name, count, (one if count == 1 else many).format(count))


class Dialog(Page):
    """One verb. Subclasses say what it does (`effects`), read their form and call the verb in `act`."""

    template = "console/dialog.html"
    form_class: type[ConsoleForm] = ConsoleForm
    #: The verb and the name: "Suspend deploy-bot".
    button = ""
    danger = False
    #: What leaves all as it is.
    leave = "Back"
    lead = ""
    wide = False
    #: What must be typed first, for what cannot be undone.
    typed = ""

    def effects(self) -> list[Effect]:
        return []

    def act(self, form: ConsoleForm) -> str | HttpResponse:
        """Call the verb; answer where to go, or with a page of its own."""
        raise NotImplementedError

    def back(self) -> str:
        """Where Back goes."""
        return "/admin/"

    def by_api(self) -> Call | None:
        """The same verb over REST; None where there is none."""
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
            done = self.act(form)
        except (InvalidInput, Conflict) as error:
            form.refuse(error)
            return self._drawn(form, self.effects(), status=http_statuses.status_for(error))
        return done if isinstance(done, HttpResponse) else go(request, done)

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
    """A redirect; a dialog over a page is told in a header, since scripts do not see where a redirect leads."""
    if wants_part(request):
        return HttpResponse(status=204, headers={GO: url})
    return HttpResponseRedirect(url)


def _seen(effects: list[Effect]) -> str:
    return ",".join(f"{effect.name}:{effect.count}" for effect in effects)


def _grown(seen: str, effects: list[Effect]) -> list[Effect]:
    """What is more now than when the dialog was drawn."""
    before = dict(part.partition(":")[::2] for part in seen.split(",") if ":" in part)
    return [effect for effect in effects if effect.count > _number(before.get(effect.name, "0"))]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
