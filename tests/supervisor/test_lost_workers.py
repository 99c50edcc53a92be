"""Workers that are killed, hang, or are told to stop: nothing of their runs goes on, and nobody waits for them."""

import os
import random
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from supervisor import reaping
from supervisor.celery_tasks import wake
from supervisor.models import Agent, Execution, Runner
from tests.services.waiting import wait_for
from tests.supervisor.workers import Worker, running, with_command

pytestmark = [
    pytest.mark.capability("SUP-04", "SUP-05"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.xdist_group("house"),
]
ROUNDS = 4
#: Says that it began, leaves a child in a session and with an environment of its own, and waits.
LINGERS = """#!/usr/bin/env python3
import os, subprocess, sys, time
with open(os.path.join(os.getcwd(), os.environ["GATEHOUSE_RUN_ID"]), "a") as starts:
    starts.write("started\\n")
subprocess.Popen(["/usr/bin/env", "-i", "/bin/sleep", sys.argv[1]], start_new_session=True)
time.sleep(60)
"""


@pytest.fixture
def lingering(make_agent: Callable[..., Agent], shared_directory: Path) -> Callable[..., Agent]:
    """An agent that notes each start in a directory that outlives it; `mark` finds what it leaves."""

    def make(name: str, mark: str, **given: object) -> Agent:
        return make_agent(LINGERS, name=name, cli_args=[mark], working_directory=str(shared_directory), **given)

    return make


def open_runs() -> list[Execution]:
    return list(Execution.objects.filter(state__in=["starting", "running", "failed", "cleanup"]))


def test_a_killed_worker_leaves_no_process_and_no_run(
    lingering: Callable[..., Agent],
    submit: Callable[..., Execution],
    shared_directory: Path,
    tmp_path: Path,
    broker: str,
) -> None:
    """In rounds, at random moments; the broker delivers the same message again and again meanwhile."""
    mark = "987.125"
    writer = lingering("writer", mark, access_type="read-write")
    reader = lingering("reader", mark)
    chance = random.Random(7)
    for number in range(ROUNDS):
        with running(tmp_path, broker) as [worker]:
            runs = [submit(agent) for agent in (writer, reader, reader)]
            if number:
                wait_for(lambda: with_command(mark), 20, "started")
            time.sleep(chance.uniform(0, 0.4))
            worker.kill()
            wait_for(lambda: not with_command(mark), 5, "ended with its worker")
            reaping.sweep()
            assert open_runs() == []
            for run in Execution.objects.filter(pk__in=[run.pk for run in runs]).exclude(state="queued"):
                assert (run.status, run.error_category, run.slot) == ("failure", "SystemError", None)
                assert list(run.transitions.values_list("to_state", flat=True))[-3:] == ["failed", "cleanup", "idle"]
            Execution.objects.queued().update(state="idle")
    for run in Execution.objects.all():
        starts = shared_directory / str(run.pk)
        assert not starts.exists() or starts.read_text() in ("", "started\n")


def test_a_worker_that_hangs_is_killed_before_its_runs_count_as_lost(
    lingering: Callable[..., Agent], submit: Callable[..., Execution], tmp_path: Path, broker: str
) -> None:
    mark = "987.225"
    with running(tmp_path, broker) as [worker]:
        run = submit(lingering("hung", mark))
        wait_for(lambda: with_command(mark), 20, "started")
        os.kill(worker.process.pid, signal.SIGSTOP)
        Runner.objects.update(seen_at=timezone.now() - timedelta(seconds=31))
        reaping.sweep()
        assert worker.process.wait(timeout=5) == -signal.SIGKILL
        wait_for(lambda: not with_command(mark), 5, "ended with its worker")
        run.refresh_from_db()
        assert (run.status, run.error_category) == ("failure", "SystemError")


def test_a_worker_whose_runs_were_given_up_ends_them_and_begins_anew(
    lingering: Callable[..., Agent], submit: Callable[..., Execution], tmp_path: Path, broker: str
) -> None:
    """It was cut off from the database, say, for longer than the others wait."""
    mark = "987.325"
    with running(tmp_path, broker) as [worker]:
        run = submit(lingering("given-up", mark))
        wait_for(lambda: with_command(mark), 20, "started")
        before = Runner.objects.get()
        assert reaping.reap(of=before) == 1
        wait_for(lambda: not with_command(mark), 15, "ended by its worker")
        wait_for(lambda: Runner.objects.exclude(pk=before.pk).filter(pid=worker.process.pid).exists(), 15, "back")
        run.refresh_from_db()
        assert (run.status, run.error_category, run.state) == ("failure", "SystemError", "idle")


def test_a_worker_that_is_told_to_stop_takes_its_runs_along(
    lingering: Callable[..., Agent], submit: Callable[..., Execution], tmp_path: Path, broker: str
) -> None:
    mark = "987.425"
    with running(tmp_path, broker) as [worker]:
        run = submit(lingering("stopped", mark))
        wait_for(lambda: with_command(mark), 20, "started")
        worker.stop()
        assert not with_command(mark)
        run.refresh_from_db()
        assert (run.status, run.error_category, run.state) == ("failure", "SystemError", "idle")
        assert not Runner.objects.exists()


def test_two_workers_run_a_read_write_agent_one_at_a_time(
    make_agent: Callable[..., Agent],
    submit: Callable[..., Execution],
    shared_directory: Path,
    tmp_path: Path,
    broker: str,
) -> None:
    """Each run checks that it is alone, whatever the broker delivers twice."""
    alone = """#!/usr/bin/env python3
import os, time
lock = os.open("lock", os.O_CREAT | os.O_EXCL)
time.sleep(0.05)
os.unlink("lock")
"""
    agent = make_agent(alone, name="alone", access_type="read-write", working_directory=str(shared_directory))
    with running(tmp_path, broker, count=2) as workers:
        runs = [submit(agent) for _ in range(10)]
        for run in [*runs, *runs]:
            wake.apply_async(args=(str(run.pk),), queue="runs")
        assert _done(runs, workers)
        assert set(Execution.objects.values_list("status", flat=True)) == {"success"}
        assert Execution.objects.count() == 10


def _done(runs: list[Execution], workers: list[Worker]) -> bool:
    def all_done() -> bool:
        assert all(worker.process.poll() is None for worker in workers)
        return Execution.objects.filter(pk__in=[run.pk for run in runs], state="idle").count() == len(runs)

    return wait_for(all_done, 40, "done")
