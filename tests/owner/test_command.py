"""The command as `up` starts it: servers from the database, the example without any list of programs."""

import asyncio
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from mcp.client.stdio_transport import StdioTransport
from mcp.client.types import ServerTarget
from mcp.protocol.upstream_errors import UpstreamFault
from tests.owner.stage import gone
from tests.services import migrated
from tests.services.house import House
from tests.services.postgresql import free_port
from tests.services.waiting import wait_for

pytestmark = pytest.mark.capability("MCP-03", "MCP-15")

ADD = """
import sys
from mcp.models import Server
from nhi.models import User
owner = User.objects.create_user("olga")
todo = ["examples/todo_server.py", "--store", "todos.json"]
todo[0] = str(__import__("django").conf.settings.BASE_DIR / todo[0])
one = Server.objects.create(name="todo", transport="stdio", command=sys.executable, args=todo, owner=owner)
print(one.pk)
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[House, UUID]:
    """A migrated data directory with the to-do server in it, and nothing running."""
    data = Path(tmp_path_factory.mktemp("command")) / "data"
    house = House(data=data, port=free_port(), environ={"PATH": "/usr/bin:/bin", "GATEHOUSE_DATA": str(data)})
    migrated.copy_to(data)
    done = house.manage("shell", "-v", "0", "-c", ADD)
    assert done.returncode == 0, done.stderr
    return house, UUID(done.stdout.strip())


@contextmanager
def started(house: House) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "manage.py", "mcp_stdio_owner"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], env=house.environ) as process:
        try:
            wait_for(lambda: process.poll() is not None or listens(house), 20, "the owner's socket")
            yield process
        finally:
            process.kill()


def listens(house: House) -> bool:
    with socket.socket(socket.AF_UNIX) as link:
        return link.connect_ex(str(house.data / "stdio.sock")) == 0


def test_the_bundled_server_runs_and_a_second_owner_does_not(prepared: tuple[House, UUID]) -> None:
    house, server_id = prepared
    target = ServerTarget(server_id, "todo", 1, "stdio")

    async def story() -> int:
        transport = StdioTransport(lambda: house.data / "stdio.sock")
        try:
            handshake = await transport.handshake(target, timeout=10)
            assert (handshake.server_info["name"], handshake.era) == ("todo", "modern")
            assert len(await transport.list_tools(target, timeout=5)) == 5
            made = await transport.call_tool(target, "create_todo", {"title": "Buy milk"}, timeout=5)
            assert made["structuredContent"]["title"] == "Buy milk"
            assert (house.data / "stdio" / str(server_id) / "todos.json").exists()
            with pytest.raises(UpstreamFault, match="has changed"):
                await transport.list_tools(replace(target, revision=2), timeout=5)
            return int((await transport.status(server_id))["pid"])
        finally:
            await transport.close()

    with started(house) as owner:
        wait_for(lambda: house.heard_of("stdio-owner", owner.pid), 10, "a heartbeat")
        pid = asyncio.run(story())
        second = house.manage("mcp_stdio_owner")
        assert (second.returncode, "already runs" in second.stdout) == (0, True)
        disable(house)
        wait_for(lambda: gone(pid), 10, "the disabled server's end")
        owner.send_signal(signal.SIGTERM)
        assert owner.wait(10) == 0
    assert not house.heard_of("stdio-owner", owner.pid)


def disable(house: House) -> None:
    with closing(sqlite3.connect(house.data / "gatehouse.sqlite3", timeout=20)) as database, database:
        database.execute("UPDATE mcp_server SET enabled = 0")
