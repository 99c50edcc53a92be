"""Several web processes over one database, as in production, and an admin who talks to them over HTTP."""

import http.client
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from config.launcher.plan import UVICORN
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
            with log.open("ab") as output:
                command = [*UVICORN, "--host", "127.0.0.1", "--port", str(port)]
                self.processes.append(
                    subprocess.Popen(command, cwd=ROOT, env=self.environ, stdout=output, stderr=output)
                )
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


def answers(port: int) -> bool:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    with suppress(OSError, http.client.HTTPException), closing(link):
        link.request("GET", "/healthz")
        return link.getresponse().status == 200
    return False


@contextmanager
def database() -> Iterator[dict[str, str]]:
    """An empty database of the kind that this run is about, as the processes are told of it."""
    url = os.environ.get("DATABASE_URL", "")
    if not url.startswith("postgres"):
        yield {}
        return
    name = f"webs_{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    try:
        yield {"DATABASE_URL": f"{url.rpartition('/')[0]}/{name}"}
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def running(place: Path, broker: str, count: int = 4, **environ: str) -> Iterator[Webs]:
    with database() as told:
        plain = {name: os.environ[name] for name in PLAIN if name in os.environ}
        own = {"GATEHOUSE_DATA": str(place / "data"), "BROKER_URL": broker, "DJANGO_SETTINGS_MODULE": "config.settings"}
        webs = Webs([free_port() for _ in range(count)], {**plain, **KEYS, **own, **told, **environ})
        (place / "data").mkdir(mode=0o700)
        webs.manage("migrate", "--verbosity", "0")
        webs.manage("create_person", "mara", "--role", "security-admin", "--json")
        webs.token = webs.manage("issue_user_token", "mara", "--json")["token"]
        try:
            webs.start(place / "log")
            yield webs
        finally:
            webs.stop()
