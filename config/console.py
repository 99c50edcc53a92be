"""The console's site: who comes in, what frames every page, and what happens to a refusal."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from unfold.sites import UnfoldAdminSite

from common.console import command_palette, navigation, times
from common.console.pages import refused, render
from common.errors import GatehouseError, InvalidInput, NotAllowed, NotFound

View = Callable[..., Any]


class ConsoleSite(UnfoldAdminSite):
    site_title = site_header = "Gatehouse"
    index_title = "Home"
    site_url = None
    enable_nav_sidebar = False

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        """Every page of the console passes here."""
        return super().admin_view(_framed(view), cacheable)  # type: ignore[no-any-return]  # unfold has no types

    def get_urls(self) -> list[Any]:
        return [*navigation.urls(self.admin_view), *super().get_urls()]

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        signed_in = self.has_permission(request)
        needs = navigation.counts_for(request) if signed_in else {}
        return {
            "site_title": self.site_title,
            "site_header": self.site_header,
            "has_permission": signed_in,
            "is_popup": False,
            "is_nav_sidebar_enabled": False,
            "sidebar": navigation.sidebar(request, needs) if signed_in else [],
            "account": navigation.links(request) if signed_in else [],
        }

    def app_index(self, request: HttpRequest, app_label: str, extra_context: Any = None) -> HttpResponse:
        """Django's list of an app's models; the sidebar is ours."""
        return redirect("admin:index")

    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """The palette: asked anew each time, so that it never shows what was taken away."""
        term = request.GET.get("s", "").strip()[: command_palette.LONGEST]
        return render(
            request, "console/palette_results.html", title="Found", groups=command_palette.find(request, term)
        )


def _framed(view: View) -> View:
    """The person's zone around it, and a refusal drawn as a page instead of it."""

    @wraps(view)
    def framed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with timezone.override(times.zone_of(request)):
            try:
                _refuse_nul(request.GET, request.POST)
                response = _rendered(view(request, *args, **kwargs))
            except GatehouseError as error:
                response = _rendered(refused(request, error))
            except Http404:
                response = _rendered(refused(request, NotFound()))
            except PermissionDenied:
                response = _rendered(refused(request, NotAllowed("You may not open this page.")))
        return response

    return framed


def _refuse_nul(*sent: QueryDict) -> None:
    """PostgreSQL stores none and cannot be asked for one: refused here once, for every filter, name and field."""
    if any("\0" in value for part in sent for _, values in part.lists() for value in values):
        raise InvalidInput("Leave out the NUL character.")


def _rendered(response: HttpResponse) -> HttpResponse:
    """Drawn inside the zone, and where a refusal by a late query can still be answered."""
    if isinstance(response, TemplateResponse) and not response.is_rendered:
        response.render()
    return response
