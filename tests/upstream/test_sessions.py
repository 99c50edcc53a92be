"""Sessions of the handshake revisions: opened once, kept, opened again when forgotten, ended; a call is made once."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from mcp.protocol.upstream_errors import UpstreamError, UpstreamFault
from tests.upstream.client import run, running
from tests.upstream.servers import Call, Json, LegacyServer, Refused, SseServer, echo

pytestmark = pytest.mark.capability("MCP-03")


def test_calls_at_once_share_one_session() -> None:
    async def test() -> None:
        server = LegacyServer()
        async with running(server) as upstream:
            await asyncio.gather(*(upstream.call(era="legacy") for _ in range(20)))
            assert server.opened == 1
            assert server.methods().count("notifications/initialized") == 1
            assert {headers.get("mcp-session-id") for headers in server.headers[2:]} == {"session-1"}

    run(test)


def test_who_opens_the_session_may_give_up_without_the_others() -> None:
    async def test() -> None:
        server = LegacyServer()
        async with running(server) as upstream:
            first = asyncio.create_task(upstream.call(era="legacy"))
            second = asyncio.create_task(upstream.call(era="legacy"))
            await asyncio.sleep(0)
            first.cancel()
            assert (await second)["isError"] is False

    run(test)


@pytest.mark.parametrize("status", [404, 400])
def test_a_forgotten_session_is_opened_again_once(status: int) -> None:
    async def test() -> None:
        server = LegacyServer(unknown_session_status=status)
        async with running(server) as upstream:
            await upstream.call(era="legacy")
            server.sessions.clear()
            await asyncio.gather(*(upstream.call(era="legacy") for _ in range(5)))
            assert server.opened == 2

    run(test)


def test_a_server_that_forgets_every_session_is_asked_twice() -> None:
    class Forgetful(LegacyServer):
        def _welcome(self, message: Json) -> web.StreamResponse:
            response = super()._welcome(message)
            self.sessions.clear()
            return response

    async def test() -> None:
        server = Forgetful()
        async with running(server) as upstream:
            # It refuses the initialized notification already.
            with pytest.raises((UpstreamFault, UpstreamError)):
                await upstream.call(era="legacy")
            assert server.methods().count("tools/call") <= 2
            assert server.opened <= 3

    run(test)


@pytest.mark.parametrize("code", [-32602, -32601])
def test_an_error_that_names_a_session_is_an_answer(code: int) -> None:
    """The tool ran; what it says about sessions of its own must not make it run again."""

    async def work(_call: Call) -> Json:
        raise Refused(code, "No such browser session", status=400)

    async def test() -> None:
        server = LegacyServer(work=work)
        async with running(server) as upstream:
            with pytest.raises(UpstreamError) as caught:
                await upstream.call(era="legacy")
            assert caught.value.blames_caller
            assert server.methods().count("tools/call") == 1

    run(test)


def test_the_session_is_ended_with_the_loop() -> None:
    async def test() -> None:
        server = LegacyServer()
        async with running(server) as upstream:
            await upstream.call(era="legacy")
            await upstream.transport.close()
            assert not server.sessions

    run(test)


def test_a_handshake_disturbs_no_call_and_leaves_no_session() -> None:
    release = asyncio.Event()

    async def work(call: Call) -> Json:
        await release.wait()
        return await echo(call)

    async def test() -> None:
        server = LegacyServer(work=work)
        async with running(server) as upstream:
            call = asyncio.create_task(upstream.call(era="legacy"))
            while "tools/call" not in server.methods():
                await asyncio.sleep(0)
            await upstream.transport.handshake(upstream.target(), timeout=5)
            await server.ended.wait()
            assert server.sessions == {"session-1"}
            release.set()
            assert (await call)["isError"] is False

    run(test)


def test_another_revision_is_another_session_and_calls_under_way_end_first() -> None:
    release = asyncio.Event()

    async def work(call: Call) -> Json:
        if call.params["arguments"].get("slow"):
            await release.wait()
        return await echo(call)

    async def test() -> None:
        server = LegacyServer(work=work)
        async with running(server) as upstream:
            call = asyncio.create_task(upstream.call(arguments={"slow": True}, era="legacy"))
            while "tools/call" not in server.methods():
                await asyncio.sleep(0)
            await upstream.call(era="legacy", revision=2, headers=(("Authorization", "another"),))
            assert server.sessions == {"session-1", "session-2"}
            assert server.headers[-1]["authorization"] == "another"
            release.set()
            await call
            await server.ended.wait()
            assert server.sessions == {"session-2"}

    run(test)


@pytest.mark.parametrize("kind", [LegacyServer, SseServer])
def test_what_a_server_asks_is_answered_and_nothing_is_granted(kind: Any) -> None:
    async def work(call: Call) -> Json:
        await call.tell({"jsonrpc": "2.0", "id": "q1", "method": "sampling/createMessage", "params": {"messages": []}})
        await call.tell({"jsonrpc": "2.0", "id": 7, "method": "ping"})
        await call.tell({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "noise"}})
        return await echo(call)

    async def test() -> None:
        server = kind(work=work, answer_as_stream=True)
        async with running(server) as upstream:
            await upstream.call(era="legacy" if kind is LegacyServer else "sse")
            await upstream.transport.close()
            answers = {message["id"]: message for message in server.got if "method" not in message}
            assert answers["q1"]["error"]["code"] == -32601
            assert answers[7]["result"] == {}

    run(test)


@pytest.mark.parametrize("kind", [LegacyServer, SseServer])
def test_a_call_that_is_given_up_is_said_to_be(kind: Any) -> None:
    begun = asyncio.Event()

    async def work(_call: Call) -> Json:
        begun.set()
        await asyncio.sleep(60)
        raise AssertionError

    async def test() -> None:
        server = kind(work=work)
        era = "legacy" if kind is LegacyServer else "sse"
        async with running(server) as upstream:
            call = asyncio.create_task(upstream.call(era=era))
            await begun.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await upstream.transport.close()
            (called,) = [message for message in server.got if message.get("method") == "tools/call"]
            (said,) = [message for message in server.got if message.get("method") == "notifications/cancelled"]
            assert said["params"]["requestId"] == called["id"]
            for task in getattr(server, "tasks", ()):
                task.cancel()

    run(test)


class Polling(LegacyServer):
    """Hangs up in the middle of its answer and goes on when it is asked to, as 2025-11-25 allows."""

    asked_again: list[str]
    answers = True

    async def respond(self, request: web.Request, message: Json, headers: dict[str, str]) -> web.StreamResponse:
        self.pending = message
        self.asked_again = []
        return await self._send(request, "id: 1\ndata: \n\nretry: 50\n\nid: 2\ndata: {cut off")

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            return await super().handle(request)
        self.asked_again.append(request.headers["Last-Event-ID"])
        if len(self.asked_again) == 1:
            return await self._send(request, "id: 1b\ndata: \n\n")
        if not self.answers:
            return await self._send(request, "")
        result = await self.answer(Call(self.pending, {}, echo))  # type: ignore[arg-type] # nothing is told
        return await self._send(request, f"id: 2\ndata: {json.dumps(result)}\n\n")

    async def _send(self, request: web.Request, text: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(text.encode())
        return response


def test_a_stream_that_is_cut_is_taken_up_where_it_ended() -> None:
    async def test() -> None:
        server = Polling()
        async with running(server) as upstream:
            assert (await upstream.call(era="legacy"))["isError"] is False
            assert server.asked_again == ["1", "1b"]
            assert server.methods().count("tools/call") == 1

    run(test)


def test_a_stream_that_brings_nothing_new_is_given_up() -> None:
    async def test() -> None:
        server = Polling()
        server.answers = False
        async with running(server) as upstream:
            with pytest.raises(UpstreamFault) as caught:
                await upstream.call(era="legacy")
            assert (caught.value.code, caught.value.sent) == ("closed", True)
            assert server.methods().count("tools/call") == 1
            assert len(server.asked_again) < 6

    run(test)
