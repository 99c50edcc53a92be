"""Who and what is let in at the door: methods, origins, paths, and bodies of every size."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from mcp.protocol import endpoints
from mcp.server import application
from mcp.server.request_parser import MAX_BODY_BYTES
from tests.front.asking import body, headers, message
from tests.front.door import TOKEN, WAIT, Client, Gateway, ask

pytestmark = pytest.mark.capability("MCP-06")


@pytest.mark.parametrize("given", [None, "", "not a uuid", "x" * 36])
def test_a_request_without_a_uuid_gets_one(given: str | None) -> None:
    found = ask(Gateway(), x_request_id=given)
    assert UUID(found.header("x-request-id")).version == 7


def test_the_source_is_what_the_trusted_proxy_saw(settings: Any) -> None:
    settings.TRUSTED_PROXIES = 1
    gateway = Gateway()
    ask(gateway, x_forwarded_for="203.0.113.9, 198.51.100.7")
    settings.TRUSTED_PROXIES = 0
    ask(gateway, x_forwarded_for="203.0.113.9, 198.51.100.7")
    assert [asked.source for asked in gateway.asked] == ["198.51.100.7", "127.0.0.1"]


NO_ENTRY: dict[str, tuple[dict[str, str | None], int]] = {
    "no token": ({"authorization": None}, 401),
    "a token that was never ours": ({"authorization": "Bearer nhi_agt_x"}, 401),
    "a changed token": ({"authorization": f"Bearer {TOKEN[:-1]}"}, 401),
    "another host": ({"host": "evil.example"}, 421),
    "another origin": ({"origin": "http://evil.example"}, 403),
    "a form": ({"content_type": "text/plain"}, 415),
    "a page": ({"accept": "text/html"}, 406),
}


@pytest.mark.parametrize(("changed", "status"), NO_ENTRY.values(), ids=NO_ENTRY)
def test_who_may_not_come_in_is_refused_before_the_body_is_read(changed: dict[str, str | None], status: int) -> None:
    gateway = Gateway()
    found = ask(gateway, **changed)
    assert found.status == status
    assert found.received == 0
    assert not gateway.asked
    assert found.header("x-request-id")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/todo"])
def test_only_post_is_taken(method: str, path: str) -> None:
    found = Client(Gateway(), path, method)
    asyncio.run(found.send(headers(message()), []))
    assert (found.status, found.header("allow")) == (405, "POST")


def test_no_answer_is_kept_or_guessed_at(settings: Any) -> None:
    for found in (ask(Gateway()), ask(Gateway(), authorization=None)):
        assert found.header("cache-control") == "no-store, private"
        assert found.header("x-content-type-options") == "nosniff"
        assert found.header("access-control-allow-origin") is None
        assert found.header("strict-transport-security") is None
    settings.SECURE_HSTS_SECONDS, settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = 60, True
    assert ask(Gateway()).header("strict-transport-security") == "max-age=60; includeSubDomains"


ORIGINS = {
    "https://Gate.Example.org": "https://gate.example.org",
    "https://gate.example.org:443": "https://gate.example.org",
    "https://gate.example.org:8443": "https://gate.example.org:8443",
    "http://[::1]:8000": "http://[::1]:8000",
    "https://gate.example.org/below": "https://gate.example.org",
}


@pytest.mark.parametrize(("url", "origin"), ORIGINS.items())
def test_the_origin_is_that_of_the_public_url(settings: Any, url: str, origin: str) -> None:
    settings.PUBLIC_URL = url
    assert application.endpoint_settings().origin == origin


ENDPOINTS = {
    "/mcp": "",
    "/mcp/": "",
    "/mcp/todo": "todo",
    "/mcp/tools": None,
    "/mcp/servers": None,
    "/mcp/calls": None,
    "/mcp/tools/todo__create/call": None,
    "/mcp/todo/x": None,
    "/mcpx": None,
    "/": None,
    "/api/nhi/mcp": None,
}


@pytest.mark.parametrize(("path", "server"), ENDPOINTS.items())
def test_paths_of_the_rest_api_stay_its_own(path: str, server: str | None) -> None:
    assert endpoints.find_server_name(path) == server


def test_a_body_in_many_parts_is_one_body() -> None:
    async def once() -> Client:
        raw = body(message())
        return await Client(gateway).post(parts=[raw[at : at + 7] for at in range(0, len(raw), 7)])

    gateway = Gateway()
    assert asyncio.run(once()).answer["result"]["content"]
    assert len(gateway.asked) == 1


@pytest.mark.parametrize("parts", [[b" " * (MAX_BODY_BYTES + 1)], [b" " * 1024 * 1024] * 5, [b" " * 1024 * 1024] * 40])
def test_a_body_past_the_limit_is_refused_and_not_kept(parts: list[bytes]) -> None:
    async def once() -> Client:
        return await Client(gateway).post(parts=parts)

    gateway = Gateway()
    found = asyncio.run(once())
    assert found.status == 413
    assert found.received <= 18, "whoever sends without end is cut off"
    assert not gateway.asked


def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def once() -> Client:
        client = Client(Gateway())

        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(told: dict[str, Any]) -> None:
            client.sent.append(told)

        given = headers(message(), authorization=f"Bearer {TOKEN}")
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": given, "client": None}
        async with asyncio.timeout(WAIT):
            await application.make_application(client.gateway)(scope, receive, send)
        return client

    monkeypatch.setattr("common.asgi.bodies.BODY_TIMEOUT_SECONDS", 0.02)
    found = asyncio.run(once())
    assert (found.status, found.header("connection")) == (408, "close")


def test_a_client_that_leaves_while_it_sends_is_not_answered() -> None:
    async def once() -> Client:
        client = Client(Gateway())
        client.gone.set()
        return await client.post()

    found = asyncio.run(once())
    assert not found.sent
    assert not found.gateway.asked
