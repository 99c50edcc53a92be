"""What a worker takes at once: state, slot and token together, and nothing twice or unheard."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from common.ids import uuid7
from nhi import hooks
from nhi.credentials import tokens
from nhi.decisions.delegation import TaskFacts
from nhi.models import Credential
from supervisor import cancelling, chains, lifecycle, reaping, waking
from supervisor.choices import ExecutionState
from supervisor.models import Agent, Execution, Runner
from supervisor.runner import bookkeeping, claiming, service
from supervisor.runner.claiming import Claimed
from supervisor.runner.service import Service
from tests.nhi import cast
from tests.supervisor.waiting import until, until_over

pytestmark = [
    pytest.mark.capability("SUP-04", "SUP-05"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]
Claim = Callable[..., list[Claimed]]
Asked = Callable[..., Execution]
#: What is kept of a chain that nobody wrote.
ODD = {"by": {"chain": [{"name": "somebody"}]}}


@contextmanager
def working(room: int) -> Iterator[Service]:
    service_here = Service(room)
    service_here.start()
    try:
        yield service_here
    finally:
        service_here.stop()


def statements_to_claim(many: int) -> int:
    with CaptureQueriesContext(connection) as asked:
        assert len(claiming.claim(runner_id=uuid7(), room=many)) == many
    return len(asked)


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """The database goes away behind the first claim that takes something; what is given is done meanwhile."""

    def lose(meanwhile: Callable[[], object]) -> None:
        claim: Claim = claiming.claim
        answers = iter(["lost"])

        def claimed(**asked: Any) -> list[Claimed]:
            found = claim(**asked)
            if found and next(answers, None):
                meanwhile()
                raise OperationalError("server closed the connection unexpectedly")
            return found

        monkeypatch.setattr(claiming, "claim", claimed)

    return lose


def test_each_has_a_token_of_its_own(make_agent: Callable[..., Agent], submit: Asked) -> None:
    agent, runner = make_agent(), uuid7()
    runs = [submit(agent) for _ in range(3)]
    claimed = claiming.claim(runner_id=runner, room=8)
    assert [one.run.pk for one in claimed] == [run.pk for run in runs]
    said = [tokens.parse(one.token) for one in claimed]
    assert [one.execution_id for one in said if isinstance(one, tokens.ShortTokenClaims)] == [run.pk for run in runs]
    assert Credential.runs.filter(revoked_at=None).count() == 3
    assert all(one.token not in repr(one) for one in claimed)


def test_many_cost_few_statements_more_than_one(make_agent: Callable[..., Agent], submit: Asked) -> None:
    agent = make_agent(max_concurrent_executions=None)
    submit(agent)
    one = statements_to_claim(1)
    for _ in range(8):
        submit(agent)
    # For each its own move; its row of history and its token go with those of the others.
    assert statements_to_claim(8) <= one + 8


def test_one_of_which_nobody_can_tell_what_stands_behind_it_holds_up_no_other(
    make_agent: Callable[..., Agent], submit: Asked
) -> None:
    agent = make_agent()
    odd, fine = submit(agent), submit(agent)
    Execution.objects.filter(pk=odd.pk).update(context=ODD)
    with working(4):
        assert until_over(fine).status == "success"
        assert (until_over(odd).status, odd.error_category) == ("failure", "SystemError")


def test_of_all_their_tasks_is_asked_at_once_and_of_each_where_one_is_odd(
    make_agent: Callable[..., Agent], submit: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, asked = make_agent(), list[list[UUID]]()
    runs = [submit(agent) for _ in range(3)]
    for run in runs:
        Execution.objects.filter(pk=run.pk).update(task_id=run.pk)
    odd = set[UUID]()

    def tasks(ids: list[UUID]) -> dict[UUID, TaskFacts]:
        asked.append(ids)
        if odd & {*ids}:
            raise KeyError("name")
        return {}

    monkeypatch.setattr(hooks, "load_tasks", tasks)
    rows = list(Execution.objects.order_by("number"))
    assert {*chains.behind_each(rows)} == {run.pk for run in runs}
    assert asked == [[run.pk for run in runs]]
    odd.add(runs[1].pk)
    assert {*chains.behind_each(rows)} == {runs[0].pk, runs[2].pk}


def test_what_was_called_off_meanwhile_is_left(
    make_agent: Callable[..., Agent], submit: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_agent()
    off, fine = submit(agent), submit(agent)
    walk = lifecycle.walk_those_left

    def late(plans: Any, *, at: Any) -> list[Execution]:
        current = Execution.objects.get(pk=off.pk)
        lifecycle.walk(current, lifecycle.to_the_end(ExecutionState.CANCELLED, "Not needed"))
        return walk(plans, at=at)

    monkeypatch.setattr(lifecycle, "walk_those_left", late)
    assert [one.run.pk for one in claiming.claim(runner_id=uuid7(), room=8)] == [fine.pk]
    off.refresh_from_db()
    assert (off.status, off.slot, off.runner_id) == ("cancelled", None, None)
    assert list(off.transitions.values_list("to_state", flat=True)) == ["queued", "cancelled", "cleanup", "idle"]


def test_a_claim_whose_answer_was_lost_is_found_again(
    make_agent: Callable[..., Agent], submit: Asked, runner: Service, lost: Callable[..., None]
) -> None:
    lost(lambda: None)
    agent = make_agent('#!/bin/sh\nprintf %s "$GATEHOUSE_TOKEN" | wc -c\n', access_type="read-write")
    first, second = submit(agent), submit(agent)
    assert until_over(first).status == until_over(second).status == "success"
    assert int(first.result.output) > 100
    assert Credential.runs.count() == 2
    assert not Credential.runs.filter(revoked_at=None).exists()


def test_an_unheard_claim_starts_nothing_that_was_called_off_meanwhile(
    make_agent: Callable[..., Agent], submit: Asked, runner: Service, lost: Callable[..., None]
) -> None:
    agent = make_agent("#!/bin/sh\ntouch started\nexec sleep 30\n")
    olga = cast.acting("olga", "operator")
    lost(lambda: cancelling.cancel(actor=olga, execution=Execution.objects.get(), reason="No"))
    run = submit(agent)
    done = until_over(run)
    assert (done.status, done.process_id) == ("cancelled", None)


def test_who_ends_before_it_could_look_leaves_its_runs_to_be_found(
    make_agent: Callable[..., Agent], submit: Asked, monkeypatch: pytest.MonkeyPatch, lost: Callable[..., None]
) -> None:
    monkeypatch.setattr(service, "LOOK_EVERY", 60)
    lost(lambda: None)
    run = submit(make_agent())
    with working(2) as ending:
        until(lambda: Execution.objects.filter(state=ExecutionState.STARTING).exists(), "it was claimed")
        until(lambda: ending._unsure, "its answer was lost")
    [row] = Runner.objects.all()
    assert reaping.reap(of=row) == 1
    run.refresh_from_db()
    assert (run.state, run.error_category) == ("idle", "SystemError")


def test_nobody_finds_what_it_knows_or_what_is_anothers(make_agent: Callable[..., Agent], submit: Asked) -> None:
    agent = make_agent(max_concurrent_executions=None)
    mine, others = uuid7(), uuid7()
    submit(agent)
    [known] = claiming.claim(runner_id=mine, room=1)
    submit(agent)
    claiming.claim(runner_id=others, room=1)
    submit(agent)
    [unheard] = claiming.claim(runner_id=mine, room=1)
    assert claiming.unheard(runner_id=mine, known={known.run.pk}) == [unheard]
    bookkeeping.started(unheard.run, 1)
    assert claiming.unheard(runner_id=mine, known={known.run.pk}) == []


def test_the_second_look_finds_what_came_together(
    make_agent: Callable[..., Agent], submit: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LOOK_EVERY", 60)
    monkeypatch.setattr(waking, "AGAIN", 3)
    looked: list[int] = []
    claim: Claim = claiming.claim
    monkeypatch.setattr(claiming, "claim", lambda **asked: looked.append(1) or claim(**asked))
    agent = make_agent()
    with working(2) as running:
        until(lambda: looked, "it looked by itself")
        running.poke()
        until(lambda: len(looked) > 1, "it looked when it was told")
        # As its message was held back.
        assert until_over(submit(agent)).status == "success"


@pytest.mark.parametrize(("room", "words"), [(1, 1), (2, 1), (3, 0)])
def test_who_fills_up_passes_the_word_on(
    room: int, words: int, make_agent: Callable[..., Agent], submit: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, said = make_agent("#!/bin/sh\nexec sleep 30\n"), list[None]()
    for _ in range(2):
        submit(agent)
    monkeypatch.setattr(waking, "say", lambda: said.append(None))
    with working(room) as running:
        until(lambda: Execution.objects.filter(state="running").count() == min(room, 2), "there was no room left")
        running.poke()
    assert len(said) == words


def test_what_is_asked_for_together_is_one_message(
    make_agent: Callable[..., Agent], submit: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(waking.current_app, "send_task", lambda name, **_: sent.append(name))
    monkeypatch.setattr(waking, "_said", waking._Said())
    assert waking.AGAIN > waking.TOGETHER
    for together, messages in ((60.0, 1), (0.0, 6)):
        monkeypatch.setattr(waking, "TOGETHER", together)
        for _ in range(5):
            waking.say()
        assert sent == ["supervisor.wake"] * messages
