"""The web process has both: the MCP server at its own paths, Django at all others."""

import asyncio
import json
from typing import Any

import pytest

from config.asgi import application
from tests.front.asking import headers, message

pytestmark = pytest.mark.capability("MCP-06")


def asked(path: str, method: str = "POST") -> tuple[int, dict[str, str], bytes]:
    """An anonymous request: refused by both, each in its own words, without a query."""
    sent: list[dict[str, Any]] = []

    left = [{"type": "http.request", "body": b"{}", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.Event().wait()
        return left.pop()

    async def send(told: dict[str, Any]) -> None:
        sent.append(told)

    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers(message()), "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 8000), "scheme": "http",
        "http_version": "1.1", "root_path": "",
    }  # fmt: skip
    asyncio.run(application(scope, receive, send))
    named = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], named, b"".join(told.get("body", b"") for told in sent[1:])


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/todo", "/mcp/no-such-server"])
def test_the_mcp_server_answers_at_its_endpoints(path: str) -> None:
    status, named, body = asked(path)
    assert status == 401
    metadata = "http://127.0.0.1:8000/.well-known/oauth-protected-resource/mcp"
    assert named["www-authenticate"] == f'Bearer resource_metadata="{metadata}"'
    assert json.loads(body)["jsonrpc"] == "2.0"


@pytest.mark.parametrize("path", ["/healthz", "/mcp/tools", "/mcp/calls", "/mcp/servers", "/mcp/todo/x", "/mcpx"])
def test_django_answers_everywhere_else(path: str) -> None:
    _, _, body = asked(path, "GET")
    assert b"jsonrpc" not in body


def test_the_way_to_a_token_that_is_named_leads_somewhere() -> None:
    status, _, body = asked("/.well-known/oauth-protected-resource/mcp", "GET")
    assert status == 200
    assert json.loads(body)["resource"] == "http://127.0.0.1:8000/mcp"
