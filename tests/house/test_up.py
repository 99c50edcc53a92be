"""One command starts the whole house; Ctrl-C, or worse, ends it and leaves nothing."""

import signal
import stat
import time
from pathlib import Path

import psutil
import pytest

from tests.services.house import ROLES, House, embedded
from tests.services.postgresql import free_port

#: Those that say every few seconds that they live; the others are asked.
HEARD = ROLES.keys() - {"valkey", "grpc"}
pytestmark = [pytest.mark.capability("OPS-01"), pytest.mark.xdist_group("house")]


def test_it_is_ready_with_every_process_up(running_house: House) -> None:
    assert running_house.readiness()["ready"] is True
    counts = {role: len(running_house.children(role)) for role in ROLES}
    assert counts == {**dict.fromkeys(ROLES, 1), "web": 2}


def test_nobody_else_reads_what_it_writes(running_house: House) -> None:
    written = [path for path in running_house.data.rglob("*") if path.is_file()]
    assert {"gatehouse.sqlite3", "web-1.log", "valkey.log"} <= {path.name for path in written}
    assert [path for path in written if path.stat().st_mode & 0o077] == []


def test_a_second_one_on_the_same_data_says_so(running_house: House) -> None:
    second = running_house.manage("up")
    assert second.returncode == 1
    assert f"already runs on {running_house.data} (process {running_house.launcher.pid})" in second.stderr
    assert running_house.is_ready()


def test_a_taken_port_says_so(running_house: House, tmp_path: Path) -> None:
    other = House(tmp_path, running_house.port, {**running_house.environ, "GATEHOUSE_DATA": str(tmp_path / "other")})
    refused = other.manage("up", "--no-demo")
    assert refused.returncode == 1
    assert f"Port {running_house.port} cannot be had" in refused.stderr


def test_a_taken_port_of_grpc_says_so(running_house: House, tmp_path: Path) -> None:
    own = {"GATEHOUSE_DATA": str(tmp_path / "other"), "PORT": str(free_port())}
    refused = House(tmp_path, running_house.port, {**running_house.environ, **own}).manage("up", "--no-demo")
    assert refused.returncode == 1
    taken = running_house.environ["GRPC_PORT"]
    assert f"Port {taken} cannot be had" in refused.stderr
    assert "GRPC_PORT" in refused.stderr


@pytest.mark.parametrize("role", ROLES)
def test_a_killed_child_is_replaced_and_heard_of_again(running_house: House, role: str) -> None:
    victim = running_house.children(role)[0]
    others = {child.pid for child in running_house.children(role)}
    killed_at = time.time()
    victim.kill()
    replacement = running_house.wait_for(lambda: _fresh(running_house, role, others), 10, f"a new {role}")[0]
    if role in HEARD:
        heard = lambda: running_house.heard_of(role, replacement, after=killed_at)  # noqa: E731 - a fact to wait for, named
        running_house.wait_for(heard, 30, f"{role} heard of again")
    running_house.wait_for(lambda: _all_heard_since(running_house, killed_at), 30, "every process heard of")
    # A beat that was on its way when the broker died counts as heard: readiness itself says when all is well again.
    running_house.wait_for(running_house.is_ready, 30, "ready again")


def _fresh(house: House, role: str, others: set[int]) -> list[int]:
    # The wrapper that ties it to the launcher has the same command line for a moment, and the same pid.
    return [child.pid for child in house.children(role) if child.pid not in others]


def _all_heard_since(house: House, moment: float) -> bool:
    return all(any(house.heard_of(role, child.pid, after=moment) for child in house.children(role)) for role in HEARD)


def test_a_killed_pool_process_is_replaced(running_house: House) -> None:
    worker = running_house.children("worker-control")[0]
    victim = worker.children()[0]
    victim.kill()
    killed_at = time.time()
    running_house.wait_for(lambda: len(_alive(worker.children())) == 2, 20, "two pool processes again")
    running_house.wait_for(lambda: running_house.heard_of("worker-control", worker.pid, after=killed_at), 30, "a tick")


def _alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_stop_signal_ends_everything_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with embedded(tmp_path, "--no-demo") as house:
        house.wait_until_ready()
        assert len(house.processes()) >= 8
        begun = time.monotonic()
        assert house.stop(number) == 0
        assert time.monotonic() - begun < 10
        assert "killed" not in house.output
        assert house.processes() == []


def test_nothing_outlives_a_killed_launcher(tmp_path: Path) -> None:
    with embedded(tmp_path, "--no-demo") as house:
        house.wait_until_ready()
        assert any(worker.children() for worker in house.children("worker-control")), "grandchildren too"
        house.launcher.kill()
        house.launcher.wait()
        house.assert_nothing_left(seconds=3)
        house.start()
        house.wait_until_ready()


def test_a_launcher_killed_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    with embedded(tmp_path, "--no-demo") as house:
        house.wait_for(lambda: len(house.processes()) > 3, 30, "half started")
        house.launcher.kill()
        house.launcher.wait()
        house.assert_nothing_left(seconds=3)


def test_a_long_path_to_the_data_is_no_obstacle(tmp_path: Path) -> None:
    place = tmp_path / ("a rather long name with spaces # and a sign " * 3)
    place.mkdir()
    with embedded(place, "--no-demo", first=True) as house:
        house.wait_until_ready()
        assert house.readiness()["checks"]["broker"]["ok"] is True
        assert not (house.data / "valkey.sock").exists()
        short = (house.data / "run").resolve()
        assert {file.name for file in short.iterdir()} == {"stdio.sock", "valkey.sock"}
        assert stat.S_IMODE(short.stat().st_mode) == 0o700
        assert house.stop() == 0
        short.rmdir()
        house.start()
        house.wait_until_ready()
        assert house.stop() == 0
        (house.data / "run").resolve().rmdir()


def test_a_port_given_as_an_option_is_used(tmp_path: Path) -> None:
    with embedded(tmp_path, "--no-demo", PORT="") as house:
        house.launcher.kill()
        house.launcher.wait()
        house.arguments = ("--no-demo", "--port", str(house.port))
        house.start()
        house.wait_until_ready()
        assert f"http://127.0.0.1:{house.port}/admin/" in house.output
