"""/readyz names what is missing, and answers while there is somebody to listen; /healthz asks nobody."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.services import postgresql, valkey
from tests.services.house import House, embedded
from tests.settings import KEYS_FOR_TESTS

pytestmark = [pytest.mark.capability("OPS-03"), pytest.mark.xdist_group("house")]

CHECKS = {"database", "broker", "guards", "worker-control", "worker-runs", "beat", "stdio-owner", "grpc"}


@contextmanager
def halted(processes: list[psutil.Process]) -> Iterator[None]:
    """Stopped as a whole, so that they hang rather than refuse."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


@contextmanager
def hanging(house: House, processes: list[psutil.Process]) -> Iterator[None]:
    """Halted where they hold nothing: in the middle of a write, one would hang whoever else writes to SQLite."""
    while True:
        with halted(processes):
            if can_be_written(house):
                yield
                return
        time.sleep(0.1)


def can_be_written(house: House) -> bool:
    with closing(sqlite3.connect(house.data / "gatehouse.sqlite3", timeout=1)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        database.rollback()
        return True


def failing(house: House) -> set[str]:
    """The names of the failing checks, told within three seconds."""
    begun = time.monotonic()
    status, body = house.get("/readyz")
    assert time.monotonic() - begun < 3
    checks = json.loads(body)["checks"]
    assert checks.keys() == CHECKS
    assert status == (200 if all(check["ok"] for check in checks.values()) else 503)
    return {name for name, check in checks.items() if not check["ok"]}


def test_each_check_is_named_and_good(running_house: House) -> None:
    assert failing(running_house) == set()


def test_a_broker_that_hangs_is_named(running_house: House) -> None:
    with halted(running_house.children("valkey")):
        assert failing(running_house) == {"broker"}
        assert failing(running_house) == {"broker"}, "the second probe does not wait behind the first"
        assert running_house.get("/healthz")[0] == 200
    running_house.wait_for(running_house.is_ready, 15, "ready again")


@pytest.mark.parametrize(
    ("hung", "silent"),
    [
        ({"worker-runs", "beat"}, {"worker-runs", "beat"}),
        # Beat is heard of through the control worker only.
        ({"worker-control"}, {"worker-control", "beat"}),
    ],
    ids=["runs and beat", "control"],
)
def test_processes_that_hang_are_named(running_house: House, hung: set[str], silent: set[str]) -> None:
    mains = [child for role in hung for child in running_house.children(role)]
    with hanging(running_house, [part for main in mains for part in (main, *main.children(recursive=True))]):
        running_house.wait_for(lambda: failing(running_house) == silent, 40, f"{silent} reported")
    running_house.wait_for(running_house.is_ready, 30, "ready again")


@pytest.mark.capability("AUD-01")
def test_guards_that_differ_are_named_and_repaired_by_the_control_worker(tmp_path: Path) -> None:
    with embedded(tmp_path, "--no-demo") as house:
        house.wait_until_ready()

        def execute(sql: str) -> None:
            with closing(sqlite3.connect(house.data / "gatehouse.sqlite3", timeout=20)) as database:
                database.executescript(sql)

        execute("CREATE TRIGGER first BEFORE DELETE ON nhi_audit_event BEGIN SELECT RAISE(IGNORE); END")
        assert failing(house) == {"guards"}
        assert "first on nhi_audit_event" in house.readiness()["checks"]["guards"]["message"]
        # Both bodies replaced by no-ops, with the names that they had.
        for verb in ("delete", "update"):
            name = f"nhi_audit_event_no_{verb}"
            execute(f"DROP TRIGGER {name}; CREATE TRIGGER {name} BEFORE {verb} ON nhi_audit_event BEGIN SELECT 1; END")
        house.wait_for(lambda: "was replaced" not in guards_message(house), 60, "repaired")
        assert failing(house) == {"guards"}, "what is not ours is reported and stays"
        execute("DROP TRIGGER first")
        house.wait_for(lambda: failing(house) == set(), 10, "ready again")
        house.wait_for(lambda: "record.guards_hold" in recorded(house), 60, "recorded")
        assert {"record.guards_differ", "record.guards_repaired"} <= recorded(house)


def guards_message(house: House) -> str:
    return str(house.readiness()["checks"]["guards"]["message"])


def recorded(house: House) -> set[str]:
    with closing(sqlite3.connect(house.data / "gatehouse.sqlite3", timeout=20)) as database:
        return {event for (event,) in database.execute("SELECT event FROM nhi_audit_event")}


@pytest.mark.capability("OPS-02")
def test_a_database_that_hangs_or_goes_is_named(tmp_path: Path) -> None:
    socket = tmp_path / "valkey.sock"
    with (
        postgresql.server() as server,
        valkey.server(socket),
        embedded(
            tmp_path,
            "--no-demo",
            DATABASE_URL=server.url(),
            BROKER_URL=f"redis+socket://{socket}",
            WEB_WORKERS="3",
            **KEYS_FOR_TESTS,
        ) as house,
    ):
        house.wait_until_ready()
        assert (len(house.children("web")), len(house.children("valkey"))) == (3, 0)
        postmaster = psutil.Process(server.pid)
        with halted([postmaster, *postmaster.children()]):
            assert "database" in failing(house)
            assert house.get("/healthz")[0] == 200
        house.wait_for(lambda: failing(house) == set(), 10, "ready again")
        os.kill(server.pid, signal.SIGQUIT)
        house.wait_for(lambda: "database" in failing(house), 5, "database reported")
        assert house.get("/healthz")[0] == 200
        assert house.stop() == 0
        house.assert_nothing_left()


def test_numbers_for_prometheus(running_house: House) -> None:
    for _ in range(5):
        assert running_house.get("/healthz")[0] == 200
    status, body = running_house.get("/metrics")
    lines = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#"))
    assert status == 200
    assert lines["gatehouse_database_up"] == "1.0"
    assert float(lines['gatehouse_processes{kind="worker-control"}']) >= 1
    # Counted over all web processes, whichever of them answers here.
    counted = 'gatehouse_requests_total{method="GET",route="healthz",status="200"}'
    assert float(lines[counted]) >= 5
    assert any(line.startswith('gatehouse_request_seconds_bucket{le="0.1",route="healthz"') for line in lines)
    assert any(line.startswith('gatehouse_tasks_total{state="success",task="nhi.tick"}') for line in lines)


def test_paths_that_strangers_choose_are_not_labels(running_house: House) -> None:
    running_house.get("/a-path-nobody-made")
    body = running_house.get("/metrics")[1].decode()
    assert "a-path-nobody-made" not in body
    assert 'route="unmatched"' in body
