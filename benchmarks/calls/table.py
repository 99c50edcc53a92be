"""What was measured, for people: a line a cell, and what the ratios are held against."""

from dataclasses import dataclass
from typing import Any

from benchmarks.calls.processes import Cell

DIRECT, FORWARDER, FREE, COUNTED = "direct", "forwarder", "gateway", "gateway, four budgets"
#: Of the forwarder's rate, for one web process on PostgreSQL, by concurrency.
OF_FORWARDER = {1: 0.2, 8: 0.2, 32: 0.4}
#: Of the gateway's own rate without budgets.
OF_FREE = 0.75
#: At 32 calls at once.
CPU_MS, P99_MS = 0.45, 40.0
HEAD = ("calls/s", "p50 ms", "p95 ms", "p99 ms", "CPU ms", "RSS MB", "calls", "errors")


@dataclass(frozen=True)
class Aim:
    name: str
    value: float
    how: str
    wanted: float
    met: bool

    def __str__(self) -> str:
        return f"{'met' if self.met else 'MISSED':<8}{self.name}: {self.value}, wanted {self.how} {self.wanted}"


@dataclass(frozen=True)
class Comparison:
    database: str
    workers: int
    edge: str
    cells: list[Cell]
    #: Rows in each log after the run.
    rows: dict[str, int]

    def cell(self, target: str, connections: int) -> Cell:
        return next(cell for cell in self.cells if (cell.target, cell.connections) == (target, connections))

    def calls(self, *targets: str) -> int:
        return sum(cell.calls for cell in self.cells if cell.target in targets)

    def rate_of(self, cell: Cell, base: str) -> float:
        return round(cell.rate / max(self.cell(base, cell.connections).rate, 0.001), 2)

    def aims(self) -> list[Aim]:
        """What must hold of every run; how fast, only where an aim was set: one web process on PostgreSQL."""
        made = self.speed() if (self.database, self.workers) == ("postgresql", 1) else []
        return [*made, at_most("errors", sum(cell.errors for cell in self.cells), 0), *self.complete()]

    def speed(self) -> list[Aim]:
        made = [
            at_least(f"of the forwarder at {at}", self.rate_of(self.cell(FREE, at), FORWARDER), wanted)
            for at, wanted in OF_FORWARDER.items()
        ]
        made += [
            at_least(f"with budgets, of without, at {at}", self.rate_of(self.cell(COUNTED, at), FREE), OF_FREE)
            for at in OF_FORWARDER
        ]
        most = self.cell(FREE, max(OF_FORWARDER))
        return [
            *made,
            at_most("CPU ms a call at 32", most.cpu_ms, CPU_MS),
            at_most("p99 ms at 32", most.p99_ms, P99_MS),
        ]

    def complete(self) -> list[Aim]:
        """Each call has its row, and each row its call."""
        calls = {FORWARDER: self.calls(FORWARDER), "gateway": self.calls(FREE, COUNTED)}
        return [
            Aim(f"rows in the log of the {name}", rows, "as many as calls,", calls[name], rows == calls[name])
            for name, rows in self.rows.items()
        ]

    def as_dict(self) -> dict[str, Any]:
        return {
            "database": self.database, "workers": self.workers, "edge": self.edge, "rows": self.rows,
            "cells": [cell.as_dict() for cell in self.cells], "aims": [vars(aim) for aim in self.aims()],
        }  # fmt: skip

    def text(self) -> str:
        lines = [f"{self.database}, web processes: {self.workers}, edge: {self.edge}", ""]
        lines.append(f"{'':<24}{'at':>4}" + "".join(f"{name:>9}" for name in HEAD) + f"{'x forwarder':>13}")
        lines += [self.line(cell) for cell in self.cells]
        lines += ["", *(str(aim) for aim in self.aims())]
        return "\n".join(lines)

    def line(self, cell: Cell) -> str:
        shown = (cell.rate, cell.p50_ms, cell.p95_ms, cell.p99_ms, cell.cpu_ms, cell.rss_mb, cell.calls, cell.errors)
        numbers = "".join(f"{value:>9}" for value in shown)
        return f"{cell.target:<24}{cell.connections:>4}{numbers}{self.rate_of(cell, FORWARDER):>13}{cell.complaint}"


def at_least(name: str, value: float, wanted: float) -> Aim:
    return Aim(name, value, "at least", wanted, value >= wanted)


def at_most(name: str, value: float, wanted: float) -> Aim:
    return Aim(name, value, "at most", wanted, value <= wanted)
