"""How an era is found where servers are odd about it, and what an administrator is shown of that."""

import json

import pytest
from aiohttp import web

from mcp.protocol.upstream_errors import UpstreamError, UpstreamFault
from tests.upstream.client import run, running
from tests.upstream.servers import Call, Json, LegacyServer, ModernServer, Refused, Server, SseServer

pytestmark = pytest.mark.capability("MCP-03")


class Both(Server):
    """What a request with the current headers is told, and what the others find."""

    def __init__(self, told: web.Response | Json | None, old: Server) -> None:
        super().__init__()
        self.told = told
        self.old = old
        self.got = old.got

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Mcp-Method") != "server/discover":
            return await self.old.handle(request)
        message, _ = await self.note(request)
        if isinstance(self.told, web.Response):
            return self.told
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **(self.told or {})})


def refusal(status: int, code: int, **data: object) -> web.Response:
    error = {"code": code, "message": "no", **({"data": data} if data else {})}
    return web.Response(status=status, text=json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}),
                        content_type="application/json")  # fmt: skip


#: What a server of the handshake says to `server/discover`.
OLD_ANSWERS = {
    "method not found": lambda: {"error": {"code": -32601, "message": "Method not found"}},
    "an error of its own": lambda: {"error": {"code": -32000, "message": "Not initialized"}},
    "400 in plain text": lambda: web.Response(status=400, text="Bad Request"),
    "400, no session": lambda: refusal(400, -32000),
    "404": lambda: web.Response(status=404),
    "405": lambda: web.Response(status=405),
    "406": lambda: web.Response(status=406),
    "a page": lambda: web.Response(text="<html>", content_type="text/html"),
    "nothing": lambda: web.Response(status=202),
    "only old versions": lambda: {"result": {"supportedVersions": ["2025-06-18"]}},
    "no versions": lambda: {"result": {"tools": []}},
    "an unknown version that it names": lambda: refusal(400, -32022, supported=["2025-11-25", "2025-06-18"]),
}


@pytest.mark.parametrize("told", OLD_ANSWERS.values(), ids=OLD_ANSWERS)
def test_an_old_server_may_refuse_the_probe_as_it_likes(told) -> None:  # type: ignore[no-untyped-def] # a lambda each
    async def test() -> None:
        server = Both(told(), LegacyServer())
        async with running(server) as upstream:
            found = await upstream.transport.handshake(upstream.target(), timeout=5)
            assert found.era == "legacy"
            assert "POST initialize" in found.steps

    run(test)


@pytest.mark.parametrize(
    "told", [refusal(400, -32022, supported=["2099-01-01"]), refusal(400, -32020), refusal(400, -32021)]
)
def test_a_new_server_that_will_not_speak_with_us_is_not_taken_for_an_old_one(told: web.Response) -> None:
    async def test() -> None:
        server = Both(told, LegacyServer())
        async with running(server) as upstream:
            with pytest.raises(UpstreamError) as caught:
                await upstream.transport.handshake(upstream.target(), timeout=5)
            assert caught.value.code in {-32020, -32021, -32022}
            assert server.methods() == ["server/discover"]

    run(test)


def test_a_slow_starter_that_refuses_the_handshake_is_a_new_server() -> None:
    class Slow(ModernServer):
        asked = 0

        async def handle(self, request: web.Request) -> web.StreamResponse:
            self.asked += 1
            if self.asked == 1:
                return web.Response(status=400, text="starting")
            if request.headers.get("Mcp-Method") is None:
                message, _ = await self.note(request)
                error = {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}
                return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error}, status=400)
            return await super().handle(request)

    async def test() -> None:
        async with running(Slow()) as upstream:
            found = await upstream.transport.handshake(upstream.target(), timeout=5)
            assert found.era == "modern"

    run(test)


def test_a_server_that_speaks_nothing_says_what_it_said_to_initialize() -> None:
    class Nothing(Server):
        async def handle(self, request: web.Request) -> web.StreamResponse:
            return web.Response(status=404)

    async def test() -> None:
        async with running(Nothing()) as upstream:
            with pytest.raises(UpstreamFault) as caught:
                await upstream.transport.handshake(upstream.target(), timeout=5)
            assert caught.value.status == 404
            tried = [step.partition(",")[0] for step in caught.value.steps if step.startswith(("POST", "GET"))]
            assert tried == ["POST server/discover", "POST initialize", "GET event stream"]

    run(test)


@pytest.mark.parametrize("before", ["modern", "legacy", "sse"])
@pytest.mark.parametrize("now", [ModernServer, LegacyServer, SseServer])
def test_what_was_remembered_may_be_wrong(before: str, now: type[Server]) -> None:
    async def test() -> None:
        server = now()
        async with running(server) as upstream:
            assert (await upstream.call(era=before))["isError"] is False
            assert (await upstream.call(era=before))["isError"] is False

    run(test)


def test_a_refusal_is_probed_after_but_once_in_a_while() -> None:
    async def work(_call: Call) -> Json:
        raise Refused(-32000, "Not today", status=400)

    async def test() -> None:
        server = ModernServer(work=work)
        async with running(server) as upstream:
            for _ in range(5):
                with pytest.raises(UpstreamError):
                    await upstream.call(era="modern")
            assert server.methods().count("server/discover") == 1
            assert server.methods().count("tools/call") == 5

    run(test)
