"""What running agents costs, as ratios in one run: `python -m benchmarks.supervisor [--runs N] [--json] ...`

The same scripts by plain `subprocess`, by a plain Celery worker and by the supervisor, asked in turn, one at a time and
ten at once; the memory of a runner whose agents all wait; how late schedules are that are due in the same minute.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.calls import database
from benchmarks.runs import programs
from benchmarks.runs.driver import WAYS
from benchmarks.runs.house import Driver, House, house
from benchmarks.runs.programs import AT_ONCE, INSTANT, PATIENT, SHORT
from benchmarks.runs.table import Cell, Comparison, Held, Lateness

PARTS = ("runs", "memory", "schedules")
#: Agents that hold a runner's memory, and schedules of one minute.
WAITING, DUE = 32, 200
#: Seconds that starting what fires schedules and setting them up may take.
LEAD = 40.0


@dataclass(frozen=True)
class Options:
    database: str
    runs: int
    only: list[str]
    json: bool


def main() -> None:
    options = parsed()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gatehouse-bench-")))
        databases = stack.enter_context(database.server(options.database, place))
        scripts = stack.enter_context(programs.written())
        gate = stack.enter_context(house(databases.new("supervisor"), scripts))
        said = compare(gate, options)
    print(json.dumps(said.as_dict(), indent=1) if options.json else said.text(), flush=True)


def parsed() -> Options:
    known = argparse.ArgumentParser(description=__doc__)
    known.add_argument("--database", choices=database.KINDS, default="postgresql")
    known.add_argument("--runs", type=int, default=100, help="of each agent, one at a time; and as many ten at once")
    known.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="one or more of these")
    known.add_argument("--json", action="store_true")
    return Options(**vars(known.parse_args()))


def compare(gate: House, options: Options) -> Comparison:
    gate.migrate()
    with gate.running() as driver:
        warm(driver)
        held = hold(gate, driver, WAITING) if "memory" in options.only else None
        cells = measure(driver, options.runs) if "runs" in options.only else []
        late = fire(gate, DUE, LEAD) if "schedules" in options.only else None
    return Comparison(options.database, cells, held, late)


def warm(driver: Driver) -> None:
    """Whoever has just started is slow once."""
    for way in WAYS:
        driver.do("run", way=way, name=INSTANT, count=AT_ONCE)


def measure(driver: Driver, runs: int) -> list[Cell]:
    tens, few = max(runs // AT_ONCE, 2), max(runs // 20, 2)
    loads = ((INSTANT, 1, runs), (INSTANT, AT_ONCE, tens), (SHORT, 1, runs), (SHORT, AT_ONCE, tens))
    waits = ((PATIENT, 1, few), (PATIENT, AT_ONCE, few))
    return [cell for agent, at_once, turns in (*loads, *waits) for cell in in_turn(driver, agent, at_once, turns)]


def in_turn(driver: Driver, agent: str, at_once: int, turns: int) -> Iterable[Cell]:
    tell(f"{agent}, {at_once} at once ...")
    cells = [Cell(way, agent, at_once, []) for way in WAYS]
    for _ in range(turns):
        for cell in cells:
            cell.turns.append(driver.do("run", way=cell.way, name=agent, count=at_once))
    return cells


def hold(gate: House, driver: Driver, count: int) -> Held:
    tell(f"{count} that wait ...")
    idle = gate.megabytes()
    asked = driver.do("begin", count=count)
    held = gate.megabytes()
    driver.do("end", asked=asked)
    return Held(count, idle, held)


def fire(gate: House, count: int, lead: float) -> Lateness:
    tell(f"{count} schedules of one minute ...")
    with gate.clockwork(lead) as driver:
        return Lateness(*driver.do("fire", count=count))


def tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
