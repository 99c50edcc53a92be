"""The processes of a measurement: what runs agents, called as the launcher calls it, and a plain Celery beside it."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.calls.database import Database
from benchmarks.calls.processes import ended, plain
from benchmarks.runs.programs import AT_ONCE, Programs
from common.process import parent_death
from config.launcher.plan import CELERY, CONTROL, RUNS
from tests.nhi.load.webs import KEYS
from tests.services import valkey
from tests.services.house import ROOT

PLAIN = (
    *(sys.executable, "-m", "celery", "--quiet", "-A", "benchmarks.runs.plain", "worker", "--pool", "prefork"),
    *("--concurrency", str(AT_ONCE), "--without-mingle", "--without-gossip", "--without-heartbeat", "-n", "plain@%h"),
)
#: A machine that is busy with other work refuses no run that is measured; all else is as it comes.
NO_STRAIN = {"RUN_MAX_LOAD": "100000", "RUN_MAX_MEMORY_PERCENT": "100", "RUN_MIN_DISK_MB": "0"}
NURSERY = str(ROOT / "supervisor" / "nursery" / "program.py")


class Driver:
    """The process that asks for runs."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def do(self, job: str, **told: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([job, told]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"The process that asks for runs ended with {self._process.wait()}.")
        return json.loads(line)


class House:
    def __init__(self, environ: dict[str, str], programs: Programs, data: Path) -> None:
        self.environ, self.programs, self.data = environ, programs, data
        self.worker = 0

    def migrate(self) -> None:
        subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], cwd=ROOT, env=self.environ, check=True)

    @contextmanager
    def running(self) -> Iterator[Driver]:
        """The worker of the queue `runs`, the plain one, and who asks both."""
        with ExitStack() as stack:
            self.worker = stack.enter_context(self.process("runs", RUNS))
            stack.enter_context(self.process("plain", PLAIN))
            driver = stack.enter_context(self.driver())
            driver.do("make")
            yield driver

    @contextmanager
    def clockwork(self, lead: float) -> Iterator[Driver]:
        """What fires schedules, and who sets them up, by a clock that strikes a full minute in so many seconds."""
        shift = {"SCHEDULE_CLOCK_SHIFT": str(round(60 - (time.time() + lead) % 60))}
        with ExitStack() as stack:
            stack.enter_context(self.process("control", CONTROL, **shift))
            stack.enter_context(self.process("beat", (*CELERY, "beat", "-s", str(self.data / "beat")), **shift))
            yield stack.enter_context(self.driver(**shift))

    @contextmanager
    def process(self, name: str, argv: Sequence[str], **environ: str) -> Iterator[int]:
        with (self.data / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                parent_death.build_command([*argv]), cwd=ROOT, env={**self.environ, **environ}, stdout=log, stderr=log
            )
        with ended(process):
            yield process.pid

    @contextmanager
    def driver(self, **environ: str) -> Iterator[Driver]:
        argv = parent_death.build_command([sys.executable, "-m", "benchmarks.runs.driver", str(self.programs.place)])
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen(argv, cwd=ROOT, env={**self.environ, **environ}, **pipes)
        with ended(process):
            yield Driver(process)

    def megabytes(self) -> float:
        """What the runner itself takes: its worker, the nursery and the keepers, pages that they share once."""
        worker = psutil.Process(self.worker)
        nursery = [process for process in worker.children(recursive=True) if NURSERY in process.cmdline()]
        return round(sum(process.memory_full_info().pss for process in (worker, *nursery)) / 2**20, 1)


@contextmanager
def house(database: Database, programs: Programs) -> Iterator[House]:
    data = database.place / "data"
    data.mkdir(mode=0o700)
    own = {
        "GATEHOUSE_DATA": str(data), "BROKER_URL": f"redis+socket://{data / 'valkey.sock'}",
        "DJANGO_SETTINGS_MODULE": "config.settings", "CELERY_SKIP_CHECKS": "1",
        "EXECUTABLE_ALLOWLIST": str(programs.allowed),
        # The directories of runs go where the scripts are, and with them.
        "TMPDIR": str(programs.place),
    }  # fmt: skip
    with valkey.server(data / "valkey.sock"):
        yield House({**plain(), **KEYS, **own, **NO_STRAIN, **database.environ}, programs, data)
