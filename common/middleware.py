"""Outermost Django middleware: request id, source address and cache headers."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from common.asgi import client_address
from common.context import RequestContext, bind_context
from common.ids import parse_uuid, uuid7

GetResponse = Callable[[HttpRequest], HttpResponse]


def request_context(get_response: GetResponse) -> GetResponse:
    """Set the request's id (its `X-Request-ID` header if that is a UUID) and its source address."""

    def middleware(request: HttpRequest) -> HttpResponse:
        request_id = parse_uuid(request.headers.get("X-Request-ID", "")) or uuid7()
        peer = request.META.get("REMOTE_ADDR", "")
        if not client_address.is_trusted_proxy(peer):
            # Only a trusted proxy may state that its client connected with TLS.
            request.META.pop("HTTP_X_FORWARDED_PROTO", None)
        forwarded_for = request.META.get("HTTP_X_FORWARDED_FOR", "")
        source = client_address.find_client_address(
            peer=peer, forwarded_for=forwarded_for, proxy_count=settings.TRUSTED_PROXIES
        )
        with bind_context(RequestContext(request_id, source)):
            response = get_response(request)
        response["X-Request-ID"] = str(request_id)
        return response

    return middleware


def security_headers(get_response: GetResponse) -> GetResponse:
    """Forbid caching of responses, except static files. The content security policy is the same for all pages."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not request.path.startswith(settings.STATIC_URL):
            response.headers.setdefault("Cache-Control", "no-store, private")
        return response

    return middleware
