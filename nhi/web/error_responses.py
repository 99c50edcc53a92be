"""Error responses as plain pages or as the API's envelope; the handlers of urls.py.

A response has one sentence, the next step and the request's id, but no internals.
"""

import sys
from typing import Any

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from common import context, http_statuses
from common.errors import GatehouseError, RateLimited
from nhi.models import User

#: By status: the title of the page and the code of the API's envelope.
TITLES = {
    400: ("This request could not be read", "InvalidParameters"),
    403: ("Not allowed", "Unauthorized"),
    404: ("Nothing here", "NotFound"),
    409: ("Nothing was changed", "Conflict"),
    429: ("Too many tries", "RateLimitExceeded"),
    500: ("Something broke here", "InternalError"),
    502: ("No answer from single sign-on", "ExecutionFailed"),
    503: ("Not recorded, so not done", "InternalError"),
}
JSON_PATHS = ("/api/", "/mcp", "/a2a/", "/agents/", "/oauth/", "/.well-known/")


def render_error(
    request: HttpRequest, status: int, text: str, *, title: str = "", reason: str = "", **extra: Any
) -> HttpResponse:
    """Return a plain page, or the API's envelope for API paths and clients that accept JSON."""
    default_title, code = TITLES[status]
    request_id = context.current().request_id
    if request.path.startswith(JSON_PATHS) or "application/json" in request.headers.get("Accept", ""):
        details = {"reason": reason, "fields": []}
        body = {"error_code": code, "message": text, "details": details, "request_id": str(request_id)}
        return JsonResponse(body, status=status)
    page = {"title": title or default_title, "text": text, "request_id": request_id, **extra}
    # Render without the request: an error page must not need a session, a person or a database.
    return HttpResponse(render_to_string("plain/error.html", page), status=status)


def render_gatehouse_error(request: HttpRequest, error: GatehouseError) -> HttpResponse:
    """Return the error response for a `GatehouseError`."""
    response = render_error(request, http_statuses.status_for(error), error.message, reason=error.code)
    if isinstance(error, RateLimited):
        response["Retry-After"] = str(error.retry_after)
    return response


def render_no_console(request: HttpRequest, user: User) -> HttpResponse:
    text = f"You are known here as {user.username}, but you have no console role. Ask a security admin for one."
    return render_error(request, 403, text, title="No console for you yet")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render_error(request, 400, "Check the address you typed, or go back and try again.")


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render_error(request, 403, "Your role does not open this page.")


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render_error(request, 404, "There is nothing here that you can see.")


def server_error(request: HttpRequest) -> HttpResponse:
    if isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        text = "The database cannot be reached, so nothing was done. Try again in a moment."
        return render_error(request, 503, text, title="The database is away", reason="database_unavailable")
    return render_error(
        request, 500, "The request was not finished. Try again; if it stays so, tell an operator the id below."
    )


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    text = (
        "The page you sent is too old or came from elsewhere. Nothing was changed. Open it again and send it once more."
    )
    return render_error(request, 403, text, title="This page has gone stale", reason="csrf")


def render_page(request: HttpRequest, template: str, *, status: int = 200, **extra: Any) -> HttpResponse:
    """Render a plain page, with the request in its context."""
    return render(request, template, extra, status=status)
