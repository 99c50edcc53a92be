"""The way to a database that a test can cut, or let hang, and mend again."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Wire:
    """Passes bytes on between a port of its own and another, while it is whole."""

    target: int
    port: int = 0
    _listening: socket.socket | None = None
    _open: list[socket.socket] = field(default_factory=list)
    _flows: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def mend(self) -> None:
        self._flows.set()
        if self._listening is None:
            listening = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
            self.port = listening.getsockname()[1]
            self._listening = listening
            threading.Thread(target=self._accept, args=(listening,), daemon=True).start()

    def cut(self) -> None:
        """As a server that is gone: what is open is closed, and nobody listens."""
        listening, self._listening = self._listening, None
        if listening is not None:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
        with self._lock:
            ends, self._open = self._open, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def hang(self) -> None:
        """As a server that was stopped by a signal: connections stay, and nothing comes."""
        self._flows.clear()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                near, _ = listening.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            with self._lock:
                self._open += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while said := one.recv(65536):
                self._flows.wait()
                other.sendall(said)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def to(port: int) -> Iterator[Wire]:
    made = Wire(port)
    made.mend()
    try:
        yield made
    finally:
        made._flows.set()
        made.cut()
