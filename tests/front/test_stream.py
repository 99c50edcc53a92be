"""Streams: progress, patience, and the end of a call whose caller went away."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcp.gateway.types import CallRequest, CallResult
from mcp.server import response_writer
from mcp.server.errors import ErrorResponse
from tests.front.asking import META, message
from tests.front.door import DONE, UNKNOWN, WAIT, Client, Gateway

pytestmark = pytest.mark.capability("MCP-06")
TOLD = message(meta={**META, "progressToken": "mine"})


def run(scene: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(WAIT):
            return await scene()

    return asyncio.run(bounded())


async def nothing_left() -> None:
    """Each task of the exchange has ended, or ends now; the caller's deadline is the limit."""
    while len(asyncio.all_tasks()) > 1:
        await asyncio.sleep(0)


async def say(ask: CallRequest, **said: Any) -> None:
    assert ask.on_progress is not None
    await ask.on_progress(said)


def test_progress_comes_before_the_answer_on_one_stream() -> None:
    async def work(ask: CallRequest) -> CallResult:
        await say(ask, progress=1, total=2, message="half", progressToken="theirs")
        await say(ask, progress=1)
        await say(ask, progress=2)
        return DONE

    found = run(lambda: Client(Gateway(work)).post(TOLD))
    assert found.status == 200
    assert found.header("x-accel-buffering") == "no"
    assert found.header("content-length") is None
    *progress, answer = found.events
    assert [one["params"] for one in progress] == [
        {"progressToken": "mine", "progress": 1, "total": 2, "message": "half"},
        {"progressToken": "mine", "progress": 2},
    ]
    assert answer["id"] == 1
    assert answer["result"]["content"] == [{"type": "text", "text": "done"}]


def test_without_progress_the_answer_is_plain() -> None:
    found = run(lambda: Client(Gateway()).post(TOLD))
    assert found.header("content-type") == "application/json"


def test_progress_reaches_the_client_while_the_call_goes_on() -> None:
    async def scene() -> Client:
        seen = asyncio.Event()

        async def work(ask: CallRequest) -> CallResult:
            await say(ask, progress=1)
            await seen.wait()
            return DONE

        client = Client(Gateway(work))
        asking = asyncio.ensure_future(client.post(TOLD))
        while b'"progress":1' not in b"".join(told.get("body", b"") for told in client.sent):
            await client.said.wait()
            client.said.clear()
        seen.set()
        return await asking

    assert len(run(scene).events) == 2


def test_a_refusal_after_the_stream_began_is_its_last_event() -> None:
    async def work(ask: CallRequest) -> CallResult:
        await say(ask, progress=1)
        return UNKNOWN

    found = run(lambda: Client(Gateway(work)).post(TOLD))
    assert found.status == 200
    assert found.events[-1]["error"]["data"] == {"reason": "credential_revoked"}
    assert found.events[-1]["id"] == 1


def test_a_long_silence_becomes_a_stream_that_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp.server.mcp_handler.KEEP_ALIVE_SECONDS", 0.01)
    monkeypatch.setattr("mcp.server.response_writer.KEEP_ALIVE_SECONDS", 0.01)

    async def scene() -> Client:
        client = Client(gateway := Gateway())

        async def work(_ask: CallRequest) -> CallResult:
            while len(client.sent) < 4:
                await client.said.wait()
                client.said.clear()
            return DONE

        gateway.outcome = work
        return await client.post()

    *pings, answer = run(scene).events
    assert len(pings) >= 3
    assert set(pings) == {None}
    assert answer["result"]["resultType"] == "complete"


@pytest.mark.parametrize("streaming", [False, True])
def test_a_client_that_goes_away_cancels_its_call_and_hears_nothing_more(streaming: bool) -> None:
    async def scene() -> Client:
        async def work(ask: CallRequest) -> CallResult:
            if streaming:
                await say(ask, progress=1)
            await asyncio.Event().wait()
            raise AssertionError

        client = Client(gateway := Gateway(work))
        asking = asyncio.ensure_future(client.post(TOLD))
        await gateway.begun.wait()
        if streaming:
            await client.said.wait()
        heard = len(client.sent)
        client.gone.set()
        await asking
        assert heard <= len(client.sent) <= heard + int(streaming), "at most what was on its way"
        assert all(told.get("more_body", True) for told in client.sent), "no answer to nobody"
        await nothing_left()
        return client

    assert run(scene).gateway.cancelled


def test_a_gateway_that_settles_first_is_waited_for() -> None:
    """Cancellation reaches the gateway as such, and what it shields is done before the exchange ends."""
    settled = []

    async def scene() -> None:
        async def work(_ask: CallRequest) -> CallResult:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                settled.append("cancelled")
            raise AssertionError

        client = Client(gateway := Gateway(work))
        asking = asyncio.ensure_future(client.post())
        await gateway.begun.wait()
        client.gone.set()
        await asking
        assert not client.sent

    run(scene)
    assert settled == ["cancelled"]


def test_the_end_of_the_server_is_told_and_not_taken_for_the_clients() -> None:
    async def scene() -> None:
        async def work(ask: CallRequest) -> CallResult:
            await say(ask, progress=1)
            await asyncio.Event().wait()
            raise AssertionError

        client = Client(gateway := Gateway(work))
        asking = asyncio.ensure_future(client.post(TOLD))
        await gateway.begun.wait()
        await client.said.wait()
        asking.cancel()
        await asking
        await nothing_left()
        assert gateway.cancelled
        assert client.events[-1]["error"]["data"]["reason"] == "stopping"

    run(scene)


def test_a_slow_client_slows_no_upstream_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp.server.message_builder.MAX_NOTIFICATIONS_PER_SECOND", 10_000)
    told = 1000

    async def scene() -> Client:
        async def work(ask: CallRequest) -> CallResult:
            for number in range(told):
                await say(ask, progress=number)
            done.set()
            return DONE

        done, client = asyncio.Event(), Client(Gateway(work))
        client.takes.clear()
        asking = asyncio.ensure_future(client.post(TOLD))
        await done.wait()
        client.takes.set()
        return await asking

    *progress, answer = run(scene).events
    assert len(progress) <= response_writer.MAX_QUEUED_EVENTS
    values = [one["params"]["progress"] for one in progress]
    assert values == sorted(set(values))
    assert "result" in answer


def test_a_reply_without_a_stream_has_nothing_to_abandon() -> None:
    async def scene() -> list[Any]:
        sent: list[Any] = []

        async def send(told: Any) -> None:
            sent.append(told)

        reply = response_writer.McpResponseWriter(send, ())
        reply.abandon()
        await reply.send_error(ErrorResponse(400, -32600, "No."))
        return sent

    assert [told["type"] for told in run(scene)] == ["http.response.start", "http.response.body"]
