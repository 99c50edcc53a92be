"""Whoever asks for runs: a process with the product's own modules, which answers each line of its input with one.

A line is a job and what it is told, as JSON: `["run", {"way": "celery", "name": "short", "count": 10}]`.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django

#: In the order in which they are asked.
BY_HAND, CELERY, SUPERVISOR = "subprocess", "celery", "supervisor"
WAYS = (BY_HAND, CELERY, SUPERVISOR)


def jobs(place: Path) -> dict[str, Callable[..., Any]]:
    """Imported here: models want settings that are set up."""
    from benchmarks.runs import minute, resting, rows, ways
    from benchmarks.runs.programs import Programs

    programs = Programs(place)
    known: dict[str, ways.Way[Any]] = {
        BY_HAND: ways.ByHand(programs.path),
        CELERY: ways.ByCelery(programs.path),
        SUPERVISOR: ways.BySupervisor(),
    }
    return {
        "make": lambda: rows.make(programs),
        "run": lambda way, name, count: known[way].run(name, count),
        "begin": lambda count: [str(pk) for pk in resting.begin(count)],
        "end": resting.end,
        "fire": lambda count: minute.fire(programs, count),
    }


def main(place: Path) -> None:
    django.setup()
    known = jobs(place)
    for line in sys.stdin:
        job, told = json.loads(line)
        print(json.dumps(known[job](**told)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
