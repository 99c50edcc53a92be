"""The example agents as plain processes, and a door of Gatehouse's that answers all of them alike."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.services.house import ROOT

AGENTS = ROOT / "examples" / "agents"


def run(name: str, *arguments: str, said: str | bytes = "", cwd: Path, **environment: str) -> tuple[int, str, str]:
    command = [sys.executable, "-I", str(AGENTS / name), *arguments]
    given = said.encode() if isinstance(said, str) else said
    done = subprocess.run(
        command, input=given, cwd=cwd, env=environment, capture_output=True, timeout=60, check=False
    )  # fmt: skip
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@contextmanager
def house(status: int, reply: Any) -> Iterator[tuple[str, list[Any]]]:
    """A door with one answer for everybody, and the calls that it took."""
    calls: list[Any] = []

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            calls.append((self.path, self.headers["Authorization"], json.loads(body) if body else None))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(reply if isinstance(reply, bytes) else json.dumps(reply).encode())

        do_GET = do_POST  # noqa: N815 -- http.server's name

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", calls
        finally:
            server.shutdown()
            thread.join()
