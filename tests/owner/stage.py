"""A real owner in a process of its own, with what it may start in a file instead of the database."""

import asyncio
import functools
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil

from common.ids import uuid7
from common.process import file_lock
from mcp.client.stdio_transport import StdioTransport
from mcp.client.types import ServerTarget
from tests.services.house import PLAIN, ROOT
from tests.services.waiting import wait_for

PUPPET = Path(__file__).with_name("puppet.py")
#: What must never reach a server.
CANARIES = {
    "SECRET_KEY": "canary-secret-key-that-is-long-enough-to-be-one",
    "TOKEN_PEPPER": "canary-token-pepper-that-is-long-enough-too",
    "REDIS_URL": "redis://canary.invalid/0",
    "SOME_OTHER": "canary-of-no-name",
}


@dataclass
class Owner:
    data: Path
    transport: StdioTransport = field(init=False)
    process: subprocess.Popen[str] = field(init=False)
    launches: dict[str, dict[str, Any]] = field(default_factory=dict)
    idle: float = 600
    #: Addresses of the loopback that it may reach.
    egress: str = ""

    def __post_init__(self) -> None:
        self.data.mkdir(mode=0o700)
        self.transport = StdioTransport(lambda: self.data / "stdio.sock")
        self.puppet = self.data / "puppet"
        self.puppet.write_text(f"#!{sys.executable}\n{PUPPET.read_text()}")
        self.puppet.chmod(0o700)
        self.write()

    @property
    def environ(self) -> dict[str, str]:
        plain = {name: os.environ[name] for name in PLAIN if name in os.environ}
        listed = {"EXECUTABLE_ALLOWLIST": str(self.data / "executables"), "STAGE_IDLE": str(self.idle)}
        return {
            **plain,
            **CANARIES,
            **listed,
            "GATEHOUSE_DATA": str(self.data),
            "EGRESS_ALLOW": self.egress,
            "DJANGO_SETTINGS_MODULE": "config.settings",
        }

    def write(self) -> None:
        listed = self.data / "executables"
        programs = {os.path.realpath(launch["argv"][0]) for launch in self.launches.values()}
        listed.write_text("\n".join({*programs, os.path.realpath(self.puppet)} - {os.path.realpath("/bin/sh")}))
        listed.chmod(0o600)
        beside = self.data / "launches.new"
        beside.write_text(json.dumps(self.launches))
        beside.replace(self.data / "launches.json")

    def add(self, *options: str, **env: str) -> ServerTarget:
        return self.add_program(str(self.puppet), *options, **env)

    def add_program(self, *argv: str, **env: str) -> ServerTarget:
        target = ServerTarget(uuid7(), "puppet", 1, "stdio")
        self.launches[str(target.server_id)] = {"argv": argv, "env": env, "revision": 1, "enabled": True}
        self.write()
        return target

    def change(self, target: ServerTarget, **facts: Any) -> None:
        self.launches[str(target.server_id)].update(facts)
        self.write()

    def watch(self, *targets: ServerTarget) -> None:
        """The servers over HTTP that there are from now on."""
        beside = self.data / "watched.new"
        beside.write_text(json.dumps([{**asdict(one), "server_id": str(one.server_id)} for one in targets]))
        beside.replace(self.data / "watched.json")

    def refreshes(self, target: ServerTarget) -> int:
        """How often it has asked for a refresh of this server."""
        path = self.data / "refreshes"
        return path.read_text().split().count(str(target.server_id)) if path.exists() else 0

    def start(self) -> None:
        log = (self.data / "owner.log").open("a")
        with log:
            command = [sys.executable, "-m", "tests.owner.stage", str(self.data)]
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.environ, stdout=log, stderr=log, text=True, stdin=subprocess.DEVNULL
            )
        wait_for(self.answers, 15, "the owner's socket")

    def answers(self) -> bool:
        assert self.process.poll() is None, (self.data / "owner.log").read_text()
        with socket.socket(socket.AF_UNIX) as link:
            return link.connect_ex(str(self.data / "stdio.sock")) == 0

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(10)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def call(self, target: ServerTarget, name: str, timeout: float = 10, **arguments: Any) -> Any:
        result = await self.transport.call_tool(target, name, arguments, timeout=timeout)
        return result.get("structuredContent", {}).get("value")

    def descendants(self) -> list[psutil.Process]:
        """Whatever runs in a directory of this owner's servers."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.status() != psutil.STATUS_ZOMBIE and process.cwd().startswith(str(self.data / "stdio")):
                    found.append(process)
            except psutil.Error:
                continue
        return found


def scene(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """An async test about the owner in its first argument."""

    @functools.wraps(test)
    def play(house: Owner, **given: Any) -> None:
        async def whole() -> None:
            try:
                await test(house, **given)
            finally:
                await house.transport.close()

        asyncio.run(whole())

    return play


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@contextmanager
def owner(place: Path, *, idle: float = 600, egress: str = "") -> Iterator[Owner]:
    """A started owner; whatever happens, nothing of it outlives the block."""
    one = Owner(place / "data", idle=idle, egress=egress)
    try:
        one.start()
        yield one
    finally:
        one.process.kill()
        one.process.wait()
        for left in one.descendants():
            left.kill()


def main(data: Path) -> None:
    import django

    django.setup()
    from mcp.servers.targets import LaunchConfig
    from mcp.stdio_host import handshake, hosted_servers, session, tool_list_listener
    from mcp.stdio_host import main as run
    from mcp.stdio_host.main import HostBackend

    def read(server_id: UUID) -> LaunchConfig | None:
        kept = json.loads((data / "launches.json").read_text()).get(str(server_id))
        return LaunchConfig(tuple(kept["argv"]), kept["env"], kept["revision"], kept["enabled"]) if kept else None

    hosted_servers.SWEEP_SECONDS, session.FRESH_SECONDS = 0.2, 1.0
    (
        tool_list_listener.REVISION_CHECK_SECONDS,
        tool_list_listener.MAX_RETRY_SECONDS,
        tool_list_listener.FIRST_DEBOUNCE_SECONDS,
    ) = (
        0.2,
        1.0,
        0.3,
    )
    handshake.PROBE_SECONDS, hosted_servers.IDLE_SECONDS = 1.0, float(os.environ["STAGE_IDLE"])

    def revisions() -> dict[UUID, int]:
        return {target.server_id: target.revision for target in watched()}

    def watched() -> list[ServerTarget]:
        return [
            ServerTarget(**{**kept, "server_id": UUID(kept["server_id"])}) for kept in read_json(data / "watched.json")
        ]

    def refresh(server_id: UUID) -> None:
        with (data / "refreshes").open("a") as file:
            file.write(f"{server_id}\n")

    house = HostBackend(read, revisions, lambda one: next(t for t in watched() if t.server_id == one), refresh)
    with file_lock.hold_file_lock(data / run.LOCK_NAME):
        asyncio.run(run.run_host(data=data, socket=data / "stdio.sock", backend=house))


def read_json(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else []


if __name__ == "__main__":
    main(Path(sys.argv[1]))
