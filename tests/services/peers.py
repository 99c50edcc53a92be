"""Servers and clients that the official MCP SDKs make, as processes of their own. `make peers` brings the SDKs.

with sdk_server("http", place=tmp_path) as peer: ...
said = sdk_client(peer.url, "--list", "--call", "echo", '{"text": "hello"}')
"""

import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.process import parent_death
from tests.services.house import ROOT

PEERS = ROOT / "tests" / "peers"
#: Which SDK speaks, by what it is called here, and over which transport.
NEW, OLD = ROOT / ".venv-peers", ROOT / ".venv-peers-1"
KINDS = {
    "stdio": (NEW, "stdio"), "http": (NEW, "http"), "sse": (NEW, "sse"),
    "stdio-1": (OLD, "stdio"), "http-1": (OLD, "http"), "sse-1": (OLD, "sse"),
}  # fmt: skip
DEADLINE = 30.0


@dataclass
class PeerServer:
    """One server: `command` and `args` to start it over stdio, or the `url` where it runs already.

    The command is a file of its own by its real name, so that a list of what may be started can name it.
    """

    kind: str
    transport: str
    command: str
    args: list[str]
    place: Path
    url: str = ""
    env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None

    @property
    def target(self) -> str:
        """As `sdk_client` takes it."""
        return self.url or json.dumps([self.command, *self.args])

    def notes(self) -> list[dict[str, Any]]:
        """What its tools noted: `{"event": "begun" | "cancelled" | "ended" | "crashed", "pid": N}`."""
        return _lines(self.place / "notes")

    def requests(self) -> list[dict[str, Any]]:
        """The head of every HTTP request that it got: method, path, headers as pairs."""
        return _lines(self.place / "requests")

    def wait_for_note(self, event: str, count: int = 1) -> None:
        deadline = time.monotonic() + DEADLINE
        while sum(note["event"] == event for note in self.notes()) < count:
            assert time.monotonic() < deadline, f"{self.kind} noted no {event}: {self.notes()}"
            time.sleep(0.02)

    def change(self, **definitions: dict[str, Any] | None) -> None:
        """From the next listing on: fields of tools' definitions as on the wire; None withdraws a tool."""
        fresh = self.place / "control.new"
        fresh.write_text(json.dumps(definitions))
        fresh.replace(self.place / "control")


def _lines(path: Path) -> list[dict[str, Any]]:
    # A line that is being written has no end yet.
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def python(home: Path) -> str:
    found = home / "bin" / "python"
    assert found.exists(), f"There is no {home.name}: run make peers."
    return str(found)


def program(home: Path, place: Path) -> str:
    """A script that runs the server with that Python: its own link would be followed away from the SDK."""
    servers = PEERS / "servers"
    script = place.resolve() / "peer"
    run = f"runpy.run_path({str(servers / 'peer.py')!r}, run_name='__main__')"
    script.write_text(f"#!{python(home)}\nimport runpy, sys\nsys.path[0] = {str(servers)!r}\n{run}\n")
    script.chmod(0o755)
    return str(script)


@contextmanager
def sdk_server(kind: str, place: Path, *options: str, port: int = 0) -> Iterator[PeerServer]:
    """A server of one of KINDS, with its files in `place`; `options` are those of tests/peers/servers/peer.py."""
    home, transport = KINDS[kind]
    place.mkdir(exist_ok=True)
    files = ["--notes", str(place / "notes"), "--control", str(place / "control")]
    peer = PeerServer(kind, transport, program(home, place), [transport, *files, *options], place)
    if transport == "stdio":
        yield peer
        return
    peer.args += ["--requests", str(place / "requests"), "--port", str(port)]
    with started([peer.command, *peer.args], place / "log") as process:
        peer.process = process
        peer.url = url_of(process, place / "log")
        yield peer


@contextmanager
def everything_server(place: Path) -> Iterator[str]:
    """The URL of the server that the official conformance suite is written against."""
    place.mkdir(exist_ok=True)
    with started([python(NEW), str(PEERS / "servers" / "everything.py")], place / "log") as process:
        yield url_of(process, place / "log")


@dataclass
class PeerAgent:
    """An agent that the official A2A SDK serves, and what it noted."""

    place: Path
    url: str
    #: Where it speaks gRPC.
    rpc: str

    def notes(self, event: str) -> list[dict[str, Any]]:
        return [note for note in _lines(self.place / "notes") if note["event"] == event]

    def requests(self) -> list[dict[str, Any]]:
        return _lines(self.place / "requests")

    def wait_for_note(self, event: str, count: int = 1) -> None:
        deadline = time.monotonic() + DEADLINE
        while len(self.notes(event)) < count:
            assert time.monotonic() < deadline, f"The agent noted no {event}."
            time.sleep(0.02)

    def go(self) -> None:
        """Let those that wait end."""
        (self.place / "go").touch()


@contextmanager
def sdk_agent(place: Path, *options: str, port: int = 0) -> Iterator[PeerAgent]:
    """With its files in `place`; `options` are those of tests/peers/servers/agent.py."""
    place.mkdir(exist_ok=True)
    files = ["--notes", str(place / "notes"), "--requests", str(place / "requests")]
    command = [python(NEW), str(PEERS / "servers" / "agent.py"), "--database", str(place / "tasks.sqlite3"), *files]
    rpc = _free_port()
    command += ["--port", str(port or _free_port()), "--rpc-port", str(rpc)]
    with started([*command, *options], place / "log") as process:
        yield PeerAgent(place, url_of(process, place / "log"), f"127.0.0.1:{rpc}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def started(command: list[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that dies with this one, whose stdout can be read here."""
    plain = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    with log.open("ab") as errors:
        process = subprocess.Popen(
            parent_death.build_command(command), cwd=log.parent, env=plain, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=5)
        assert process.stdout is not None
        process.stdout.close()


def url_of(process: subprocess.Popen[str], log: Path) -> str:
    """Where it listens, from the line that it prints when it is ready."""
    assert process.stdout is not None
    heard, _, _ = select.select([process.stdout], [], [], DEADLINE)
    line = process.stdout.readline() if heard else ""
    assert line, f"The server did not start:\n{log.read_text()[-2000:]}"
    ready = json.loads(line)
    return f"http://127.0.0.1:{ready['port']}{ready['path']}"


def said_by(*command: str, said: str, within: float = 60.0) -> str:
    """What a program of the SDK's own Python prints when it is told this."""
    done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=within, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sdk_client(target: str, *arguments: str, old: bool = False, within: float = 60.0) -> dict[str, Any]:
    """What tests/peers/clients/call.py (or call_old.py) printed; `error` in it when it got no connection."""
    script = PEERS / "clients" / ("call_old.py" if old else "call.py")
    command = [python(OLD if old else NEW), str(script), target, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=within, check=False)
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))
