"""What a governed call costs, as ratios in one run: `python -m benchmarks.gateway [--growth] [--json] ...`

Direct to a fast server, through a forwarder that commits one row a call, through the gateway without budgets, and with
budgets of all four scopes. With `--growth`: the gateway over small and large installations. They are asked in turn, so
that whatever else the machine does slows all of them alike.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.calls import database, growth, table
from benchmarks.calls.database import Databases
from benchmarks.calls.house import LIMITS, House, house
from benchmarks.calls.processes import Cell, Load, Target, load, mcp_call, web

CONCURRENCY = (1, 8, 32)
#: Each cell is measured in so many turns; shown is the median of each number.
TURNS = 3
#: Longer than an identity counts as one who sends (`common/asgi/fair_protocol.py`): each turn is of one caller alone.
WARM = 0.6
LOG = "nhi_invocation_log"


@dataclass(frozen=True)
class Options:
    workers: int
    database: str
    edge: str
    seconds: float
    growth: bool
    tools: int
    grants: int
    rows: int
    json: bool


def main() -> None:
    options = parsed()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gatehouse-bench-")))
        databases = stack.enter_context(database.server(options.database, place))
        upstream = stack.enter_context(direct(place))
        clients = stack.enter_context(load())
        if options.growth:
            sizes = growth.Sizes(options.tools, options.grants, options.rows)
            said = growth.compare(clients, databases, upstream, sizes, options.edge, options.seconds)
        else:
            said = compare(clients, databases, upstream, options)
    print(json.dumps(said.as_dict(), indent=1) if options.json else said.text(), flush=True)


def parsed() -> Options:
    known = argparse.ArgumentParser(description=__doc__)
    known.add_argument("--workers", type=int, default=1, help="processes of the forwarder and of the gateway")
    known.add_argument("--database", choices=database.KINDS, default="postgresql")
    known.add_argument("--edge", choices=["rest", "mcp"], default="mcp", help="by which door the gateway is called")
    known.add_argument("--seconds", type=float, default=4.0, help="for each target at each concurrency")
    known.add_argument("--growth", action="store_true", help="compare installations of different sizes instead")
    known.add_argument("--tools", type=int, default=10_000)
    known.add_argument("--grants", type=int, default=100_000)
    known.add_argument("--rows", type=int, default=1_000_000)
    known.add_argument("--json", action="store_true")
    return Options(**vars(known.parse_args()))


def compare(clients: Load, databases: Databases, upstream: Target, options: Options) -> table.Comparison:
    with ExitStack() as stack:
        forwarded = databases.new("forwarder")
        bare = stack.enter_context(forwarder(upstream, forwarded, options.workers))
        gate = stack.enter_context(house(databases.new("gateway"), upstream, options.workers))
        before = gate.database.count(LOG)
        cells = measure(clients, [upstream, bare, *governed(gate, upstream, options.edge)], options.seconds)
        rows = {
            table.FORWARDER: forwarded.count("forwarded"),
            "gateway": gate.database.count(LOG) - before,
        }
    return table.Comparison(options.database, options.workers, options.edge, cells, rows)


@contextmanager
def direct(place: Path) -> Iterator[Target]:
    with web("benchmarks.calls.upstream:application", 1, {}, place / "upstream.log") as (ports, pids):
        yield Target(table.DIRECT, ports, pids, mcp_call("/mcp", "echo"))


@contextmanager
def forwarder(upstream: Target, own: database.Database, workers: int) -> Iterator[Target]:
    environ = {
        "FORWARD_TO": f"http://127.0.0.1:{upstream.ports[0]}/mcp",
        "FORWARD_LOG": str(own.place / "forwarded.sqlite3"),
        **own.environ,
    }
    with web("benchmarks.calls.forwarder:application", workers, environ, own.place / "log") as (ports, pids):
        yield Target(table.FORWARDER, ports, pids, mcp_call("/mcp", "echo"))


def governed(gate: House, upstream: Target, edge: str) -> list[Target]:
    url = f"http://127.0.0.1:{upstream.ports[0]}/mcp"
    free, counted = gate.grant("free", url), gate.grant("counted", url, **LIMITS)
    return [gate.target(table.FREE, free, edge), gate.target(table.COUNTED, counted, edge)]


def measure(clients: Load, targets: list[Target], seconds: float) -> list[Cell]:
    cells = []
    for connections in CONCURRENCY:
        print(f"{connections} at once ...", file=sys.stderr, flush=True)
        turns = [
            [clients.measure(target, connections=connections, seconds=seconds / TURNS, warm=WARM) for target in targets]
            for _ in range(TURNS)
        ]
        cells += [Cell.median(list(cell)) for cell in zip(*turns, strict=True)]
    return cells


if __name__ == "__main__":
    main()
