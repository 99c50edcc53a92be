"""The measurement of tasks: what is done is counted where it is kept, and held against what was sent."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.calls.database import Databases
from benchmarks.calls.processes import Cell, Load, load
from benchmarks.tasks.house import house, peer
from benchmarks.tasks.table import Comparison, Heard
from benchmarks.tasks.ways import CELERY, IDLE, INBOX, SDK, Turn, of_house, of_peer

pytestmark = [pytest.mark.capability("OPS-01", "A2A-08"), pytest.mark.xdist_group("house")]
HEARD = Heard(100, 100, 2, written_ms=5, p50_ms=9, p95_ms=20, p99_ms=30, most_ms=40, events=1000, wrong=0)


@pytest.fixture
def clients() -> Iterator[Load]:
    with load() as running:
        yield running


def test_each_task_that_was_sent_to_the_product_is_done_and_counted(clients: Load, tmp_path: Path) -> None:
    with house(Databases(tmp_path, None).new("tasks")) as gate, gate.at_work() as working:
        way = of_house(INBOX, gate, clients, [*gate.web_pids(), working["inbox"]])
        turn = way.turn(connections=2, seconds=0.5)
        assert turn.sent.errors == turn.whole.errors == 0
        assert way.ended() == turn.sent.calls + turn.whole.calls > 2
        assert turn.done > 0
        assert turn.whole.cpu_ms > 0


def test_and_so_is_each_that_was_sent_to_the_sdks_server(clients: Load, tmp_path: Path) -> None:
    with peer(Databases(tmp_path, None).new("sdk")) as far:
        way = of_peer(far, clients)
        turn = way.turn(connections=2, seconds=0.3)
        assert turn.sent.errors == turn.whole.errors == 0
        assert way.ended() == turn.sent.calls + turn.whole.calls > 2


def cell(way: str, at: int, rate: float) -> Cell:
    return Cell(way, at, rate, 5, 6, 7, cpu_ms=2, rss_mb=90, calls=100, errors=0, first_errors=[])


def compared(rates: dict[str, float]) -> Comparison:
    turns = [Turn(cell(way, at, rate), rate, cell(way, at, rate)) for at in (8, 32) for way, rate in rates.items()]
    return Comparison("postgresql", 1, turns, {INBOX: (200, 200)}, [HEARD])


def missed(comparison: Comparison) -> set[str]:
    return {aim.name for aim in comparison.aims() if not aim.met}


def test_what_is_ahead_of_the_sdk_and_half_of_celery_meets_every_aim() -> None:
    assert not missed(compared({CELERY: 400, SDK: 150, INBOX: 200, IDLE: 200}))


def test_what_is_behind_is_said_to_be() -> None:
    behind = missed(compared({CELERY: 500, SDK: 210, INBOX: 200, IDLE: 300}))
    assert {f"until done, of the SDK's, inbox, at {at}" for at in (8, 32)} < behind
    assert {f"until done, of Celery's, inbox, at {at}" for at in (8, 32)} < behind
    assert not [name for name in behind if "no-op" in name]


def test_a_task_that_was_not_done_an_event_that_was_missed_and_a_slow_one_are_said() -> None:
    fine = compared({CELERY: 400, SDK: 150, INBOX: 200, IDLE: 200})
    assert missed(replace(fine, ended={INBOX: (200, 199)})) == {"tasks of inbox that were done"}
    late = replace(HEARD, p95_ms=101, wrong=1)
    assert missed(replace(fine, heard=[late])) == {
        "ms until 100 followers of 100 hear, p95",
        "followers that heard wrong",
    }
    assert missed(replace(fine, database="sqlite", heard=[replace(HEARD, p95_ms=400)])) == set()
