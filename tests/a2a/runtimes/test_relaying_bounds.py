"""How much of what a program prints is told of in its task, how often, and that nobody else is forgotten for it."""

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from django.db import OperationalError
from django.utils import timezone

from a2a import endpoint_changes, relaying
from a2a.choices import TaskState
from a2a.models import Task
from nhi.actors import SYSTEM
from supervisor.models import Agent, Execution
from supervisor.runner.service import Service
from tests.a2a.conftest import Stage
from tests.a2a.runtimes.conftest import Play, dispatched, sent, told, until_ended, until_told
from tests.supervisor.waiting import until, until_over

pytestmark = [
    pytest.mark.capability("A2A-07"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
Put = Callable[..., Agent]


def test_what_its_endpoint_does_not_take_is_not_told(
    open_stage: Stage, behind: Put, runner: Service, play: Play
) -> None:
    behind(play.script("say('one')", "hold('a')", "say('x' * 100_000)", "hold('b')", "say('y')", "hold('c')"))
    endpoint_changes.change(actor=SYSTEM, identity=open_stage.writer, max_output_size=1000)
    task = sent(open_stage)
    run = dispatched(task)
    until_told(task, "one\n")
    play.release("a")
    until(lambda: Task.objects.filter(pk=task.pk, relayed=relaying.ENOUGH).exists(), "that was too much")
    play.release("b")
    play.release("c")
    done = until_ended(task)
    assert (done.state, done.error_code) == (TaskState.FAILED, "output_too_large")
    assert [text for text, _, _ in told(task)] == ["one\n"]
    until_over(run)


def test_what_was_never_begun_is_not_closed(open_stage: Stage, behind: Put, runner: Service, play: Play) -> None:
    behind(play.script("say('x' * 100_000)", "hold('a')", "sys.exit(3)"))
    endpoint_changes.change(actor=SYSTEM, identity=open_stage.writer, max_output_size=1000)
    task = sent(open_stage)
    run = dispatched(task)
    until(lambda: Task.objects.filter(pk=task.pk, relayed=relaying.ENOUGH).exists(), "that was too much")
    play.release("a")
    assert until_ended(task).state == TaskState.FAILED
    assert told(task) == []
    assert not task.artifacts.exists()
    until_over(run)


def test_a_database_that_is_away_for_one_run_lets_no_other_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, heard, away = relaying._Desk(), [], [True]

    def relay(run: Execution) -> None:
        if away:
            away.clear()
            raise OperationalError("lock timeout")
        heard.append(run)

    monkeypatch.setattr(relaying, "relay", relay)
    monkeypatch.setattr(relaying, "PAUSE", 0.0)
    monkeypatch.setattr(relaying.office, "wake", lambda: None)
    noted = [Execution(pk=UUID(int=number)) for number in range(3)]
    for run in noted:
        desk.note(run)
    with pytest.raises(OperationalError):
        desk.work()
    desk.work()
    assert sorted(run.pk.int for run in heard) == [0, 1, 2]


def test_a_flood_does_not_fill_its_task(open_stage: Stage, behind: Put, runner: Service, play: Play) -> None:
    """200 MB as fast as they go."""
    behind(play.script("for _ in range(200): say('0123456789abcde\\n' * 65536)"), timeout=60)
    task = sent(open_stage)
    run = dispatched(task)
    done = until_ended(task)
    assert done.state == TaskState.COMPLETED
    assert len(told(task)) < 10
    assert done.size < 3 * 1024 * 1024
    made = task.artifacts.get().body
    assert (len(made["parts"][0]["text"]), made["metadata"]) == (1024 * 1024, {"truncated": True})
    assert "".join(text for text, append, _ in told(task)) == made["parts"][0]["text"]
    until_over(run)


def test_no_more_is_told_than_a_piece_a_second(open_stage: Stage, behind: Put, runner: Service, play: Play) -> None:
    """However often it writes."""
    written = f"while not os.path.exists(os.path.join({str(play.place)!r}, 'a')): say('.'); time.sleep(0.01)"
    behind(play.script(written))
    task = sent(open_stage)
    run = dispatched(task)
    until(lambda: len(told(task)) > 3, "some was told")
    play.release("a")
    until_ended(task)
    at = list(task.events.filter(kind="artifact").order_by("seq").values_list("at", flat=True))
    # The last comes with the end.
    assert all((after - before).total_seconds() > 0.9 for before, after in pairwise(at[:-1]))
    until_over(run)


@pytest.mark.parametrize(("hours", "seconds"), [(0, 1.0), (1, 6.0), (24, 144.0)])
def test_a_long_run_is_told_of_more_seldom(hours: int, seconds: float) -> None:
    run = Execution(start_time=timezone.now() - timedelta(hours=hours))
    assert relaying._pause(run) == pytest.approx(seconds, abs=0.1)
