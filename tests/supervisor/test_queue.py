"""Who waits, for how long, and who is turned away."""

import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.utils import timezone

from common.ids import uuid7
from nhi import actors
from nhi.choices import State
from nhi.models import Identity
from supervisor import admission, reaping, submitting
from supervisor.access import Caller
from supervisor.models import Agent, Execution, Runner
from supervisor.runner import claiming
from supervisor.submitting import SwitchedOff
from tests.nhi import cast
from tests.supervisor.waiting import until, until_over, until_running

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]
SLEEPS = "#!/bin/sh\nexec sleep 30\n"


def claimed(room: int) -> list[Execution]:
    return [one.run for one in claiming.claim(runner_id=uuid7(), room=room)]


@pytest.mark.capability("SUP-05")
def test_a_read_write_agent_runs_one_at_a_time_and_its_queue_has_an_end(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    agent = make_agent(access_type="read-write", queue_depth=2)
    first = submit(agent)
    [taken] = claimed(8)
    assert (taken.pk, taken.slot, taken.state) == (first.pk, 1, "starting")
    waiting = [submit(agent), submit(agent)]
    assert claimed(8) == []
    with pytest.raises(admission.QueueFull, match="The queue of echo is full: 2 runs wait already"):
        submit(agent)
    assert Execution.objects.queued().count() == len(waiting)


@pytest.mark.capability("SUP-05")
def test_a_read_only_agent_runs_up_to_its_limit_the_longest_waiting_first(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    agent, endless = make_agent(max_concurrent_executions=3), make_agent(name="b", max_concurrent_executions=None)
    runs = [submit(agent) for _ in range(5)] + [submit(endless) for _ in range(5)]
    taken = claimed(20)
    assert {run.pk for run in taken} == {run.pk for run in [*runs[:3], *runs[5:]]}
    assert sorted(run.slot or 0 for run in taken if run.agent_id == agent.pk) == [1, 2, 3]
    assert claimed(20) == []


@pytest.mark.capability("SUP-05")
def test_free_slots_are_no_places_in_the_queue(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    agent = make_agent(max_concurrent_executions=3, queue_depth=0)
    for _ in range(3):
        submit(agent)
    with pytest.raises(admission.QueueFull):
        submit(agent)


@pytest.mark.capability("SUP-05")
def test_a_limit_that_was_lowered_holds_for_the_next(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    agent = make_agent(max_concurrent_executions=3)
    for _ in range(4):
        submit(agent)
    for run in claimed(8)[:1]:
        Execution.objects.filter(pk=run.pk).update(slot=None, state="idle", status="success")
    Agent.objects.filter(pk=agent.pk).update(max_concurrent_executions=2)
    assert claimed(8) == []


@pytest.mark.capability("SUP-05")
def test_two_workers_that_claim_at_once_give_no_slot_away_twice(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    agents = [make_agent(name=f"a{n}", access_type="read-write") for n in range(4)]
    for agent in agents:
        for _ in range(3):
            submit(agent)
    taken: list[Execution] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        taken.extend(claimed(3))
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = [(run.agent_id, run.slot) for run in taken]
    assert len(held) == len(set(held))
    assert Execution.objects.filter(slot__isnull=False).count() == len(taken) <= 4


@pytest.mark.capability("SUP-05")
def test_who_waits_too_long_fails_and_is_not_tried_again(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    run = submit(make_agent(queue_wait=60))
    reaping.sweep()
    assert Execution.objects.queued().count() == 1
    Execution.objects.update(wait_until=timezone.now() - timedelta(seconds=1))
    reaping.sweep()
    run.refresh_from_db()
    assert (run.state, run.status, run.error_category) == ("idle", "failure", "Transient")
    assert run.error_message == "It waited for 60 s, which is as long as a run of this agent may."


@pytest.mark.capability("SUP-05", "SUP-12")
def test_nothing_waits_for_what_may_not_run(make_agent: Callable[..., Agent], submit: Callable[..., Execution]) -> None:
    agent, off = make_agent(), make_agent(name="off")
    run, other = submit(agent), submit(off)
    Agent.objects.filter(pk=off.pk).update(enabled=False)
    Identity.objects.filter(pk=agent.identity_id).update(state=State.SUSPENDED)
    assert claimed(8) == []
    reaping.sweep()
    run.refresh_from_db()
    other.refresh_from_db()
    assert (run.status, other.state) == ("cancelled", "queued")
    off.refresh_from_db()
    with pytest.raises(SwitchedOff):
        submit(off)


@pytest.mark.capability("SUP-12")
@pytest.mark.parametrize(
    ("strain", "said"),
    [
        ({"memory_percent": 99.0}, "99 % of the memory"),
        ({"disk_free_mb": 3.0}, "3 MB of disk"),
        ({"load_per_cpu": 50.0}, "load of here is 50.0"),
    ],
)
def test_no_run_is_taken_while_every_host_is_strained(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution], strain: dict[str, float], said: str
) -> None:
    agent = make_agent()
    facts = {"host": "here", "process_start": 0.0, "boot": "b", "capacity": 1, "disk_free_mb": 9999.0}
    Runner.objects.create(pid=1, **{**facts, **strain})
    with pytest.raises(admission.Overloaded, match=said):
        submit(agent)
    assert not Execution.objects.exists()
    fine = Runner.objects.create(pid=2, **facts)
    assert submit(agent).state == "queued"
    Runner.objects.filter(pk=fine.pk).update(seen_at=timezone.now() - timedelta(minutes=1))
    with pytest.raises(admission.Overloaded):
        submit(agent)


@pytest.mark.capability("SUP-12")
def test_the_same_input_within_a_minute_gets_the_run_that_is_there(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    agent, plain = make_agent(deduplicate=True), make_agent(name="plain")
    first = submit(agent, "same")
    assert submit(agent, "same").pk == first.pk
    assert submit(agent, "other").pk != first.pk
    assert submit(agent, "same", parameters={"a": 1}).pk != first.pk
    assert submit(plain, "same").pk != submit(plain, "same").pk
    other = Caller(actors.person(cast.user("otto", "operator")))
    assert submitting.submit(caller=other, agent=agent, wish=submitting.Wish(input="same")).execution.pk != first.pk
    Execution.objects.filter(pk=first.pk).update(created_at=timezone.now() - timedelta(seconds=61))
    assert submit(agent, "same").pk != first.pk


@pytest.mark.capability("SUP-05")
@pytest.mark.usefixtures("runner")
def test_a_slot_that_comes_free_is_the_next_ones(
    make_agent: Callable[..., Agent], submit: Callable[..., Execution]
) -> None:
    agent = make_agent("#!/bin/sh\nread wait; sleep $wait\n", access_type="read-write")
    runs = [submit(agent, said) for said in ("0.3", "0", "0")]
    until_running(runs[0])
    assert Execution.objects.queued().count() == 2
    ended = [until_over(run) for run in runs]
    assert {run.status for run in ended} == {"success"}
    for before, after in pairwise(ended):
        assert before.end_time is not None
        assert after.start_time is not None
        assert before.end_time <= after.start_time
    until(lambda: not Execution.objects.filter(slot__isnull=False).exists(), "every slot was free")
