"""The server from its start to its end: it listens, serves until it is told to stop, and says so to those who wait."""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from a2a.grpc_door.door import Door
from a2a.grpc_door.health import Health

LARGEST = 10 * 1024 * 1024
#: At a time, streams among them; one more is told that there are too many.
MOST_CALLS = 1000
#: Seconds for what answers once, and then for telling what does not that it is over.
GRACE, LAST_WORDS = 2.0, 1.0
OPTIONS = (
    # One server has the port: a second one is told so, and gets no share of the calls.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", -1),
    # A client that vanished without a word is noticed, and a stream that is silent for long is not cut by a proxy.
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
)


class CannotListen(Exception):
    """The port cannot be had."""


@dataclass(frozen=True)
class Certificate:
    chain: Path
    key: Path

    def credentials(self) -> grpc.ServerCredentials:
        return grpc.ssl_server_credentials([(self.key.read_bytes(), self.chain.read_bytes())])


class Serving:
    def __init__(self, door: Door, *, address: str, port: int, certificate: Certificate | None = None) -> None:
        self._door = door
        self._is_serving = True
        self.server = grpc.aio.server(
            handlers=(door, Health(lambda: self._is_serving)), options=OPTIONS, maximum_concurrent_rpcs=MOST_CALLS
        )
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        try:
            if certificate is None:
                self.port = self.server.add_insecure_port(place)
            else:
                self.port = self.server.add_secure_port(place, certificate.credentials())
        except RuntimeError as error:
            raise CannotListen(
                f"{place} cannot be had: somebody listens there. Choose another with GRPC_PORT."
            ) from error

    async def run(self, ready: Callable[[int], None] = lambda _port: None) -> None:
        """Serve until SIGTERM or SIGINT."""
        told = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, told.set)
        await self.server.start()
        ready(self.port)
        await told.wait()
        await self.stop()

    async def stop(self) -> None:
        """Take no more calls; end streams at once, and others a little later, each with a word of why."""
        self._is_serving = False
        stopped = asyncio.ensure_future(self.server.stop(GRACE + LAST_WORDS))
        self._door.leave()
        await asyncio.wait([stopped], timeout=GRACE)
        self._door.leave(calls=True)
        await stopped
