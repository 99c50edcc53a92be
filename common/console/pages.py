"""Pages of the console: the frame they share, tabs, and what a refusal looks like."""

from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.views import View

from common import context, http_statuses
from common.errors import GatehouseError

#: The console asks for a part of a page, a dialog, with this header; without it the same address is a whole page.
PART = "X-Console-Part"


@dataclass(frozen=True)
class Tab:
    label: str
    url: str
    count: int | None = None
    current: bool = False


@dataclass(frozen=True)
class Control:
    """A button of a page: `blocked` says why the state forbids it now, and then it is drawn disabled.

    `posts` is for a verb that needs neither a reason nor a second look: pressing it does it. `copies` is a text for the
    clipboard, and stands under More.
    """

    label: str
    url: str
    icon: str = ""
    danger: bool = False
    blocked: str = ""
    dialog: bool = True
    posts: bool = False
    copies: str = ""


@dataclass(frozen=True)
class Crumb:
    label: str
    url: str


def link(page: str, *args: Any) -> str:
    return reverse(f"admin:{page}", args=args)


def link_if_any(page: str, *args: Any) -> str:
    """For pages that an app may not have: empty then."""
    try:
        return link(page, *args)
    except NoReverseMatch:
        return ""


def wants_part(request: HttpRequest) -> bool:
    return PART in request.headers


def render(request: HttpRequest, template: str, *, title: str, status: int = 200, **more: Any) -> TemplateResponse:
    """A page in the console's frame, with the moment that its facts are of."""
    request.current_app = admin.site.name
    part = wants_part(request)
    frame = {} if part else admin.site.each_context(request)
    whole = {**frame, "title": title, "as_of": timezone.now(), "part": part, **more}
    # Said again in the answer: what comes without it, the sign-in form for one, is no part of a page.
    return TemplateResponse(request, template, whole, status=status, headers={PART: "1"} if part else None)


def render_once(request: HttpRequest, template: str, *, title: str, **more: Any) -> TemplateResponse:
    """The page of a secret: whoever keeps pages is told not to keep this one, nor where it was."""
    page = render(request, template, title=title, **more)
    page.headers["Cache-Control"] = "no-store"
    page.headers["Referrer-Policy"] = "no-referrer"
    return page


def refused(request: HttpRequest, error: GatehouseError) -> HttpResponse:
    """One sentence, the request's id, and the way on."""
    status = http_statuses.status_for(error)
    titles = {403: "Not allowed", 404: "Nothing here", 503: "Not recorded"}
    return render(
        request,
        "console/refused.html",
        title=titles.get(status, "Nothing was changed"),
        status=status,
        sentence=error.message,
        code=error.code,
        request_id=context.current().request_id,
    )


class Page(View):
    """A page of the console. `check` refuses before anything is read or done."""

    template = ""
    title = ""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        self.check()
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        return self.page()

    def check(self) -> None:
        """Raise NotFound or NotAllowed for who may not be here."""

    def context(self) -> dict[str, Any]:
        return {}

    def page(self, *, status: int = 200, **more: Any) -> TemplateResponse:
        whole = {"title": self.title, **self.context(), **more}
        return render(self.request, self.template, status=status, **whole)
