"""The measurement of runs: each way has each run done once, in order of time, and what is held against aims is counted
from that."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from benchmarks import supervisor
from benchmarks.calls.database import Database
from benchmarks.runs import minute, programs
from benchmarks.runs.driver import BY_HAND, CELERY, SUPERVISOR, WAYS
from benchmarks.runs.house import Driver, House, house
from benchmarks.runs.programs import AT_ONCE, INSTANT, PATIENT, SHORT
from benchmarks.runs.table import Cell, Comparison, Held, Lateness
from supervisor.schedules import firing
from tests.settings import KEYS_FOR_TESTS
from tests.supervisor.workers import database_url

pytestmark = [pytest.mark.capability("OPS-01"), pytest.mark.xdist_group("house")]


@pytest.fixture
def gate(transactional_db: None, tmp_path: Path) -> Iterator[House]:
    """Over the test's own database, which is there already."""
    with programs.written() as scripts, house(Database(tmp_path, database_url()), scripts) as made:
        made.environ.update(KEYS_FOR_TESTS)
        yield made


@pytest.fixture
def driver(gate: House) -> Iterator[Driver]:
    with gate.running() as running:
        yield running


@contextmanager
def sweeping() -> Iterator[None]:
    """What beat and the control worker do, without waiting for those to start."""
    over = threading.Event()

    def sweep() -> None:
        while not over.wait(0.05):
            firing.sweep()
        connection.close()

    thread = threading.Thread(target=sweep)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_each_way_does_each_run_and_each_schedule_fires_once(gate: House, driver: Driver, settings: Any) -> None:
    """One installation for all of it: starting one takes most of the time."""
    cells = supervisor.in_turn(driver, INSTANT, 3, 2)
    assert [(cell.way, [len(turn) for turn in cell.turns]) for cell in cells] == [(way, [3, 3]) for way in WAYS]
    for run in (run for cell in cells for run in cell.runs):
        assert list(run) == sorted(run)

    held = supervisor.hold(gate, driver, 2)
    assert 0 < held.idle_mb < held.held_mb

    settings.EXECUTABLE_ALLOWLIST = gate.programs.allowed
    settings.SCHEDULE_CLOCK_SHIFT = round(60 - (time.time() + 4) % 60)
    with sweeping():
        late = Lateness(*minute.fire(gate.programs, 4))
    assert len(late.asked) == len(late.began) == 4
    assert all(0 <= asked < began for asked, began in zip(late.asked, late.began, strict=True))


def made(way: str, agent: str, at_once: int, seconds: float) -> Cell:
    """Half of the time before its program began, a quarter in it, a quarter until it was seen."""
    run = (0.0, seconds / 2, seconds * 3 / 4, seconds)
    return Cell(way, agent, at_once, [[run] * at_once] * 2)


@pytest.fixture
def comparison() -> Comparison:
    took = {BY_HAND: 0.5, CELERY: 1.0, SUPERVISOR: 1.2}
    cells = [
        made(way, agent, at_once, seconds)
        for agent in (INSTANT, SHORT, PATIENT)
        for at_once in (1, AT_ONCE)
        for way, seconds in took.items()
    ]
    return Comparison("sqlite", cells, Held(32, 100.0, 140.0), Lateness([0.1, 0.2], [0.3, 0.4]))


def test_aims_are_held_against_what_was_measured(comparison: Comparison) -> None:
    found = {aim.name: (aim.value, aim.met) for aim in comparison.aims()}
    assert found["s from submit to start, p95"] == (0.6, False)
    assert found["s from exit to seen, p99"] == (0.3, True)
    assert found["of plain Celery, short, 10 at once"] == (1.2, True)
    assert found["MB for 32 waiting agents"] == (40.0, True)
    slow = replace(comparison, lateness=Lateness([3.0] * 5, [4.0] * 5))
    assert {aim.name: aim.met for aim in slow.aims()}["s late, p99"] is False
    assert "MISSED" in slow.text() and slow.as_dict()["cells"][0]["runs"] == 2
