"""A server that refuses a call because its client declared too little, and what the gateway makes of that."""

import json
from typing import Any

import pytest
from aiohttp import web

from tests.mcp.peer import Json, Peer
from tests.mcp.scene import row_of, scene

pytestmark = [pytest.mark.capability("MCP-06"), pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize(
    ("data", "required"),
    [
        ({"requiredCapabilities": {"sampling": {}, "something of its own": {}}}, ("sampling",)),
        ({"requiredCapabilities": "sampling"}, ()),
        (None, ()),
    ],
)
def test_the_servers_own_refusal_is_understood(server: Peer, data: Any, required: tuple[str, ...]) -> None:
    async def refuse(_request: web.Request, asked: Json) -> web.Response:
        error = {"code": -32021, "message": "No.", "data": data}
        told = {"jsonrpc": "2.0", "id": asked["id"], "error": error}
        return web.Response(status=400, text=json.dumps(told), content_type="application/json")

    server.answers = refuse
    outcome = scene(server.url).call()
    assert (outcome.status, outcome.reason, outcome.required_capabilities) == ("error", "invalid_parameters", required)
    assert "does not pass on" in outcome.message
    assert row_of(outcome.call_id).error_code == "InvalidParameters"
