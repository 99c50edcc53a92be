"""Whoever asks the plain Celery worker: a process that answers each line of its input with one, as the HTTP clients do.

    {"connections": N, "seconds": seconds, "waits": true}

So many tasks are under way at a time, and each answer is looked at; one who does not wait sends one after the other,
which is as fast as one process sends, and has all answers before it says how that went.
"""

import json
import statistics
import sys
import time
from typing import Any

from benchmarks.tasks.plain import answer, app
from benchmarks.tasks.words import ASKED, done

LOOK_EVERY = 0.0005
PATIENCE = 60.0


class Asker:
    def __init__(self) -> None:
        self.took: list[float] = []
        self.errors: list[str] = []
        self.calls = 0
        #: By id: when it was sent, and what.
        self.open: dict[str, tuple[float, str]] = {}

    def wait(self, connections: int, ends: float) -> None:
        while time.perf_counter() < ends or self.open:
            while time.perf_counter() < ends and len(self.open) < connections:
                self.send()
            self.took += self.look()

    def flood(self, ends: float) -> None:
        while time.perf_counter() < ends:
            self.took.append(self.send())

    def drain(self) -> None:
        until = time.perf_counter() + PATIENCE
        while self.open:
            if time.perf_counter() > until:
                raise SystemExit(f"{len(self.open)} tasks of plain Celery did not end.")
            self.look()

    def send(self) -> float:
        began, asked = time.perf_counter(), f"{ASKED}{self.calls:012}"
        self.calls += 1
        self.open[answer.delay(asked).id] = began, asked
        return time.perf_counter() - began

    def look(self) -> list[float]:
        """How long each took that has ended by now."""
        known = list(self.open)[:500]
        values = app.backend.mget([app.backend.get_key_for_task(one) for one in known])
        found = [(one, value) for one, value in zip(known, values, strict=True) if value is not None]
        if not found:
            # Nothing to be woken by: a result of Celery's is there when one looks.
            time.sleep(LOOK_EVERY)
        return [self.judged(one, value) for one, value in found]

    def judged(self, one: str, value: Any) -> float:
        now = time.perf_counter()
        began, asked = self.open.pop(one)
        said = app.backend.decode_result(value)
        if said["result"] != done(asked):
            self.errors.append(str(said)[:600])
        return now - began

    def said(self, wall: float) -> dict[str, Any]:
        cuts = statistics.quantiles(self.took, n=100) if len(self.took) > 1 else [0.0] * 99
        percentiles = {f"p{part}_ms": round(cuts[part - 1] * 1000, 3) for part in (50, 95, 99)}
        counts = {"calls": self.calls, "errors": len(self.errors), "first_errors": self.errors[:3]}
        return {**counts, "rate": round(self.calls / wall, 1), **percentiles}


def do(*, connections: int, seconds: float, waits: bool) -> dict[str, Any]:
    asker, began = Asker(), time.perf_counter()
    if waits:
        asker.wait(connections, began + seconds)
    else:
        asker.flood(began + seconds)
    said = asker.said(time.perf_counter() - began)
    asker.drain()
    return said


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(do(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
