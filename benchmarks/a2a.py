"""What tasks between agents cost, as ratios in one run: `python -m benchmarks.a2a [--growth] [--json] ...`

A task that is sent and done, by an agent's own worker and by a runtime that does nothing, against a plain Celery worker
on the same broker and against the official SDK's server with its database store; how long events take to all who follow
a task. With `--growth`: over few stored tasks and over many. All are asked in turn, on PostgreSQL and on SQLite.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.calls import database
from benchmarks.calls.database import Databases
from benchmarks.calls.processes import Load, load
from benchmarks.tasks import growth
from benchmarks.tasks.house import House, driver, house, peer, tree
from benchmarks.tasks.making import CALLER, PARKED
from benchmarks.tasks.table import Comparison, Heard
from benchmarks.tasks.ways import CELERY, IDLE, INBOX, ByCelery, Turn, Way, of_house, of_peer

PARTS = ("tasks", "events")
CONCURRENCY = (1, 8, 32)
#: Each cell is measured in so many turns; shown is the median of each number.
TURNS = 3
WARM = 0.5
#: How many tasks they follow, and seconds between events.
FOLLOWED, EVERY = (1, 100), 0.1
#: What is measured of events is that they come to another process too.
WEBS = 2


@dataclass(frozen=True)
class Options:
    databases: list[str]
    workers: int
    seconds: float
    followers: int
    only: list[str]
    growth: bool
    rows: int
    json: bool


def main() -> None:
    options = parsed()
    told = [on(kind, options) for kind in options.databases]
    if options.json:
        print(json.dumps([one.as_dict() for one in told], indent=1), flush=True)


def parsed() -> Options:
    known = argparse.ArgumentParser(description=__doc__)
    known.add_argument("--databases", choices=database.KINDS, nargs="+", default=database.KINDS)
    known.add_argument("--workers", type=int, default=1, help="web processes that tasks are sent to")
    known.add_argument("--seconds", type=float, default=5.0, help="for each way at each concurrency, twice")
    known.add_argument("--followers", type=int, default=100)
    known.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="one or more of these")
    known.add_argument("--growth", action="store_true", help="compare installations of different sizes instead")
    known.add_argument("--rows", type=int, default=1_000_000, help="stored tasks of the large one")
    known.add_argument("--json", action="store_true")
    return Options(**vars(known.parse_args()))


def on(kind: str, options: Options) -> Comparison | growth.Growth:
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gatehouse-bench-")))
        databases = stack.enter_context(database.server(kind, place))
        clients = stack.enter_context(load())
        tell(f"{kind} ...")
        if options.growth:
            said: Any = growth.compare(clients, databases, kind, options.rows, options.seconds)
        else:
            said = compare(clients, databases, kind, options)
    if not options.json:
        print(said.text(), end="\n\n", flush=True)
    return said  # type: ignore[no-any-return]  # JSON


def compare(clients: Load, databases: Databases, kind: str, options: Options) -> Comparison:
    turns: list[Turn] = []
    ended: dict[str, tuple[int, int]] = {}
    if "tasks" in options.only:
        with ways(clients, databases, options.workers) as known:
            turns, ended = measure(known, options.seconds)
    heard = hear(databases, options) if "events" in options.only else []
    return Comparison(kind, options.workers, turns, ended, heard)


@contextmanager
def ways(clients: Load, databases: Databases, workers: int) -> Iterator[list[Way]]:
    with ExitStack() as stack:
        far = stack.enter_context(peer(databases.new("sdk")))
        gate = stack.enter_context(house(databases.new("tasks"), workers))
        at_work = stack.enter_context(gate.at_work())
        celery = Load(stack.enter_context(driver(gate, "benchmarks.tasks.asker")))
        known: list[Way] = [
            ByCelery(CELERY, celery, []),
            of_peer(far, clients),
            of_house(INBOX, gate, clients, [*gate.web_pids(), at_work["inbox"]]),
            of_house(IDLE, gate, clients, []),
        ]
        for way in known:
            way.measure(connections=2, seconds=WARM, waits=True)
        # Workers have their pools by now.
        known[0].counts(tree(at_work["plain"]))
        known[-1].counts([*gate.web_pids(), *tree(at_work["idle"])])
        yield known


def measure(known: list[Way], seconds: float) -> tuple[list[Turn], dict[str, tuple[int, int]]]:
    cells: list[Turn] = []
    asked = {way.name: way.ended() for way in known}
    for connections in CONCURRENCY:
        tell(f"{connections} at once ...")
        turns = [[way.turn(connections, seconds / TURNS) for way in known] for _ in range(TURNS)]
        for cell in zip(*turns, strict=True):
            asked[cell[0].whole.target] += sum(turn.sent.calls + turn.whole.calls for turn in cell)
            cells.append(Turn.median(list(cell)))
    return cells, {way.name: (asked[way.name], way.ended()) for way in known}


def hear(databases: Databases, options: Options) -> list[Heard]:
    tell(f"{options.followers} followers ...")
    with house(databases.new("events"), WEBS) as gate, driver(gate, "benchmarks.tasks.following") as process:
        return [scene(gate, Load(process), tasks, options) for tasks in FOLLOWED]


def scene(gate: House, followers: Load, tasks: int, options: Options) -> Heard:
    said = followers.ask(
        {
            "ports": gate.ports, "agent": PARKED, "sends": gate.token(CALLER), "works": gate.token(PARKED),
            "tasks": min(tasks, options.followers), "followers": options.followers, "seconds": options.seconds,
            "every": EVERY,
        }
    )  # fmt: skip
    return Heard(tasks=min(tasks, options.followers), followers=options.followers, webs=WEBS, **said)


def tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
