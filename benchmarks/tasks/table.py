"""What was measured of tasks, for people: a line a cell, and what the aims are held against."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.calls.table import Aim, at_least, at_most
from benchmarks.runs.table import ratio
from benchmarks.tasks.ways import CELERY, IDLE, INBOX, SDK, Turn

#: Where the aims against the others hold.
HELD_AT = (8, 32)
OF_SDK, OF_CELERY = 1.0, 0.5
#: Milliseconds from before an event is written until a follower has it, p95: with a bus, and without.
LATEST = {"postgresql": 100.0, "sqlite": 500.0}
HEAD = (
    *("sent/s", "p50 ms", "p95 ms", "x sdk", "x celery", "done/s"),
    *("whole/s", "p50 ms", "p95 ms", "p99 ms", "CPU ms", "x sdk", "x celery", "tasks", "errors"),
)


@dataclass(frozen=True)
class Heard:
    """Events of so many tasks, told to so many followers over so many web processes."""

    tasks: int
    followers: int
    webs: int
    #: Of an event's being written, as its agent sees it; and of its coming to a follower, from before that on.
    written_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    most_ms: float
    events: int
    #: Followers that missed an event, or had one twice or out of order.
    wrong: int


@dataclass(frozen=True)
class Comparison:
    database: str
    workers: int
    turns: list[Turn]
    #: Of each way, what should have been done, and what its store says was done.
    ended: dict[str, tuple[int, int]]
    heard: list[Heard]

    def turn(self, way: str, at: int) -> Turn:
        return next(one for one in self.turns if (one.whole.target, one.whole.connections) == (way, at))

    def of(self, turn: Turn, way: str, part: str) -> float:
        """How many times as many tasks a second as another way."""
        cell = getattr(turn, part)
        return ratio(cell.rate, getattr(self.turn(way, cell.connections), part).rate)

    def aims(self) -> list[Aim]:
        return [*self._of_turns(), *self._of_events()]

    def _of_turns(self) -> Iterator[Aim]:
        if not self.turns:
            return
        for at in HELD_AT:
            for way in (INBOX, IDLE):
                turn = self.turn(way, at)
                yield at_least(f"until done, of the SDK's, {way}, at {at}", self.of(turn, SDK, "whole"), OF_SDK)
                yield at_least(f"until done, of Celery's, {way}, at {at}", self.of(turn, CELERY, "whole"), OF_CELERY)
            yield at_least(f"sent, of the SDK's, at {at}", self.of(self.turn(INBOX, at), SDK, "sent"), OF_SDK)
        yield at_most("errors", sum(turn.sent.errors + turn.whole.errors for turn in self.turns), 0)
        for way, (asked, done) in self.ended.items():
            yield Aim(f"tasks of {way} that were done", done, "as many as sends,", asked, done == asked)

    def _of_events(self) -> Iterator[Aim]:
        for one in self.heard:
            name = f"ms until {one.followers} followers of {one.tasks} hear, p95"
            yield at_most(name, one.p95_ms, LATEST[self.database])
            yield at_most("followers that heard wrong", one.wrong, 0)

    def as_dict(self) -> dict[str, Any]:
        return {
            "database": self.database, "workers": self.workers, "turns": [asdict(turn) for turn in self.turns],
            "heard": [asdict(one) for one in self.heard], "aims": [vars(aim) for aim in self.aims()],
        }  # fmt: skip

    def text(self) -> str:
        return "\n".join(
            [f"{self.database}, web processes: {self.workers}", *self._lines(), "", *map(str, self.aims())]
        )

    def _lines(self) -> Iterator[str]:
        if self.turns:
            yield f"\n{'':<8}{'at':>4}" + "".join(f"{name:>10}" for name in HEAD)
            yield from map(self._line, self.turns)
        for one in self.heard:
            told = f"{one.events} events of {one.tasks} to {one.followers} followers over {one.webs} web processes"
            yield (
                f"\n{told}: written p50 {one.written_ms} ms; heard p50 {one.p50_ms}, p95 {one.p95_ms}, "
                f"p99 {one.p99_ms}, last {one.most_ms} ms"
            )

    def _line(self, turn: Turn) -> str:
        sent, whole = turn.sent, turn.whole
        numbers = (
            *(sent.rate, sent.p50_ms, sent.p95_ms, self.of(turn, SDK, "sent"), self.of(turn, CELERY, "sent")),
            *(turn.done, whole.rate, whole.p50_ms, whole.p95_ms, whole.p99_ms, whole.cpu_ms),
            *(self.of(turn, SDK, "whole"), self.of(turn, CELERY, "whole")),
            *(sent.calls + whole.calls, sent.errors + whole.errors),
        )
        said = "".join(f"{number:>10}" for number in numbers)
        return f"{whole.target:<8}{whole.connections:>4}{said}{sent.complaint}{whole.complaint}"
