"""Servers that misbehave, through the whole gateway: the right code in time, one row, and no harm to this process."""

import asyncio
import gzip
import json
import resource
import time
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import psutil
import pytest
from aiohttp import web

from mcp.models import Breaker, Call
from mcp.server import rest_renderer
from nhi.audit import row_macs
from nhi.models import InvocationLog
from tests.egress.far_side import Listener
from tests.mcp.peer import Json, Peer
from tests.mcp.scene import Scene, scene

pytestmark = [
    pytest.mark.capability("MCP-09", "MCP-03", "AUD-02", "MCP-07"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
#: What a call may take, and what a busy machine may add to it.
TIMEOUT, SPARE = 1.0, 4.0
MIB = 1 << 20
Answer = Callable[[web.Request, Json], Awaitable[web.StreamResponse]]


def says(body: bytes, kind: str = "application/json", status: int = 200, **headers: str) -> Answer:
    async def answer(request: web.Request, message: Json) -> web.StreamResponse:
        return web.Response(body=body, content_type=kind, status=status, headers=headers)

    return answer


def streams(*parts: bytes, kind: str = "text/event-stream", pause: float = 0.0, ends: bool = True) -> Answer:
    async def answer(request: web.Request, message: Json) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": kind})
        await stream.prepare(request)
        for part in parts:
            await stream.write(part)
            await asyncio.sleep(pause)
        if not ends:
            await asyncio.Event().wait()
        return stream

    return answer


def results(value: Any, **envelope: Any) -> Answer:
    async def answer(request: web.Request, message: Json) -> web.StreamResponse:
        whole = {"jsonrpc": "2.0", "id": message["id"], "result": value, **envelope}
        return web.Response(body=json.dumps(whole).encode(), content_type="application/json")

    return answer


async def hangs(request: web.Request, message: Json) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def closes(request: web.Request, message: Json) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def half_closes(request: web.Request, message: Json) -> web.StreamResponse:
    """Announces a body, sends half of it, and sends no more."""
    transport = request.transport
    assert isinstance(transport, asyncio.WriteTransport)
    transport.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"jsonrpc"')
    transport.write_eof()
    await asyncio.Event().wait()
    raise AssertionError


async def floods(request: web.Request, message: Json) -> web.StreamResponse:
    """An event stream of comments and notifications that never ends."""
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await stream.prepare(request)
    said = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"' + b"x" * 4096 + b'"}}\n\n'
    while True:
        await stream.write(b": ping\n\n" + said)


def fine(**more: Any) -> Json:
    return {"resultType": "complete", "content": [{"type": "text", "text": "fine"}], "isError": False, **more}


BOMB = gzip.compress(b'{"a":"' + b"x" * (64 * MIB) + b'"}')
DEEP = b'{"jsonrpc":"2.0","id":1,"result":{"content":' + b"[" * 200_000 + b"]" * 200_000 + b"}}"
UPSTREAM, TIMED_OUT = ("error", "upstream", 502), ("error", "timeout", 504)
FAULTS: dict[str, tuple[Answer, tuple[str, str, int]]] = {
    "never answers": (hangs, TIMED_OUT),
    "one byte at a time": (streams(*([b"x"] * 200), kind="application/json", pause=0.05), TIMED_OUT),
    "an event stream that only pings": (streams(*([b": ping\n\n"] * 100), pause=0.05), TIMED_OUT),
    "an event stream that stands still": (streams(b": hello\n\n", ends=False), TIMED_OUT),
    "an event stream without an end": (floods, UPSTREAM),
    "hangs up": (closes, UPSTREAM),
    "hangs up in the middle": (half_closes, UPSTREAM),
    "garbage": (says(b"\xff\x00{"), UPSTREAM),
    "half of it": (says(b'{"jsonrpc": "2.0", "id'), UPSTREAM),
    "a page": (says(b"<!doctype html><title>Welcome</title>", "text/html"), UPSTREAM),
    "twenty megabytes": (says(b'{"a":"' + b"x" * (20 * MIB) + b'"}'), UPSTREAM),
    "a bomb": (says(BOMB, **{"Content-Encoding": "gzip"}), UPSTREAM),
    "a bomb that is cut off": (says(BOMB[:1000], **{"Content-Encoding": "gzip"}), UPSTREAM),
    "deep": (says(DEEP), UPSTREAM),
    "no number": (results(fine(structuredContent={"a": float("nan")})), UPSTREAM),
    "somebody else's answer": (results(fine(), id=99_999), UPSTREAM),
    "no answer's id": (results(fine(), id=None), UPSTREAM),
    "a text for a result": (results("fine"), UPSTREAM),
    "nothing for a result": (results(None), UPSTREAM),
    "half a character": (results(fine(content=[{"type": "text", "text": "\ud800"}])), UPSTREAM),
    "status 429": (says(b"slow down", "text/plain", 429, **{"Retry-After": "1000"}), UPSTREAM),
    "status 401": (says(b"who are you", "text/plain", 401), UPSTREAM),
    "status 204": (says(b"", "text/plain", 204), UPSTREAM),
    "status 999": (says(b"?", "text/plain", 999), UPSTREAM),
}


@pytest.fixture
def made(server: Peer) -> Scene:
    known = scene(server.url, timeout=TIMEOUT, breaker={"failure_threshold": 100_000})
    assert known.call().status == "success"
    return known


def test_each_fault_has_its_code_in_time_and_one_row(made: Scene, server: Peer) -> None:
    wrong = []
    for name, (answer, (status, reason, code)) in FAULTS.items():
        server.answers = answer
        failures, began = Breaker.objects.for_all().get().failure_count, time.monotonic()
        outcome = made.call()
        took = time.monotonic() - began
        row = InvocationLog.objects.get(pk=outcome.call_id)
        found = (outcome.status, outcome.reason, rest_renderer.render_result(outcome).status)
        if found != (status, reason, code):
            wrong.append(f"{name}: {found}; {outcome.message}")
        if (row.status, row.reason) != (status, reason) or not row_macs.is_intact(row) or not row.error_message:
            wrong.append(f"{name}: its row says {row.status} {row.reason} {row.error_message}")
        if took > TIMEOUT + SPARE:
            wrong.append(f"{name}: took {took:.1f} s")
        if Breaker.objects.for_all().get().failure_count != failures + 1:
            wrong.append(f"{name}: the breaker did not count it")
    assert not wrong, "\n".join(wrong)
    assert InvocationLog.objects.count() == len(FAULTS) + 1
    assert not Call.objects.exists()


def test_a_flood_fills_no_memory(made: Scene, server: Peer) -> None:
    for name in ("twenty megabytes", "a bomb", "an event stream without an end"):
        server.answers = FAULTS[name][0]
        made.call()
    # What this process itself sends stands in it, too; what is left behind does not.
    before = psutil.Process().memory_info().rss
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name in ("twenty megabytes", "a bomb", "an event stream without an end") * 2:
        server.answers = FAULTS[name][0]
        made.call()
    assert psutil.Process().memory_info().rss - before < 48 * MIB
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most) * 1024 < 64 * MIB


ODD: dict[str, Json] = {
    "a number of many digits": fine(structuredContent={"a": 10**30}),
    "more than 64 bits": fine(structuredContent={"a": 2**64}),
    "a null character": fine(content=[{"type": "text", "text": "a\x00b"}]),
    "terminal codes": fine(content=[{"type": "text", "text": "\x1b[31mred\x1b[0m\u202e"}]),
    "many keys": fine(structuredContent={str(number): number for number in range(5000)}),
    "unknown fields": fine(tomorrow={"x": [1, 2]}),
    "a result that is almost a line of the log": fine(content=[{"type": "text", "text": '"}\n{"event":"forged"}'}]),
}


def test_what_is_odd_and_still_an_answer_is_passed_on(made: Scene, server: Peer) -> None:
    wrong = []
    for name, result in ODD.items():
        server.answers = results(result)
        outcome = made.call()
        reply = rest_renderer.render_result(outcome)
        orjson.dumps(reply.body)
        if (outcome.status, reply.status) != ("success", 200):
            wrong.append(f"{name}: {outcome}")
    assert not wrong, "\n".join(wrong)
    assert set(InvocationLog.objects.values_list("status", flat=True)) == {"success"}


MISSHAPEN: dict[str, Any] = {
    "content is a text": {"resultType": "complete", "content": "fine"},
    "content is an object": {"resultType": "complete", "content": {"type": "text"}},
    "a block is a text": {"resultType": "complete", "content": ["fine"]},
    "a block has no type": {"resultType": "complete", "content": [{"text": "fine"}]},
    "isError is a text": {"resultType": "complete", "content": [], "isError": "no"},
    "no content": {"resultType": "complete"},
    "structured content is a list": {"resultType": "complete", "content": [], "structuredContent": [1]},
}


def test_a_result_of_another_shape_breaks_nothing(made: Scene, server: Peer) -> None:
    """Whether it is passed on or said to be a fault: a row, and an answer that can be read as promised."""
    for name, result in MISSHAPEN.items():
        server.answers = results(result)
        outcome = made.call()
        reply = rest_renderer.render_result(outcome)
        assert reply.status in {200, 502}, (name, outcome)
        shown = reply.body.get("result", reply.body.get("details", {}).get("result", {}))
        assert isinstance(shown.get("content", []), list), (name, reply)
        orjson.dumps(reply.body)
    assert InvocationLog.objects.count() == len(MISSHAPEN) + 1


def test_a_redirect_leads_nowhere(made: Scene, server: Peer) -> None:
    canary = Listener()
    try:
        for status in (301, 302, 303, 307, 308):
            place = f"http://127.0.0.1:{canary.port}/"
            server.answers = says(b"", "text/plain", status, Location=place, Refresh=f"0; url={place}")
            outcome = made.call()
            assert (outcome.status, outcome.reason) == ("error", "upstream")
        assert canary.count() == 0
        assert server.calls[-1]["method"] == "tools/call"
        assert len(server.calls) == 6, "and asks nothing a second time"
    finally:
        canary.close()


def test_faults_open_the_breaker_and_the_callers_own_mistakes_do_not(server: Peer) -> None:
    made = scene(server.url, timeout=TIMEOUT)
    server.answers = results(None, error={"code": -32602, "message": "no"})
    for _ in range(7):
        assert made.call().reason in {"invalid_parameters", "upstream"}
    server.mode, server.answers = "fail", None
    for _ in range(7):
        assert made.call().reason == "tool_error"
    server.answers = FAULTS["garbage"][0]
    reasons = [made.call().reason for _ in range(7)]
    assert reasons == ["upstream"] * 5 + ["breaker_open"] * 2
    assert made.server.status == "Degraded", "one identity alone has met faults, so the server is still called"
    assert "JSON" in made.server.status_reason


def test_a_server_whose_connection_fails_is_offline(server: Peer) -> None:
    made = scene(server.url, timeout=TIMEOUT)
    server.mode = "error"
    reasons = [made.call().reason for _ in range(6)]
    assert reasons == ["upstream"] * 5 + ["breaker_open"]
    assert made.server.status == "Offline"


def test_a_probe_that_is_given_up_lets_the_next_one_try(server: Peer) -> None:
    from tests.mcp.scene import left_alone, run

    made = scene(server.url, timeout=30)
    Breaker.objects.update(state="OPEN", failure_count=5, recovery_timeout=0)
    server.hold()
    run(left_alone(made.ask(), seconds=0.3))
    assert Breaker.objects.get().state == "HALF-OPEN"
    server.let_go()
    server.mode = "echo"
    assert made.call().status == "success"
    assert Breaker.objects.get().state == "CLOSED"
