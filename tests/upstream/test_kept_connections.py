"""A server may end a connection that is kept. What was not sent over it goes over another; what was is not repeated."""

import contextlib
import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mcp.protocol.upstream_errors import UpstreamFault
from tests.upstream.client import run, to

pytestmark = pytest.mark.capability("MCP-03")


class Answering(socketserver.StreamRequestHandler):
    """Answers so many requests on a connection, then closes it, saying nothing of that before."""

    def handle(self) -> None:
        server: Any = self.server
        for _ in range(server.answers):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                if not (byte := self.rfile.read(1)):
                    return
                head += byte
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            message = json.loads(self.rfile.read(length))
            server.got.append(message["id"])
            if server.silent:
                return
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}
            body = json.dumps(answer).encode()
            lines = ["HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
            self.wfile.write("\r\n".join(lines).encode() + body)


@contextlib.contextmanager
def closing(*, answers: int = 1, silent: bool = False) -> Iterator[Any]:
    """In a thread, so that its goodbye comes also while this loop does nothing."""
    server: Any = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    server.answers, server.silent, server.got = answers, silent, []
    server.url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def wait_until_it_hung_up(upstream: Any) -> None:
    """Without a turn of the loop, which would notice."""
    (session,) = {upstream.transport._open_session()}
    (kept,) = [protocol for idle in session.connector._conns.values() for protocol, _ in idle]
    number = kept.transport.get_extra_info("socket").fileno()
    other = socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM)
    with other:
        other.settimeout(5)
        assert other.recv(1, socket.MSG_PEEK) == b""


def test_a_connection_that_was_given_up_costs_no_call() -> None:
    async def test() -> None:
        with closing() as server:
            async with to(server.url) as upstream:
                for _ in range(5):
                    assert (await upstream.call(era="modern"))["content"] == []
                    wait_until_it_hung_up(upstream)
            assert len(server.got) == len(set(server.got)) == 5

    run(test)


def test_a_call_that_left_is_not_sent_again() -> None:
    async def test() -> None:
        with closing(silent=True) as server:
            async with to(server.url) as upstream:
                with pytest.raises(UpstreamFault) as caught:
                    await upstream.call(era="modern")
                assert (caught.value.code, caught.value.sent) == ("closed", True)
            assert len(server.got) == 1

    run(test)


def test_a_list_is_asked_for_again() -> None:
    """It has no effect, so a server that hung up after it was asked is asked once more."""

    async def test() -> None:
        with closing(silent=True) as server:
            async with to(server.url) as upstream:
                with pytest.raises(UpstreamFault):
                    await upstream.transport.list_tools(upstream.target(era="modern"), timeout=5)
            assert len(server.got) == 2

    run(test)
