"""A model's endpoint of this test process: the chat completions API over real HTTP, with answers that a test wants."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
#: Writes an answer to a request by itself.
Script = Callable[["Handler", Json], None]


@dataclass
class Model:
    """Answers with its scripts in turn; when they have run out, the last one again."""

    scripts: list[Script] = field(default_factory=list)
    requests: list[Json] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    port: int = 0
    #: Held answers go on once this is set.
    free: threading.Event = field(default_factory=threading.Event)
    #: Somebody waits for an answer that is held, and how many of those went away.
    waits: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def says(self, *scripts: Script) -> None:
        self.scripts = list(scripts)

    def told(self, request: int = -1) -> list[str]:
        """What tools came to, as the model was told."""
        return [said["content"] for said in self.requests[request]["messages"] if said["role"] == "tool"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def do_POST(self) -> None:
        model = self.model
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = len(model.requests)
        model.requests.append(asked)
        model.headers.append(dict(self.headers))
        model.paths.append(self.path)
        self.close_connection = True
        with suppress(BrokenPipeError, ConnectionResetError):
            model.scripts[min(number, len(model.scripts) - 1)](self, asked)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
        """Silent."""

    def begin(self, status: int, kind: str, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def write(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()


@contextmanager
def serving() -> Iterator[Model]:
    model = Model()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"model": model}))
    model.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield model
    finally:
        model.free.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


# ── What it may say ───────────────────────────────────────────────────────────────────────────────────────────────
def call(name: str, arguments: Any, number: str = "call_a") -> Json:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": number, "type": "function", "function": {"name": name, "arguments": text}}


def whole(text: str = "", *calls: Json) -> Script:
    """An answer that is not streamed."""

    def answer(handler: Handler, _asked: Json) -> None:
        message = {"role": "assistant", "content": text or None, **({"tool_calls": list(calls)} if calls else {})}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
        handler.begin(200, "application/json")
        handler.write(json.dumps({"id": "x", "choices": [choice], "usage": usage}).encode())

    return answer


def streamed(text: str = "", *calls: Json, cuts: int = 7, finish: str = "") -> Script:
    """The same as a stream whose chunks end anywhere: in a word, in a character, in the middle of an event."""

    def answer(handler: Handler, _asked: Json) -> None:
        handler.begin(200, "text/event-stream")
        data = b"".join(events(text, calls, finish))
        for begin in range(0, len(data), cuts):
            handler.write(data[begin : begin + cuts])

    return answer


def events(text: str, calls: Sequence[Json], finish: str = "") -> Iterator[bytes]:
    yield b": a comment\n\n" + event(delta({"role": "assistant", "content": ""}))
    for begin in range(0, len(text), 5):
        yield event(delta({"content": text[begin : begin + 5]}))
    for fragment in fragments(calls):
        yield event(delta({"tool_calls": [fragment]}))
    yield event(delta({}, finish or ("tool_calls" if calls else "stop")))
    yield event({"id": "x", "choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 20}})
    yield b"data: [DONE]\n\n"


def fragments(calls: Sequence[Json]) -> Iterator[Json]:
    """The calls side by side: first what they are, then their arguments in turn, a few letters at a time."""
    for index, one in enumerate(calls):
        yield {**one, "index": index, "function": {"name": one["function"]["name"], "arguments": ""}}
    longest = max((len(one["function"]["arguments"]) for one in calls), default=0)
    for begin in range(0, longest, 3):
        for index, one in enumerate(calls):
            yield {"index": index, "function": {"arguments": one["function"]["arguments"][begin : begin + 3]}}


def delta(said: Json, finish: str | None = None) -> Json:
    return {"id": "x", "choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def event(said: Json) -> bytes:
    return b"data: " + json.dumps(said, ensure_ascii=False).encode() + b"\n\n"


def raw(data: bytes, kind: str = "text/event-stream") -> Script:
    def answer(handler: Handler, _asked: Json) -> None:
        handler.begin(200, kind)
        handler.write(data)

    return answer


def error(status: int, message: str = "out of order", **headers: str) -> Script:
    def answer(handler: Handler, _asked: Json) -> None:
        handler.begin(status, "application/json", **headers)
        handler.write(json.dumps({"error": {"message": message, "type": "test"}}).encode())

    return answer


def held(text: str = "") -> Script:
    """Says the beginning of an answer and no more, until it is let go or left."""

    def answer(handler: Handler, _asked: Json) -> None:
        handler.begin(200, "text/event-stream")
        handler.write(event(delta({"content": text})))
        handler.model.waits.set()
        try:
            while not handler.model.free.wait(0.02):
                handler.write(b": still here\n\n")
        except OSError:
            handler.model.left.set()

    return answer
