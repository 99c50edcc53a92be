"""Console pages: the common base view, controls, tabs and the page of a refusal."""

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

#: Request header for a part of a page, such as a dialog. Without it the same URL returns a whole page.
PART = "X-Console-Part"


@dataclass(frozen=True)
class Tab:
    """A link in a row of tabs."""

    label: str
    url: str
    count: int | None = None
    current: bool = False


@dataclass(frozen=True)
class Control:
    """A button of a page. `blocked` is the reason why the state forbids the action; the button is then disabled.

    `posts` sends a POST at once, for actions that need neither a reason nor a confirmation. `copies` is a text for the
    clipboard; such a control is in the More menu.
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
    """The link in the top bar from a page back to the page above it."""

    label: str
    url: str


def link(page: str, *args: Any) -> str:
    return reverse(f"admin:{page}", args=args)


def link_if_any(page: str, *args: Any) -> str:
    """The URL of a page, or an empty string if the page does not exist. Some apps lack some pages."""
    try:
        return link(page, *args)
    except NoReverseMatch:
        return ""


def wants_part(request: HttpRequest) -> bool:
    return PART in request.headers


def render(
    request: HttpRequest, template: str, *, title: str, status: int = 200, **extra_context: Any
) -> TemplateResponse:
    """Render a page in the console's frame, with the time of its data."""
    request.current_app = admin.site.name
    is_part = wants_part(request)
    frame = {} if is_part else admin.site.each_context(request)
    template_context = {**frame, "title": title, "as_of": timezone.now(), "part": is_part, **extra_context}
    # Repeated in the response: a response without the header, such as the sign-in form, is not a part of a page.
    return TemplateResponse(
        request, template, template_context, status=status, headers={PART: "1"} if is_part else None
    )


def render_once(request: HttpRequest, template: str, *, title: str, **extra_context: Any) -> TemplateResponse:
    """Render a page with a secret: caches must not store it, and its URL is not sent as a referrer."""
    page = render(request, template, title=title, **extra_context)
    page.headers["Cache-Control"] = "no-store"
    page.headers["Referrer-Policy"] = "no-referrer"
    return page


def refused(request: HttpRequest, error: GatehouseError) -> HttpResponse:
    """Render an error: one sentence, the request's id and a link to continue."""
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


class ConsolePage(View):
    """Base view of console pages. `check` can refuse the request before anything is read or changed."""

    template = ""
    title = ""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        self.check()
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        return self.page()

    def check(self) -> None:
        """Raise NotFound or NotAllowed if the user may not open this page."""

    def context(self) -> dict[str, Any]:
        return {}

    def page(self, *, status: int = 200, **extra_context: Any) -> TemplateResponse:
        template_context = {"title": self.title, **self.context(), **extra_context}
        return render(self.request, self.template, status=status, **template_context)
