"""A response leaves at once: no connection to a running installation waits for its client's delayed ACK."""

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psutil
import pytest

from tests.services.house import House

pytestmark = [pytest.mark.capability("OPS-01"), pytest.mark.xdist_group("house")]

SYS_PIDFD_GETFD = 438


@contextmanager
def accepted(house: House, client: socket.socket) -> Iterator[socket.socket]:
    """The server's end of this connection, as its web process holds it."""
    pid, descriptor = house.wait_for(lambda: find(house, client.getsockname()), 10, "an accepted connection")
    with open_process(pid) as process:
        copy = ctypes.CDLL(None, use_errno=True).syscall(SYS_PIDFD_GETFD, process, descriptor, 0)
        assert copy >= 0, os.strerror(ctypes.get_errno())
        with closing(socket.socket(fileno=copy)) as server:
            yield server


def find(house: House, address: tuple[str, int]) -> tuple[int, int] | None:
    for web in house.children("web"):
        for connection in web.net_connections("tcp"):
            if connection.raddr == address and connection.status == psutil.CONN_ESTABLISHED:
                return web.pid, connection.fd
    return None


@contextmanager
def open_process(pid: int) -> Iterator[int]:
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def test_an_accepted_connection_has_tcp_nodelay(running_house: House) -> None:
    with closing(socket.create_connection(("127.0.0.1", running_house.port))) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        with accepted(running_house, client) as server:
            assert server.getpeername() == client.getsockname()
            assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
