"""The processes of a measurement: the product's own over a database of their own, a plain Celery worker beside them on
the same broker, and the official SDK's server."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.calls.database import Database
from benchmarks.calls.processes import ended, plain, wait_for
from benchmarks.tasks import making
from benchmarks.tasks.making import INBOX, NOWHERE
from common.process import parent_death
from config.launcher.plan import CELERY
from tests.nhi.load.webs import KEYS, Webs
from tests.services import peers, valkey
from tests.services.house import ROOT
from tests.services.postgresql import free_port

CELERY_OF = (sys.executable, "-m", "celery", "--quiet", "-A")
#: As many processes as the product's own worker of the queue `control` has.
POOL = ("--pool", "prefork", "--concurrency", "2", "--without-mingle", "--without-gossip", "--without-heartbeat")
OPEN = "SELECT count(*) FROM a2a_task WHERE agent_name = '{name}' AND completed_at IS NULL"
DONE = "SELECT count(*) FROM a2a_task WHERE agent_name = '{name}' AND state = 'completed'"


def worker(module: str, queue: str) -> tuple[str, ...]:
    return (*CELERY_OF, module, "worker", *POOL, "-Q", queue, "-n", f"{queue}@%h")


@dataclass
class House:
    database: Database
    webs: Webs
    data: Path
    #: Ids and tokens by name, as `making` made them.
    made: dict[str, dict[str, str]]

    @property
    def ports(self) -> list[int]:
        return self.webs.ports

    def token(self, name: str) -> str:
        return self.made[name]["token"]

    def web_pids(self) -> list[int]:
        return [process.pid for process in self.webs.processes]

    def ask(self, query: str) -> int:
        return ask(self.database, query)

    def run(self, module: str) -> str:
        """What a program of ours with this house's settings says."""
        return ran(self.webs, module)

    @property
    def bare(self) -> dict[str, str]:
        """For who knows the broker and nothing of the product."""
        return {**plain(), "BROKER_URL": self.webs.environ["BROKER_URL"]}

    @contextmanager
    def process(self, name: str, argv: Sequence[str], environ: Mapping[str, str] | None = None) -> Iterator[int]:
        own = self.webs.environ if environ is None else environ
        with (self.data / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(parent_death.build_command([*argv]), cwd=ROOT, env=own, stdout=log, stderr=log)
        with ended(process):
            yield process.pid

    @contextmanager
    def at_work(self) -> Iterator[dict[str, int]]:
        """What does tasks: the inbox agent's worker, the queue's with the clock, and the plain one; their ids."""
        clerk = (sys.executable, "-m", "benchmarks.tasks.worker", *map(str, self.ports))
        shown = {**plain(), "GATEHOUSE_TOKEN": self.token(INBOX)}
        with ExitStack() as stack:
            stack.enter_context(self.process("beat", (*CELERY, "beat", "-s", str(self.data / "beat"))))
            yield {
                "inbox": stack.enter_context(self.process("inbox", clerk, shown)),
                "idle": stack.enter_context(self.process("idle", worker("benchmarks.tasks.idle", "control"))),
                "plain": stack.enter_context(
                    self.process("plain", worker("benchmarks.tasks.plain", "plain"), self.bare)
                ),
            }


def ask(database: Database, query: str) -> int:
    with closing(database.connect()) as connection:
        return int(connection.execute(query).fetchone()[0])


def tree(*pids: int) -> list[int]:
    """These, and what they have started."""
    found = [psutil.Process(pid) for pid in pids]
    return [one.pid for process in found for one in (process, *process.children(recursive=True))]


@contextmanager
def house(database: Database, workers: int = 1) -> Iterator[House]:
    """So many web processes over the database, with agents to send tasks to."""
    data = database.place / "data"
    data.mkdir(mode=0o700)
    with valkey.server(data / "valkey.sock"):
        own = {
            "GATEHOUSE_DATA": str(data), "BROKER_URL": f"redis+socket://{data / 'valkey.sock'}",
            "DJANGO_SETTINGS_MODULE": "config.settings", "EGRESS_ALLOW": NOWHERE, "CELERY_SKIP_CHECKS": "1",
        }  # fmt: skip
        webs = Webs([free_port() for _ in range(workers)], {**plain(), **KEYS, **own, **database.environ})
        webs.manage("migrate", "--verbosity", "0")
        webs.manage("create_person", "mara", "--role", "security-admin", "--json")
        try:
            webs.start(database.place / "log")
            yield House(database, webs, data, _made(webs))
        finally:
            webs.stop()


def _made(webs: Webs) -> dict[str, dict[str, str]]:
    return dict(json.loads(ran(webs, making.__name__).splitlines()[-1]))


def ran(webs: Webs, module: str) -> str:
    command = [sys.executable, "-m", module]
    return subprocess.run(command, cwd=ROOT, env=webs.environ, stdout=subprocess.PIPE, text=True, check=True).stdout


@dataclass(frozen=True)
class Peer:
    """The official SDK's server."""

    database: Database
    port: int
    pid: int


@contextmanager
def peer(database: Database) -> Iterator[Peer]:
    port, log = free_port(), database.place / "log"
    program = str(ROOT / "benchmarks" / "tasks" / "peer.py")
    command = [peers.python(peers.NEW), program, "--database", _url(database), "--port", str(port)]
    with peers.started(command, log) as process:
        wait_for(port, log)
        yield Peer(database, port, process.pid)


def _url(database: Database) -> str:
    """As SQLAlchemy is told of it."""
    if database.is_postgresql:
        return database.url.replace("postgresql://", "postgresql+asyncpg://", 1)
    return f"sqlite+aiosqlite:///{database.place / 'tasks.sqlite3'}"


@contextmanager
def driver(gate: House, module: str) -> Iterator["subprocess.Popen[str]"]:
    """A process that answers each line of its input with one."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    argv = parent_death.build_command([sys.executable, "-m", module])
    process = subprocess.Popen(argv, cwd=ROOT, env=gate.bare, **pipes)
    with ended(process):
        yield process
