"""What a decision costs as an installation grows: `make bench`, on PostgreSQL and on SQLite.

Each size is a database and a process of its own. They are asked in turn, one round each, so that whatever else the
machine does slows all of them alike, and the ratios stand.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.town import KEYS, QUESTIONS
from tests.services import postgresql
from tests.services.house import PLAIN, ROOT

SIZES = ((200, 1_000), (2_000, 10_000), (10_000, 100_000))
ROUNDS, WARM = 300, 30


class Town:
    """A process with an installation of one size, which answers each line with the costs of one round."""

    def __init__(self, size: tuple[int, int], environ: dict[str, str]) -> None:
        self.size, self.costs = size, defaultdict[str, list[float]](list)
        command = [sys.executable, "-m", "benchmarks.town", *map(str, size)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def hear(self) -> list[str]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"The process for {self.size} ended.")
        return line.split()

    def round(self, *, counts: bool) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        for name, cost in zip(QUESTIONS, self.hear(), strict=True):
            if counts:
                self.costs[name].append(float(cost))

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=20)


def main() -> None:
    with postgresql.server() as server:
        compare("PostgreSQL", lambda size: {"DATABASE_URL": server.create_database(f"size_{size}")})
    compare("SQLite", lambda _size: {})


def compare(database: str, told: Callable[[int], dict[str, str]]) -> None:
    with ExitStack() as stack:
        towns = [open_town(stack, size, told(size[0])) for size in SIZES]
        for turn in range(WARM + ROUNDS):
            for town in towns:
                town.round(counts=turn >= WARM)
    show(database, towns)


def open_town(stack: ExitStack, size: tuple[int, int], told: dict[str, str]) -> Town:
    place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gatehouse-bench-")))
    plain = {name: os.environ[name] for name in PLAIN if name in os.environ}
    own = {"GATEHOUSE_DATA": str(place), "DJANGO_SETTINGS_MODULE": "config.settings"}
    town = Town(size, {**plain, **KEYS, **own, **told})
    stack.callback(town.stop)
    town.hear()
    return town


def show(database: str, towns: list[Town]) -> None:
    """One row a size: p50 and p95 in milliseconds, and p50 as a multiple of the smallest size's."""
    print(f"\n{database}, milliseconds per decision over {ROUNDS} rounds: p50, p95, p50 against the smallest size\n")
    print(f"{'identities':>10} {'grants':>8}" + "".join(f"{name:>24}" for name in QUESTIONS))
    for town in towns:
        cells = []
        for name in QUESTIONS:
            half, first = statistics.median(town.costs[name]), statistics.median(towns[0].costs[name])
            most = statistics.quantiles(town.costs[name], n=20)[-1]
            cells.append(f"{half:10.2f}{most:7.2f}{half / first:6.2f}x")
        print(f"{town.size[0]:>10} {town.size[1]:>8}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
