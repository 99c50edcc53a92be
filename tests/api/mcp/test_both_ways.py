"""A call past Django and the same call through it: one answer. Whatever either could read otherwise goes through it."""

import json
from ipaddress import ip_network
from typing import Any

import pytest

from mcp.models import Server
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.identities import lifecycle
from nhi.models import InvocationLog
from tests.api.conftest import Stage
from tests.api.mcp.doors import BODY, HOST, JSON, MEBIBYTE, Asked, Doors
from tests.mcp.peer import Peer

pytestmark = [
    pytest.mark.capability("MCP-07", "NHI-04"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("clerk"),
]


@pytest.fixture
def doors() -> Doors:
    return Doors()


ODD: dict[str, dict[str, Any]] = {
    "another house": {"host": [(b"host", b"evil.example")]},
    "two houses": {"host": [HOST, (b"host", b"evil.example")]},
    "this house twice": {"host": [HOST, HOST]},
    "no house": {"host": []},
    "no name at all": {"host": [(b"host", b"a b/c")]},
    "two tokens": {"more": [(b"authorization", b"Bearer nhi_agt_x_y")]},
    "a token and a password": {"more": [(b"authorization", b"Basic eDp5")]},
    "two types": {"kind": [JSON, (b"content-type", b"text/plain")]},
    "one type twice": {"kind": [JSON, JSON]},
    "another type": {"kind": [(b"content-type", b"text/plain")]},
    "a form": {"kind": [(b"content-type", b"application/x-www-form-urlencoded")]},
    "another charset": {"kind": [(b"content-type", b"application/json; charset=latin-1")]},
    "the charset by its other name": {"kind": [(b"content-type", b"application/json; charset=utf8")]},
    "two charsets": {"kind": [(b"content-type", b"application/json; charset=utf-8; charset=utf-16")]},
    "no type": {"kind": []},
    "nothing": {"body": b""},
    "nothing of no type": {"body": b"", "kind": []},
    "too much": {"body": b'{"parameters": {"x": "' + b"y" * MEBIBYTE + b'"}}'},
    "in chunks": {"chunked": True},
    "too much in chunks": {"body": b" " * (MEBIBYTE + 1), "chunked": True},
    "a query": {"query": b"format=xml"},
    "a query in no encoding": {"query": b"\xff"},
    "a line break in the name": {"path": "/api/nhi/mcp/tools/peer__\necho/call"},
    "a slash in the name": {"path": "/api/nhi/mcp/tools/peer__a/b/call"},
    "two request ids": {"more": [(b"x-request-id", b"a"), (b"x-request-id", b"b")]},
    "a cookie": {"more": [(b"cookie", b"gatehouse=nobody")]},
}
ORDINARY: dict[str, dict[str, Any]] = {
    "as it should be": {},
    "at its other place": {"path": "/mcp/tools/peer__echo/call"},
    "with its charset": {"kind": [(b"content-type", b'Application/JSON; charset="UTF-8"')]},
    "with a parameter of no name": {"kind": [(b"content-type", b"application/json;")]},
    "no JSON": {"body": b"{"},
    "JSON of another kind": {"body": b"[]"},
    "a key twice": {"body": b'{"parameters": {"a": 1, "a": 2}}'},
    "no parameters": {"body": b"{}"},
    "odd context": {"body": b'{"parameters": {}, "context": {"who": "x", "task_id": 5}, "x": 1}'},
    "behind a mark of its encoding": {"body": b"\xef\xbb\xbf" + BODY},
    "in another encoding": {"body": BODY.decode().encode("utf-16")},
    "a tool that is not there": {"path": "/api/nhi/mcp/tools/peer__nothing/call"},
    "a tool of another": {"path": "/api/nhi/mcp/tools/peer__other/call"},
    "a name of no tool": {"path": "/api/nhi/mcp/tools/x/call"},
    "a long context": {"body": json.dumps({"parameters": {}, "context": {"task_id": "x" * 201}}).encode()},
}


@pytest.mark.parametrize("odd", ODD)
def test_what_is_odd_is_judged_by_django(held: Stage, doors: Doors, odd: str) -> None:
    for token in (held.agent.token, held.stranger.token):
        asked = Asked(token, **ODD[odd])
        assert doors.past(asked).what == doors.through(asked).what
        assert doors.handed_over


@pytest.mark.parametrize("usual", ORDINARY)
def test_what_is_not_is_answered_alike(held: Stage, doors: Doors, usual: str) -> None:
    for token in (held.agent.token, held.stranger.token):
        asked = Asked(token, **ORDINARY[usual])
        assert doors.past(asked).what == doors.through(asked).what
        assert not doors.handed_over


def test_a_request_for_another_house_calls_nothing(held: Stage, doors: Doors, peer: Peer) -> None:
    refused = doors.past(Asked(held.agent.token, host=[(b"host", b"evil.example")]))
    assert refused.what[:2] == (400, "InvalidParameters")
    assert not peer.calls
    assert not InvocationLog.objects.exists()


def test_who_may_no_longer_come_in_is_refused_alike(held: Stage, doors: Doors) -> None:
    gone = credentials.issue(actor=SYSTEM, holder=held.other)
    credentials.revoke(actor=SYSTEM, credential=gone.credential, reason="x")
    lifecycle.suspend(actor=SYSTEM, identity=held.bot, reason="x")
    for token in (gone.token, held.agent.token):
        for body in (BODY, b"{", b" " * (MEBIBYTE + 1)):
            asked = Asked(token, body=body)
            said = doors.past(asked)
            assert said.what == doors.through(asked).what
            assert said.status == 401


def test_a_source_that_is_said_in_two_headers_is_the_same_source(held: Stage, doors: Doors, settings: Any) -> None:
    """The outermost proxy's word stands last, wherever it stands."""
    settings.TRUSTED_PROXIES, settings.TRUSTED_PROXY_NETWORKS = 1, (ip_network("192.0.2.7"),)
    for headers in (
        [(b"x-forwarded-for", b"198.51.100.1"), (b"x-forwarded-for", b"198.51.100.2")],
        [(b"x-forwarded-for", b"198.51.100.2"), (b"x-forwarded-for", b"")],
        [(b"x_forwarded_for", b"198.51.100.1"), (b"x-forwarded-for", b"198.51.100.2")],
    ):
        asked = Asked(held.agent.token, more=headers)
        assert (doors.past(asked).status, doors.through(asked).status) == (200, 200)
        assert set(InvocationLog.objects.values_list("source", flat=True)) == {"198.51.100.2"}


def test_a_server_that_is_off_refuses_both_ways(held: Stage, doors: Doors) -> None:
    server = Server.objects.get()
    held.admin.post(f"mcp/servers/{server.pk}/disable", {"reason": "x"})
    asked = Asked(held.agent.token)
    assert doors.past(asked).what == doors.through(asked).what == (403, "Unauthorized", "server_disabled", [])
