"""What was measured of runs, for people: a line a cell, and what the aims are held against."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from benchmarks.calls.table import Aim, at_most
from benchmarks.runs.driver import BY_HAND, CELERY, SUPERVISOR
from benchmarks.runs.programs import AT_ONCE, INSTANT, PATIENT, SHORT

#: Asked for, began, ended, seen.
Moments = Sequence[float]
HEAD = (
    *("at once", "runs", "start p50", "p95", "p99", "seen p50", "p95", "p99", "whole p50", "turn", "runs/s"),
    *("x subpr.", "x celery"),
)


@dataclass(frozen=True)
class Spread:
    """Of many durations, in milliseconds."""

    p50: float
    p95: float
    p99: float
    most: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Spread":
        ms = [1000 * one for one in seconds]
        cuts = statistics.quantiles(ms, n=100, method="inclusive") if len(ms) > 1 else ms * 99
        return cls(*(round(one, 1) for one in (cuts[49], cuts[94], cuts[98], max(ms))))


@dataclass(frozen=True)
class Cell:
    """What one way did with one agent, so many at once, in turns."""

    way: str
    agent: str
    at_once: int
    turns: list[list[Moments]]

    @property
    def runs(self) -> list[Moments]:
        return [run for turn in self.turns for run in turn]

    @cached_property
    def start(self) -> Spread:
        """From asking to the program's first word."""
        return Spread.of([began - asked for asked, began, _, _ in self.runs])

    @cached_property
    def seen(self) -> Spread:
        """From its last word to where it can be seen from outside."""
        return Spread.of([seen - ended for _, _, ended, seen in self.runs])

    @cached_property
    def whole(self) -> Spread:
        """From asking to where it can be seen, of each."""
        return Spread.of([seen - asked for asked, _, _, seen in self.runs])

    @property
    def turn(self) -> float:
        """Milliseconds from the first asked for to the last seen of a turn: the median."""
        return round(1000 * statistics.median(_wall(turn) for turn in self.turns), 1)

    @property
    def rate(self) -> float:
        return round(len(self.runs) / sum(_wall(turn) for turn in self.turns), 1)

    def as_dict(self) -> dict[str, Any]:
        spreads = {name: asdict(getattr(self, name)) for name in ("start", "seen", "whole")}
        named = {"way": self.way, "agent": self.agent, "at_once": self.at_once}
        return {**named, "runs": len(self.runs), "rate": self.rate, "turn": self.turn, **spreads}


@dataclass(frozen=True)
class Held:
    """What a runner takes with nothing to do, and while so many agents wait."""

    count: int
    idle_mb: float
    held_mb: float

    @property
    def more(self) -> float:
        return round(self.held_mb - self.idle_mb, 1)


@dataclass(frozen=True)
class Lateness:
    """Seconds after the due time: asked for, and begun by its program."""

    asked: list[float]
    began: list[float]


@dataclass(frozen=True)
class Comparison:
    database: str
    cells: list[Cell]
    held: Held | None
    lateness: Lateness | None

    def cell(self, way: str, agent: str, at_once: int = 1) -> Cell:
        return next(cell for cell in self.cells if (cell.way, cell.agent, cell.at_once) == (way, agent, at_once))

    def aims(self) -> list[Aim]:
        aims = [*self.of_runs()] if self.cells else []
        if self.held:
            aims.append(at_most(f"MB for {self.held.count} waiting agents", self.held.more, 150))
        if self.lateness:
            aims.append(at_most("s late, p99", round(Spread.of(self.lateness.asked).p99 / 1000, 2), 2))
        return aims

    def of_runs(self) -> Iterator[Aim]:
        alone = self.cell(SUPERVISOR, INSTANT)
        yield at_most("s from submit to start, p95", round(alone.start.p95 / 1000, 3), 0.5)
        yield at_most("s from exit to seen, p99", round(alone.seen.p99 / 1000, 3), 1)
        one, ten = self.cell(SUPERVISOR, PATIENT), self.cell(SUPERVISOR, PATIENT, AT_ONCE)
        yield at_most("ten that mostly wait, of one", ratio(ten.whole.p50, one.whole.p50), 1.2)
        for agent in (PATIENT, SHORT):
            for at_once in (1, AT_ONCE):
                took = self.times(self.cell(SUPERVISOR, agent, at_once), CELERY)
                yield at_most(f"of plain Celery, {agent}, {at_once} at once", took, 1.3)

    def times(self, cell: Cell, way: str) -> float:
        """How many times as long as another way."""
        return ratio(cell.turn, self.cell(way, cell.agent, cell.at_once).turn)

    def as_dict(self) -> dict[str, Any]:
        return {
            "database": self.database, "cells": [cell.as_dict() for cell in self.cells],
            "held": asdict(self.held) if self.held else None,
            "late": {name: asdict(Spread.of(getattr(self.lateness, name))) for name in ("asked", "began")}
            if self.lateness else None,
            "aims": [vars(aim) for aim in self.aims()],
        }  # fmt: skip

    def text(self) -> str:
        return "\n".join([self.database, *self.lines(), "", *map(str, self.aims())])

    def lines(self) -> Iterator[str]:
        if self.cells:
            yield f"\n{'milliseconds':<20}" + "".join(f"{name:>10}" for name in HEAD)
            yield from map(self.line, self.cells)
        if self.held:
            yield f"\nrunner: {self.held.idle_mb} MB idle, {self.held.held_mb} MB with {self.held.count} waiting agents"
        if self.lateness:
            for name in ("asked", "began"):
                late = Spread.of(getattr(self.lateness, name))
                yield f"late, {name:<6} p50 {late.p50:>8} ms   p99 {late.p99:>8} ms   most {late.most:>8} ms"

    def line(self, cell: Cell) -> str:
        spreads = [number for spread in (cell.start, cell.seen) for number in (spread.p50, spread.p95, spread.p99)]
        numbers = (cell.at_once, len(cell.runs), *spreads, cell.whole.p50, cell.turn, cell.rate)
        against = (self.times(cell, way) for way in (BY_HAND, CELERY))
        return f"{cell.agent:<8} {cell.way:<11}" + "".join(f"{number:>10}" for number in (*numbers, *against))


def ratio(value: float, base: float) -> float:
    return round(value / max(base, 0.001), 2)


def _wall(turn: Sequence[Moments]) -> float:
    return max(seen for _, _, _, seen in turn) - min(asked for asked, _, _, _ in turn)
