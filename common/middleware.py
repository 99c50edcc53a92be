"""The outermost layers of every Django request."""

import ipaddress
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from common.context import Context, bound
from common.ids import parse_uuid, uuid7

GetResponse = Callable[[HttpRequest], HttpResponse]


def request_context(get_response: GetResponse) -> GetResponse:
    """Give the request an id (its own `X-Request-ID` when that is a UUID) and a source address."""

    def middleware(request: HttpRequest) -> HttpResponse:
        request_id = parse_uuid(request.headers.get("X-Request-ID", "")) or uuid7()
        with bound(Context(request_id, client_address(request.META))):
            response = get_response(request)
        response["X-Request-ID"] = str(request_id)
        return response

    return middleware


def security_headers(get_response: GetResponse) -> GetResponse:
    """Let no page with personal content be kept by a cache. The content policy is one for all, and never loosened."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not request.path.startswith(settings.STATIC_URL):
            response.headers.setdefault("Cache-Control", "no-store, private")
        return response

    return middleware


def client_address(meta: dict[str, str]) -> str:
    """The peer's address, or the one that the outermost of TRUSTED_PROXIES proxies saw."""
    address = meta.get("REMOTE_ADDR", "")
    if settings.TRUSTED_PROXIES:
        hops = [hop.strip() for hop in meta.get("HTTP_X_FORWARDED_FOR", "").split(",") if hop.strip()]
        if len(hops) >= settings.TRUSTED_PROXIES:
            address = hops[-settings.TRUSTED_PROXIES]
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return ""
