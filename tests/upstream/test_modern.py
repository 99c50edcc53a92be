"""2026-07-28: what every request carries, and what a server may ask to have repeated in headers."""

import asyncio
from typing import Any

import pytest
from django.conf import settings

from mcp.protocol.headers import CONNECTION_HEADERS
from mcp.protocol.upstream_errors import UpstreamError, UpstreamFault
from tests.upstream.client import SECRET, run, running
from tests.upstream.servers import Call, Json, ModernServer, Refused, echo

pytestmark = pytest.mark.capability("MCP-03")

META = "io.modelcontextprotocol/"


def schema(**properties: Any) -> Json:
    return {"type": "object", "properties": properties}


PLACE = schema(
    region={"type": "string", "x-mcp-header": "Region"},
    deep=schema(count={"type": "integer", "x-mcp-header": "Count"}),
    sure={"type": "boolean", "x-mcp-header": "Sure"},
    plain={"type": "string"},
)


def test_each_request_says_all_there_is_to_know() -> None:
    async def test() -> None:
        server = ModernServer()
        async with running(server) as upstream:
            meta = {"traceparent": "00-1", META + "clientCapabilities": {"sampling": {}}}
            await upstream.call(arguments={"a": 1}, era="modern", meta=meta)
            (message,), (headers,) = server.got, server.headers
            assert message["params"]["_meta"] == {
                "traceparent": "00-1",
                META + "protocolVersion": "2026-07-28",
                META + "clientInfo": {"name": "gatehouse", "version": settings.VERSION},
                META + "clientCapabilities": {},
            }
            assert headers["accept"] == "application/json, text/event-stream"
            assert headers["content-type"] == "application/json"
            assert headers["mcp-protocol-version"] == "2026-07-28"
            assert headers["mcp-method"] == "tools/call"
            assert headers["mcp-name"] == "echo"
            assert headers["authorization"] == SECRET
            assert "mcp-session-id" not in headers
            assert "cookie" not in headers

    run(test)


def test_headers_of_the_server_go_along_and_cannot_change_the_protocol() -> None:
    async def test() -> None:
        server = ModernServer()
        async with running(server) as upstream:
            await upstream.call(era="modern", headers=(("X-Key", "k"),))
            ours = sorted(CONNECTION_HEADERS | {"mcp-method", "mcp-param-region", "mcp-session-id"})
            odd = [(spelled, "of-nobody") for name in ours for spelled in (name, name.title(), name.upper())]
            await upstream.call(era="modern", revision=2, headers=(("X-Key", "k"), *odd))
            assert server.headers[0]["x-key"] == "k"
            assert server.headers[1] == server.headers[0]

    run(test)


def test_the_headers_are_not_in_what_a_target_prints() -> None:
    async def test() -> None:
        async with running(ModernServer()) as upstream:
            assert SECRET not in repr(upstream.target())

    run(test)


def test_headers_that_cannot_be_sent_are_said_to_be() -> None:
    async def test() -> None:
        async with running(ModernServer()) as upstream:
            with pytest.raises(UpstreamFault) as caught:
                await upstream.call(era="modern", headers=(("X-Key", "a\r\nb: c"),))
            assert (caught.value.code, caught.value.sent) == ("unreachable", False)
            assert "headers" in caught.value.detail

    run(test)


def test_a_name_that_no_header_can_hold_is_wrapped() -> None:
    async def test() -> None:
        server = ModernServer()
        async with running(server) as upstream:
            with pytest.raises(UpstreamError) as caught:
                await upstream.call("größe", era="modern")
            assert caught.value.blames_caller
            assert server.headers[0]["mcp-name"] == "=?base64?Z3LDtsOfZQ==?="

    run(test)


def test_arguments_are_repeated_where_the_tool_wants_it() -> None:
    async def test() -> None:
        server = ModernServer()
        async with running(server) as upstream:
            arguments = {"region": " é", "deep": {"count": 42}, "sure": True, "plain": "x"}
            await upstream.call(arguments=arguments, era="modern", input_schema=PLACE)
            found = {name: value for name, value in server.headers[0].items() if name.startswith("mcp-param-")}
            assert found == {"mcp-param-region": "=?base64?IMOp?=", "mcp-param-count": "42", "mcp-param-sure": "true"}
            await upstream.call(arguments={"region": None}, era="modern", input_schema=PLACE)
            assert not [name for name in server.headers[1] if name.startswith("mcp-param-")]

    run(test)


class Strict(ModernServer):
    """Wants a header that the caller's schema does not know of."""

    def _wrong(self, message: Json, headers: dict[str, str]) -> Refused | None:
        wrong = super()._wrong(message, headers)
        if wrong is None and message["method"] == "tools/call" and headers.get("mcp-param-region") != "north":
            return Refused(-32020, "Mcp-Param-Region differs from the argument", status=400)
        return wrong


def test_refused_headers_are_learned_anew_once() -> None:
    async def test() -> None:
        server = Strict(tools=[{"name": "echo", "inputSchema": PLACE}])
        async with running(server) as upstream:
            old = schema(region={"type": "string"})
            for _ in range(2):
                result = await upstream.call(arguments={"region": "north"}, era="modern", input_schema=dict(old))
                assert result["isError"] is False
            assert server.methods() == ["tools/call", "tools/list", "tools/call", "tools/call"]
            with pytest.raises(UpstreamError) as caught:
                await upstream.call(arguments={"region": "south"}, era="modern", input_schema=old)
            assert caught.value.code == -32020
            assert server.methods().count("tools/call") == 5

    run(test)


def test_a_tool_with_a_wrong_annotation_is_left_out() -> None:
    async def test() -> None:
        wrong = {"name": "wrong", "inputSchema": schema(x={"type": "number", "x-mcp-header": "X"})}
        server = ModernServer(tools=[{"name": "echo", "inputSchema": PLACE}, wrong])
        async with running(server) as upstream:
            tools = await upstream.transport.list_tools(upstream.target(era="modern"), timeout=5)
            assert [tool["name"] for tool in tools] == ["echo"]

    run(test)


@pytest.mark.parametrize("as_stream", [False, True])
def test_a_call_that_is_given_up_closes_its_connection(as_stream: bool) -> None:
    begun = asyncio.Event()

    async def work(_call: Call) -> Json:
        begun.set()
        await asyncio.sleep(60)
        raise AssertionError

    async def test() -> None:
        server = ModernServer(work=work, answer_as_stream=as_stream)
        async with running(server) as upstream:
            call = asyncio.create_task(upstream.call(era="modern"))
            await begun.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            async with asyncio.timeout(2):
                await server.left.wait()
            assert "notifications/cancelled" not in server.methods()

    run(test)


def test_connections_are_used_again_also_after_streams() -> None:
    ports: set[str] = set()

    class Counting(ModernServer):
        async def handle(self, request):  # type: ignore[no-untyped-def] # as the one it replaces
            ports.add(str(request.transport.get_extra_info("peername")))
            return await super().handle(request)

    async def test() -> None:
        async with running(Counting(answer_as_stream=True)) as upstream:
            for _ in range(5):
                await upstream.call(era="modern")
                await asyncio.sleep(0.01)
            assert len(ports) == 1

    run(test)


@pytest.mark.parametrize(
    ("pages", "code", "says"),
    [
        ([{"tools": [], "nextCursor": "a"}], "protocol", "leads back"),
        ([{"tools": [], "nextCursor": ""}], "protocol", "leads back"),
        ([{"tools": [], "nextCursor": 5}], "protocol", "no text"),
        ([{"tools": {}}], "protocol", "no list"),
        ([{"tools": [{"title": "x"}]}], "protocol", "no name"),
        ([{"tools": [{"name": "x"}] * 10_001}], "too_large", "10000"),
        ([{"tools": [], "nextCursor": str(page)} for page in range(101)], "too_large", "100 pages"),
    ],
)
def test_a_list_ends_somewhere(pages: list[Json], code: str, says: str) -> None:
    class Paging(ModernServer):
        asked = 0

        async def result(self, call: Call) -> Json:
            self.asked += 1
            return pages[min(self.asked, len(pages)) - 1]

    async def test() -> None:
        async with running(Paging()) as upstream:
            with pytest.raises(UpstreamFault) as caught:
                await upstream.transport.list_tools(upstream.target(era="modern"), timeout=5)
            assert caught.value.code == code
            assert says in caught.value.detail

    run(test)


def test_a_listener_that_fails_ends_its_own_call() -> None:
    async def step(_said: Json) -> None:
        raise LookupError("listener")

    async def test() -> None:
        server = ModernServer(work=echo, answer_as_stream=True)
        async with running(server) as upstream:
            with pytest.raises(LookupError):
                await upstream.call(era="modern", on_progress=step)
            await upstream.call(era="modern")

    run(test)
