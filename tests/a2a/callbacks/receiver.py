"""A receiver of callbacks: real HTTP on loopback, answering as a test says, and a verifier that is not Gatehouse's."""

import base64
import hashlib
import hmac
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Hit:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def signatures(self) -> list[str]:
        return self.headers["webhook-signature"].split(" ")

    def is_signed_by(self, secret: str) -> bool:
        """By the standard's text, written down once more."""
        signed = b".".join([self.id.encode(), self.headers["webhook-timestamp"].encode(), self.body])
        mac = hmac.new(base64.b64decode(secret[len("whsec_") :]), signed, hashlib.sha256)
        return "v1," + base64.b64encode(mac.digest()).decode() in self.signatures


@dataclass
class Receiver:
    """Answers with its statuses in turn; when they have run out, with the last one again."""

    port: int = 0
    statuses: list[int] = field(default_factory=lambda: [204])
    answer_headers: dict[str, str] = field(default_factory=dict)
    #: What it says beside its status; it may promise more than it sends.
    answer: bytes = b""
    promised: int | None = None
    hits: list[Hit] = field(default_factory=list)
    #: Answers wait for this.
    free: threading.Event = field(default_factory=threading.Event)
    #: Who promised more says nothing until then.
    over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/done") -> str:
        return f"http://{self.place}{path}"

    def take(self, hit: Hit) -> int:
        with self._lock:
            self.hits.append(hit)
            return self.statuses[min(len(self.hits), len(self.statuses)) - 1]


class Server(ThreadingHTTPServer):
    receiver: Receiver

    def handle_error(self, request: object, client_address: object) -> None:
        """Who waited for too long is gone when the answer comes."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        receiver = self.server.receiver
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status = receiver.take(Hit(self.path, headers, body))
        receiver.free.wait(20)
        self.send_response(status)
        for name, value in receiver.answer_headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(receiver.promised or len(receiver.answer)))
        self.end_headers()
        self.wfile.write(receiver.answer)
        if receiver.promised is not None:
            receiver.over.wait(20)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def serving() -> Iterator[Receiver]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.receiver = receiver = Receiver(server.server_port)
        receiver.free.set()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield receiver
        finally:
            receiver.free.set()
            receiver.over.set()
            server.shutdown()
            thread.join()
