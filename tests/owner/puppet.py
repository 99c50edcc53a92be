"""A server over standard input that behaves as badly as its tools and options say; Python's own library only.

It is copied with a `#!` line before it, so that it is a program of its own.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

OPTIONS = set(sys.argv[1:])
VERSION = "2026-07-28"
lock = threading.Lock()
cancelled: list[object] = []


def option(name: str) -> str:
    return next((word.partition("=")[2] for word in OPTIONS if word.startswith(f"{name}=")), "")


def write(raw: bytes) -> None:
    with lock:
        sys.stdout.buffer.write(raw + b"\n")
        sys.stdout.buffer.flush()


def send(message: dict) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode())


def result(request: dict, **fields: object) -> None:
    send({"id": request["id"], "result": fields})


def said(request: dict, value: object) -> None:
    result(request, content=[{"type": "text", "text": json.dumps(value)}], structuredContent={"value": value})


def call(request: dict) -> None:
    params = request["params"]
    TOOLS[params["name"]](request, **params.get("arguments", {}))


def echo(request: dict, **arguments: object) -> None:
    said(request, {"arguments": arguments, "meta": request["params"].get("_meta", {})})


def pid(request: dict) -> None:
    said(request, os.getpid())


def environment(request: dict) -> None:
    files = sorted(int(path.name) for path in Path("/proc/self/fd").iterdir())
    status = Path("/proc/self/status").read_text()
    said(request, {"environ": dict(os.environ), "cwd": str(Path.cwd()), "files": files, "status": status})


def big(request: dict, size: int) -> None:
    result(request, content=[{"type": "text", "text": "x" * size}])


def sleep(request: dict, seconds: float) -> None:
    time.sleep(seconds)
    said(request, "slept")


def list_cancelled(request: dict) -> None:
    said(request, cancelled)


def progress(request: dict, steps: int) -> None:
    token = request["params"]["_meta"]["progressToken"]
    for step in range(1, steps + 1):
        send({"method": "notifications/progress", "params": {"progressToken": token, "progress": step}})
    said(request, "done")


def ask_back(request: dict) -> None:
    send({"id": "mine", "method": "sampling/createMessage", "params": {}})
    said(request, answers.get(timeout=5))


def noise(request: dict) -> None:
    for line in (b"Listening ...", b"{", b"\xff\xfe", b"[1,", b'{"jsonrpc": "1.0"}', b"7", b"", b"[" * 5000):
        write(line)
    send({"id": 999_999, "result": {}})
    send({"id": True, "result": {}})
    send({"id": None, "error": {"code": -32700, "message": "?"}})
    said(request, "still here")


def half_emoji(request: dict) -> None:
    send({"id": request["id"], "result": {"content": [{"type": "text", "text": "cut \ud83d"}]}})


def flood(request: dict, lines: int) -> None:
    sys.stderr.write("".join(f"line {number} of a flood\n" for number in range(lines)))
    sys.stderr.flush()
    said(request, "flooded")


def complain(request: dict, text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
    said(request, "complained")


def spawn(request: dict, *, escape: bool = False, bare: bool = False) -> None:
    """A child of its own that SIGTERM does not end, and that holds our standard output."""
    command = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"]
    child = subprocess.Popen(command, start_new_session=escape, env={} if bare else None)
    said(request, child.pid)


def leave(request: dict, code: int) -> None:
    os._exit(code)


def endless(request: dict) -> None:
    with lock:
        while True:
            sys.stdout.buffer.write(b"x" * 65536)


def hang(request: dict) -> None:
    lock.acquire()


def close_input(request: dict) -> None:
    os.close(0)


def close_output(request: dict) -> None:
    os.close(1)


def last_words(request: dict) -> None:
    said(request, "goodbye")
    os._exit(0)


def announce(request: dict, times: int) -> None:
    for _ in range(times):
        send({"method": "notifications/tools/list_changed"})
    said(request, "announced")


def fail(request: dict) -> None:
    send({"id": request["id"], "error": {"code": -32000, "message": "It broke.", "data": {"why": "so"}}})


NAMED = [echo, pid, environment, big, sleep, list_cancelled, progress, ask_back, noise, half_emoji, flood]
NAMED += [complain, spawn, leave, endless, hang, close_input, close_output, last_words, fail, announce]
TOOLS = {tool.__name__: tool for tool in NAMED}


class Answers:
    def __init__(self) -> None:
        self.event = threading.Event()
        self.message: object = None

    def put(self, message: object) -> None:
        self.message = message
        self.event.set()

    def get(self, timeout: float) -> object:
        self.event.wait(timeout)
        return self.message


answers = Answers()


def modern(request: dict) -> bool:
    return "io.modelcontextprotocol/protocolVersion" in request.get("params", {}).get("_meta", {})


def answer(request: dict) -> None:
    method = request["method"]
    if "legacy" in OPTIONS and modern(request):
        if "leaves" in OPTIONS:
            os._exit(3)
        if "deaf" not in OPTIONS:
            send({"id": request["id"], "error": {"code": -32601, "message": "What?"}})
    elif method == "server/discover":
        offer = {"supportedVersions": [VERSION], "capabilities": {"tools": {}}, "resultType": "complete"}
        time.sleep(float(option("slow") or 0))
        result(request, **offer)
    elif method == "initialize":
        if "legacy" in OPTIONS:
            info = {"name": "puppet", "version": "1"}
            result(request, protocolVersion="2025-06-18", capabilities={"tools": {}}, serverInfo=info)
        else:
            data = {"supported": [VERSION], "requested": "2025-11-25"}
            send({"id": request["id"], "error": {"code": -32022, "message": "No.", "data": data}})
    elif method == "ping":
        result(request)
    elif method == "tools/list":
        listed(request)
    elif method == "tools/call":
        call(request)


def listed(request: dict) -> None:
    if path := option("described"):
        kept = {"name": "kept", "description": Path(path).read_text(), "inputSchema": {"type": "object"}}
        result(request, tools=[kept], resultType="complete")
        return
    cursor = request["params"].get("cursor", "0")
    page = {"tools": [{"name": f"tool-{cursor}", "inputSchema": {"type": "object"}}]}
    result(request, **page, **({"nextCursor": str(int(cursor) + 1)} if int(cursor) < 2 else {}))


def announce_each(path: Path) -> None:
    """Say that the tools changed whenever the file did."""
    seen = path.stat().st_mtime_ns
    while True:
        time.sleep(0.05)
        if path.stat().st_mtime_ns != seen:
            seen = path.stat().st_mtime_ns
            send({"method": "notifications/tools/list_changed"})


def lines() -> Iterator[bytes]:
    try:
        yield from sys.stdin.buffer
    except OSError:
        time.sleep(600)  # it was closed by a tool


def main() -> None:
    if "crash" in OPTIONS:
        sys.stderr.write("Cannot open the configuration.\n")
        sys.exit(7)
    if "stubborn" in OPTIONS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if path := option("starts"):
        with Path(path).open("a") as file:
            file.write(f"{os.getpid()}\n")
    if path := option("described"):
        threading.Thread(target=announce_each, args=(Path(path),), daemon=True).start()
    for line in lines():
        message = json.loads(line)
        if "method" not in message:
            answers.put(message)
        elif message["method"] == "notifications/cancelled":
            cancelled.append(message["params"]["requestId"])
        elif "id" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()
    if "stubborn" in OPTIONS:
        time.sleep(600)


main()
