"""The same calls over a small installation, and over ones with many tools, many grants, or a long log."""

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.calls.database import Databases
from benchmarks.calls.filling import Filler
from benchmarks.calls.house import Granted, House, house
from benchmarks.calls.processes import Cell, Load, Target

CONNECTIONS = 8
TURNS, WARM = 5, 0.3
#: How much slower than the small one counts as flat.
FLAT = 1.2


@dataclass(frozen=True)
class Sizes:
    tools: int
    grants: int
    rows: int


SMALL = Sizes(tools=10, grants=100, rows=1_000)


@dataclass(frozen=True)
class Growth:
    cells: dict[str, Cell]
    sizes: dict[str, Sizes]

    def as_dict(self) -> dict[str, Any]:
        return {
            name: {**vars(self.sizes[name]), **cell.as_dict(), "against_small": self.against_small(name)}
            for name, cell in self.cells.items()
        }

    def against_small(self, name: str) -> float:
        """CPU and p50 both would do; p50 is what a caller sees."""
        return round(self.cells[name].p50_ms / self.cells["small"].p50_ms, 2)

    def text(self) -> str:
        lines = [
            f"{'':<12}{'tools':>8}{'grants':>9}{'log rows':>10}{'calls/s':>9}{'p50 ms':>8}{'CPU ms':>8}{'p50 x':>7}"
        ]
        for name, cell in self.cells.items():
            size, ratio = self.sizes[name], self.against_small(name)
            lines.append(
                f"{name:<12}{size.tools:>8}{size.grants:>9}{size.rows:>10}{cell.rate:>9}{cell.p50_ms:>8}"
                f"{cell.cpu_ms:>8}{ratio:>7} {'' if ratio <= FLAT else 'not flat'}{cell.complaint}"
            )
        return "\n".join(lines)


def compare(clients: Load, databases: Databases, upstream: Target, large: Sizes, edge: str, seconds: float) -> Growth:
    sizes = {
        "small": SMALL,
        "tools": Sizes(large.tools, SMALL.grants, SMALL.rows),
        "grants": Sizes(SMALL.tools, large.grants, SMALL.rows),
        "rows": Sizes(SMALL.tools, SMALL.grants, large.rows),
    }
    with ExitStack() as stack:
        targets = {}
        for name, size in sizes.items():
            gate = stack.enter_context(house(databases.new(name), upstream))
            targets[name] = grown(clients, gate, upstream, size, name, edge)
        turns = defaultdict(list)
        for _ in range(TURNS):
            for name, target in targets.items():
                cell = clients.measure(target, connections=CONNECTIONS, seconds=seconds / TURNS, warm=WARM)
                turns[name].append(cell)
    return Growth({name: Cell.median(cells) for name, cells in turns.items()}, sizes)


def grown(clients: Load, gate: House, upstream: Target, size: Sizes, name: str, edge: str) -> Target:
    granted = gate.grant("bench", f"http://127.0.0.1:{upstream.ports[0]}/mcp")
    target = gate.target(name, granted, edge)
    # The first call writes the row of which the long log is made.
    clients.measure(target, connections=1, seconds=0.1, warm=0.0)
    fill(gate, granted, size)
    return target


def fill(gate: House, granted: Granted, size: Sizes) -> None:
    filler = Filler(gate.database)
    try:
        filler.tools(granted.tool, size.tools)
        filler.grants(granted.agent, granted.grant, size.grants)
        filler.rows(size.rows)
    finally:
        filler.close()
