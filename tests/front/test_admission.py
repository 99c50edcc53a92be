"""What the headers decide alone: where a request was sent to, from which page, by whom, and what its sender takes."""

from collections.abc import Callable

import pytest

from mcp.server import request_headers
from mcp.server.errors import ErrorResponse
from mcp.server.request_headers import EndpointSettings
from tests.front.asking import headers, message

pytestmark = pytest.mark.capability("MCP-06")
HOUSE = EndpointSettings(
    origin="https://gate.example.org",
    is_allowed_host=lambda host: host in {"gate.example.org", "inside.example:8000"},
    resource_metadata="https://gate.example.org/.well-known/oauth-protected-resource",
)
RIGHT: dict[str, str | None] = {"host": "gate.example.org"}


def head(twice: tuple[bytes, bytes] | None = None, **changed: str | None) -> request_headers.RequestHeaders:
    return request_headers.read_headers([*headers(message(), **{**RIGHT, **changed}), *([twice] if twice else [])])


def status(found: ErrorResponse | None) -> int:
    return 200 if found is None else found.status


SENDERS = {
    "right": ("POST", head(), 200),
    "another host": ("POST", head(host="evil.example"), 421),
    "no host": ("POST", head(host=None), 421),
    "two hosts": ("POST", head(twice=(b"host", b"gate.example.org")), 421),
    "its own origin": ("POST", head(origin="https://gate.example.org"), 200),
    "its own origin in capitals": ("POST", head(origin="HTTPS://GATE.example.org"), 200),
    "another origin": ("POST", head(origin="https://evil.example"), 403),
    "its own origin without TLS": ("POST", head(origin="http://gate.example.org"), 403),
    "its own origin at another port": ("POST", head(origin="https://gate.example.org:8443"), 403),
    "another host of its own": ("POST", head(host="inside.example:8000", origin="https://inside.example:8000"), 200),
    "the other host without TLS": ("POST", head(host="inside.example:8000", origin="http://inside.example:8000"), 403),
    "another port of the other host": ("POST", head(host="inside.example:8000", origin="https://inside.example"), 403),
    "its own origin at another host": (
        "POST",
        head(host="inside.example:8000", origin="https://gate.example.org"),
        200,
    ),
    "a page without an origin": ("POST", head(origin="null"), 403),
    "an empty origin": ("POST", head(origin=""), 403),
    "two origins": ("POST", head(twice=(b"origin", b"https://evil.example"), origin="https://gate.example.org"), 403),
    "rebound: both are wrong": ("POST", head(host="evil.example", origin="http://evil.example"), 421),
    "GET": ("GET", head(), 405),
    "DELETE": ("DELETE", head(), 405),
    "GET from another origin": ("GET", head(origin="https://evil.example"), 403),
}


@pytest.mark.parametrize(("method", "sent", "expected"), SENDERS.values(), ids=SENDERS)
def test_where_it_was_sent_to_and_from(method: str, sent: request_headers.RequestHeaders, expected: int) -> None:
    assert status(request_headers.check_request(method, sent, HOUSE)) == expected


def test_a_wrong_method_is_told_the_right_one() -> None:
    found = request_headers.check_request("GET", head(), HOUSE)
    assert found is not None
    assert found.headers == ((b"allow", b"POST"),)


ACCEPTED = {
    "both": ("application/json, text/event-stream", 200),
    "both, the other way round, with weights": ("text/event-stream;q=0.5,application/json;q=0.1", 200),
    "both in capitals": ("Application/JSON, Text/Event-Stream", 200),
    "all": ("*/*", 200),
    "all of their kinds": ("application/*, text/*", 200),
    "JSON alone": ("application/json", 406),
    "events alone": ("text/event-stream", 406),
    "JSON and pages": ("application/json, text/html", 406),
    "events refused": ("application/json, text/event-stream;q=0", 406),
    "nothing": (None, 406),
}


@pytest.mark.parametrize(("accept", "expected"), ACCEPTED.values(), ids=ACCEPTED)
def test_a_client_takes_both_forms_of_an_answer(accept: str | None, expected: int) -> None:
    assert status(request_headers.check_content_headers(head(accept=accept))) == expected


def test_accept_may_stand_on_two_lines() -> None:
    assert (
        request_headers.check_content_headers(head(twice=(b"accept", b"text/event-stream"), accept="application/json"))
        is None
    )


TYPES = {
    "application/json": 200,
    "application/json; charset=utf-8": 200,
    'Application/JSON;charset="UTF-8"': 200,
    "application/json; charset=utf-16": 415,
    "application/jsonp": 415,
    "text/plain": 415,
    "application/x-www-form-urlencoded": 415,
    "": 415,
}


@pytest.mark.parametrize(("given", "expected"), TYPES.items())
def test_a_body_is_json(given: str, expected: int) -> None:
    assert status(request_headers.check_content_headers(head(content_type=given))) == expected


def test_a_body_has_one_type() -> None:
    assert status(request_headers.check_content_headers(head(twice=(b"content-type", b"application/json")))) == 415
    assert status(request_headers.check_content_headers(head(content_type=None))) == 415


CHALLENGE = 'resource_metadata="https://gate.example.org/.well-known/oauth-protected-resource"'
UNSHOWN = {
    "none": (head(), "missing", f"Bearer {CHALLENGE}"),
    "another scheme": (head(authorization="Basic eDp5"), "malformed", f'Bearer error="invalid_token", {CHALLENGE}'),
    "no token": (head(authorization="Bearer "), "malformed", f'Bearer error="invalid_token", {CHALLENGE}'),
    "two": (
        head(twice=(b"authorization", b"Bearer two"), authorization="Bearer one"),
        "malformed",
        f'Bearer error="invalid_token", {CHALLENGE}',
    ),
}


@pytest.mark.parametrize(("sent", "reason", "challenge"), UNSHOWN.values(), ids=UNSHOWN)
def test_without_a_token_the_way_to_one_is_named(
    sent: request_headers.RequestHeaders, reason: str, challenge: str
) -> None:
    found = request_headers.read_bearer(sent, HOUSE)
    assert isinstance(found, ErrorResponse)
    assert (found.status, found.data["reason"]) == (401, reason)
    assert dict(found.headers)[b"www-authenticate"].decode() == challenge


@pytest.mark.parametrize("shown", ["Bearer nhi_agt_x", "bearer  nhi_agt_x ", "BEARER nhi_agt_x"])
def test_a_token_is_taken_from_its_header(shown: str) -> None:
    assert request_headers.read_bearer(head(authorization=shown), HOUSE) == "nhi_agt_x"


def test_codes_of_http_refusals_are_outside_of_the_protocols_own() -> None:
    refuse: list[Callable[[], ErrorResponse | None]] = [
        lambda: request_headers.check_request("GET", head(), HOUSE),
        lambda: request_headers.check_content_headers(head(accept=None)),
    ]
    for one in refuse:
        found = one()
        assert found is not None
        assert found.code == found.status
        assert found.code not in range(-32768, -31999)
