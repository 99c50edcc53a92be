"""Requests are begun in turns: a flood of one caller waits, and another caller is read in the next round."""

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from common.asgi.fair_protocol import SOLE_CALLER_READS, FairHttpProtocol

pytestmark = [pytest.mark.capability("MCP-09")]


class Transport(asyncio.Transport):
    """A connection of which nothing goes out."""

    def __init__(self) -> None:
        super().__init__()
        self.paused = False

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return False

    def write(self, _data: Any) -> None: ...

    def close(self) -> None: ...

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Stage:
    """Connections of one loop, and the paths whose requests were begun, in their order."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.bodies: dict[str, bytes] = {}
        self.config = uvicorn.Config(self.application, interface="asgi3", http=FairHttpProtocol, log_config=None)
        self.config.load()
        self.state = ServerState()

    async def application(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        path, body, more = scope["path"].strip("/"), b"", True
        self.begun.append(path)
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.bodies[path] = body
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def connect(self) -> tuple[FairHttpProtocol, Transport]:
        protocol = FairHttpProtocol(config=self.config, server_state=self.state, app_state={})
        transport = Transport()
        protocol.connection_made(transport)
        return protocol, transport

    def send(self, caller: str, path: str) -> None:
        self.connect()[0].data_received(request(caller, path))

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.begun) < count:
                await asyncio.sleep(0)


def request(caller: str, path: str, body: bytes = b"") -> bytes:
    head = f"POST /{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {caller}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def stage(work: Any) -> None:
    async def staged() -> None:
        await work(Stage())

    asyncio.run(staged())


def test_another_caller_is_begun_before_the_rest_of_a_flood() -> None:
    async def work(stage: Stage) -> None:
        for number in range(50):
            stage.send("flood", f"a{number}")
        stage.send("other", "b")
        await stage.until(51)
        assert stage.begun.index("b") <= SOLE_CALLER_READS
        assert [path for path in stage.begun if path != "b"] == [f"a{number}" for number in range(50)]

    stage(work)


def test_one_caller_alone_is_read_in_every_round() -> None:
    async def work(stage: Stage) -> None:
        for number in range(SOLE_CALLER_READS):
            stage.send("alone", f"a{number}")
        await asyncio.sleep(0)
        assert len(stage.begun) == SOLE_CALLER_READS

    stage(work)


def test_callers_that_send_together_are_begun_one_request_each_in_a_round() -> None:
    async def work(stage: Stage) -> None:
        stage.send("other", "b0")
        for number in range(10):
            stage.send("flood", f"a{number}")
        stage.send("other", "b1")
        stage.send("third", "c0")
        await stage.until(13)
        assert {"b1", "c0"} <= set(stage.begun[:5])
        assert [path for path in stage.begun if path.startswith("a")] == [f"a{number}" for number in range(10)]

    stage(work)


def test_bytes_of_one_connection_stay_in_order() -> None:
    async def work(stage: Stage) -> None:
        for number in range(20):
            stage.send("flood", f"a{number}")
        protocol, _ = stage.connect()
        body = bytes(range(100))
        whole = request("flood", "parted", body)
        for part in (whole[:30], whole[30:80], whole[80:150], whole[150:]):
            protocol.data_received(part)
        await stage.until(21)
        async with asyncio.timeout(10):
            while "parted" not in stage.bodies:
                await asyncio.sleep(0)
        assert stage.bodies["parted"] == body

    stage(work)


def test_a_connection_that_sends_on_while_it_waits_is_not_read_on() -> None:
    async def work(stage: Stage) -> None:
        for number in range(20):
            stage.send("flood", f"a{number}")
        protocol, transport = stage.connect()
        head, body = request("flood", "last"), b"x" * 4
        protocol.data_received(head.replace(b"Content-Length: 0", b"Content-Length: 4") + body[:2])
        assert transport.paused
        protocol.data_received(body[2:])
        await stage.until(21)
        async with asyncio.timeout(10):
            while "last" not in stage.bodies:
                await asyncio.sleep(0)
        assert stage.bodies["last"] == body
        assert not transport.paused

    stage(work)


def test_a_caller_is_known_by_its_token_however_the_header_is_written() -> None:
    async def work(stage: Stage) -> None:
        stage.send("other", "b0")
        for number in range(40):
            scheme = "".join(letter.upper() if number >> place & 1 else letter for place, letter in enumerate("bearer"))
            written = f"aUtHorization:{' ' * (number % 5)}{scheme}{' ' * (1 + number % 3)}flood"
            head = f"POST /a{number} HTTP/1.1\r\nHost: x\r\n{written}\r\nContent-Length: 0\r\n\r\n"
            stage.connect()[0].data_received(head.encode())
        stage.send("other", "b1")
        await stage.until(42)
        assert stage.begun.index("b1") <= 3

    stage(work)


def test_a_connection_that_closed_while_it_waited_is_left_out() -> None:
    async def work(stage: Stage) -> None:
        for number in range(20):
            stage.send("flood", f"a{number}")
        protocol, _ = stage.connect()
        protocol.data_received(request("flood", "gone"))
        protocol.connection_lost(None)
        stage.send("flood", "after")
        await stage.until(21)
        assert "gone" not in stage.begun
        assert stage.begun[-1] == "after"

    stage(work)
