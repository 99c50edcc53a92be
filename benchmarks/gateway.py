"""What a governed call costs, as ratios in one run: `python -m benchmarks.gateway [--json] ...`

Direct to a fast server, through a forwarder that commits one row a call, through the gateway without budgets, and with
budgets of all four scopes. They are asked in turn, so that whatever else the machine does slows all of them alike.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.calls import database, table
from benchmarks.calls.processes import Cell, Load, Target, load, mcp_call, web

CONCURRENCY = (1, 8, 32)
WARM = 0.3


@dataclass(frozen=True)
class Options:
    workers: int
    database: str
    seconds: float
    json: bool


def main() -> None:
    options = parsed()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gatehouse-bench-")))
        stand = stack.enter_context(database.server(options.database, place))
        upstream = stack.enter_context(direct(place))
        targets = [upstream, stack.enter_context(forwarder(upstream, stand, options.workers, place))]
        clients = stack.enter_context(load())
        cells = measure(clients, targets, options.seconds)
        table.check_rows(stand.forwarded(), "forwarder", cells)
    show(options, cells)


def parsed() -> Options:
    known = argparse.ArgumentParser(description=__doc__)
    known.add_argument("--workers", type=int, default=1, help="processes of the forwarder and of the gateway")
    known.add_argument("--database", choices=database.KINDS, default="postgresql")
    known.add_argument("--seconds", type=float, default=4.0, help="for each target at each concurrency")
    known.add_argument("--json", action="store_true")
    return Options(**vars(known.parse_args()))


@contextmanager
def direct(place: Path) -> Iterator[Target]:
    with web("benchmarks.calls.upstream:application", 1, {}, place / "upstream.log") as (ports, pids):
        yield Target("direct", ports, pids, mcp_call("/mcp", "echo"))


@contextmanager
def forwarder(upstream: Target, stand: database.Stand, workers: int, place: Path) -> Iterator[Target]:
    environ = {"FORWARD_TO": f"http://127.0.0.1:{upstream.ports[0]}/mcp", **stand.for_forwarder()}
    with web("benchmarks.calls.forwarder:application", workers, environ, place / "forwarder.log") as (ports, pids):
        yield Target("forwarder", ports, pids, mcp_call("/mcp", "echo"))


def measure(clients: Load, targets: list[Target], seconds: float) -> list[Cell]:
    cells = []
    for connections in CONCURRENCY:
        for target in targets:
            print(f"{target.name} at {connections} ...", file=sys.stderr, flush=True)
            cells.append(clients.measure(target, connections=connections, seconds=seconds, warm=WARM))
    return cells


def show(options: Options, cells: list[Cell]) -> None:
    if options.json:
        print(json.dumps({"cells": [cell.as_dict() for cell in cells]}, indent=1))
    else:
        table.show(cells)


if __name__ == "__main__":
    main()
