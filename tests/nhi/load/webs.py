"""Several web processes over one database, as in production, and an admin who talks to them over HTTP."""

import atexit
import functools
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from config.launcher.listeners import listen
from config.launcher.plan import WEB
from tests.services import migrated
from tests.services.house import PLAIN, ROOT
from tests.services.postgresql import free_port

KEYS = {
    "SECRET_KEY": "a secret key for the web processes of a test",
    "TOKEN_PEPPER": "a token pepper for the web processes of a test",
    "FIELD_KEYS": f"t1:{'A' * 43}",
    "SIGNING_KEYS": f"t1:{'B' * 42}A",
}


@dataclass
class Webs:
    ports: list[int]
    environ: dict[str, str]
    token: str = ""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def manage(self, *arguments: str) -> Any:
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(command, cwd=ROOT, env=self.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if "--json" in arguments else None

    def start(self, log: Path) -> None:
        for port in self.ports:
            self.processes.append(start(port, self.environ, log))
        deadline = time.monotonic() + 60
        for port in self.ports:
            while not answers(port):
                assert time.monotonic() < deadline, log.read_text()[-2000:]
                time.sleep(0.05)

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=15)

    def ask(self, method: str, path: str, body: Any = None, *, web: int = 0, token: str = "") -> Any:
        """One request of the admin; anything but a 2xx is an error."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.ports[web], timeout=30)) as link:
            headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
            link.request(method, f"/api/nhi/{path}", None if body is None else json.dumps(body), headers)
            reply = link.getresponse()
            said = reply.read()
        assert reply.status < 300, (method, path, reply.status, said)
        return json.loads(said)


def start(port: int, environ: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """One web process as the launcher starts it: on a listening socket that is handed over."""
    with closing(listen("127.0.0.1", port, "")) as listener, log.open("ab") as output:
        descriptor = listener.fileno()
        return subprocess.Popen(
            [*WEB, str(descriptor)], cwd=ROOT, env=environ, stdout=output, stderr=output, pass_fds=[descriptor]
        )


def answers(port: int) -> bool:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    with suppress(OSError, http.client.HTTPException), closing(link):
        link.request("GET", "/healthz")
        return link.getresponse().status == 200
    return False


@dataclass(frozen=True)
class Origin:
    """What each of them begins with a copy of: a migrated database, with an admin in it."""

    data: Path
    #: Of the database, if a server has it.
    name: str
    #: The admin's.
    token: str


@functools.cache
def origin(broker: str) -> Origin:
    data, url = migrated.directory(), server_url()
    name = migrated.create_database(url) if url else ""
    if name:
        atexit.register(migrated.drop_database, url, name)
    webs = Webs([], environ_of(data, broker) | named(name))
    webs.manage("migrate", "--verbosity", "0")
    webs.manage("create_person", "mara", "--role", "security-admin", "--json")
    return Origin(data, name, webs.manage("issue_user_token", "mara", "--json")["token"])


def environ_of(data: Path, broker: str) -> dict[str, str]:
    plain = {name: os.environ[name] for name in PLAIN if name in os.environ}
    own = {"GATEHOUSE_DATA": str(data), "BROKER_URL": broker, "DJANGO_SETTINGS_MODULE": "config.settings"}
    return {**plain, **KEYS, **own}


def server_url() -> str:
    """Of the database server that this run is about, if it is about one."""
    url = os.environ.get("DATABASE_URL", "")
    return url if url.startswith("postgres") else ""


def named(name: str) -> dict[str, str]:
    """How the processes are told of a database of that server."""
    return {"DATABASE_URL": f"{server_url().rpartition('/')[0]}/{name}"} if name else {}


@contextmanager
def database(place: Path, broker: str) -> Iterator[dict[str, str]]:
    """A copy of the origin, as the processes are told of it: by its URL, or in the data directory of this place."""
    first = origin(broker)
    if not first.name:
        migrated.copy(first.data, place / "data")
        yield {}
        return
    name = migrated.create_database(server_url(), first.name)
    try:
        yield named(name)
    finally:
        migrated.drop_database(server_url(), name)


@contextmanager
def running(place: Path, broker: str, count: int = 4, **environ: str) -> Iterator[Webs]:
    (place / "data").mkdir(mode=0o700)
    with ExitStack() as stack:
        told = environ if "DATABASE_URL" in environ else stack.enter_context(database(place, broker))
        own = environ_of(place / "data", broker)
        webs = Webs([free_port() for _ in range(count)], {**own, **told, **environ}, origin(broker).token)
        try:
            webs.start(place / "log")
            yield webs
        finally:
            webs.stop()
