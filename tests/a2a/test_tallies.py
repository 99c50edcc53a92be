"""The number of tasks that a list tells is exact, whatever has been tallied of them by then."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from a2a import tallies
from a2a.celery_tasks import sweep
from a2a.choices import OPEN, TERMINAL, TaskState, Word
from a2a.models import Tally, Task
from a2a.models.tallies import KEY
from nhi import actors
from nhi.actors import SYSTEM, Actor
from nhi.models import Identity
from tests.a2a.conftest import Stage
from tests.api.callers import Caller, calling
from tests.nhi import cast
from tests.scale import plans
from tests.services.upgrades import back_at

pytestmark = [pytest.mark.capability("A2A-01"), pytest.mark.both_databases]
TOGETHER, PATIENCE = 7, 30
ENDED = sorted(TERMINAL)
WORDS = (None, *Word.values)


def put(agent: Identity, source: Identity | None, by: Any, state: str) -> Task:
    """One that stands so."""
    return Task(
        agent=agent, agent_name=agent.name, source=source, created_by_kind="agent", created_by_id=by,
        created_by_name="someone", context_id="one", state=state,
        completed_at=timezone.now() if state in TERMINAL else None,
    )  # fmt: skip


def ended(stage: Stage, count: int, *, marked: bool = False) -> None:
    pairs = [(stage.writer, stage.planner), (stage.planner, stage.writer), (stage.writer, None)]
    rows = [
        put(agent, source, source.pk if source else stage.mara.pk, ENDED[number % len(ENDED)])
        for number, (agent, source) in zip(range(count), pairs * count, strict=False)
    ]
    for row in rows:
        row.tallied_at = row.completed_at if marked else None
    Task.objects.bulk_create(rows)


def all_of_them() -> int:
    return tallies.total(lambda tasks: tasks.visible_to(SYSTEM))


def tallied() -> Counter[tuple[Any, ...]]:
    return Counter({tuple(key): number for *key, number in Tally.objects.values_list(*KEY, "tasks")})


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "MOST_AT_ONCE", TOGETHER)
    monkeypatch.setattr(tallies, "MOST_BATCHES", 2)


@pytest.fixture
def callers(stage: Stage) -> dict[str, tuple[Caller, Actor]]:
    """Who sees all, who sees what identities of theirs do, who sees what they sent, and who sees what is theirs."""
    lars, tom = cast.user("lars"), cast.user("tom")
    Identity.objects.filter(pk=stage.writer.pk).update(owner=lars)
    people = {user.username: (calling(user), actors.person(user)) for user in (stage.mara, lars, tom)}
    return people | {one.name: (calling(one), actors.identity(one)) for one in (stage.planner, stage.writer)}


def asked_of(agents: list[Identity]) -> Iterator[dict[str, str]]:
    for word, agent in product(WORDS, (None, *agents)):
        yield ({"state": word} if word else {}) | ({"target_agent_id": str(agent.pk)} if agent else {})


def counted(actor: Actor, state: str = "", target_agent_id: str = "") -> int:
    rows = Task.objects.visible_to(actor)
    rows = rows.filter(agent_id=target_agent_id) if target_agent_id else rows
    return (rows.said_to_be(state) if state else rows).count()


@pytest.mark.parametrize("seed", range(3))
def test_every_number_is_the_one_that_counting_finds(
    stage: Stage, callers: dict[str, tuple[Caller, Actor]], few_at_once: None, seed: int
) -> None:
    chance, agents = random.Random(seed), [stage.writer, stage.planner, cast.agent("helper")]
    senders = [actor.id for _, actor in callers.values()]
    for _ in range(3):
        Task.objects.bulk_create(
            put(
                chance.choice(agents), chance.choice([None, *agents]), chance.choice([None, *senders]),
                chance.choice([*TaskState.values, *ENDED]),
            )
            for _ in range(30)
        )  # fmt: skip
        some = Task.objects.filter(pk__in=chance.sample(list(Task.objects.open().values_list("pk", flat=True)), 3))
        some.update(state=TaskState.COMPLETED, completed_at=timezone.now())
        assert tallies.add_up() == 2 * TOGETHER
        for name, (caller, actor) in callers.items():
            for asked in asked_of(agents):
                told = caller.get("a2a/tasks", limit=1, **asked).body["total"]
                assert told == counted(actor, **asked), (name, asked)


def test_what_is_tallied_is_not_counted_again_and_what_is_open_is_never_tallied(stage: Stage) -> None:
    ended(stage, 12)
    stage.sent()
    sweep()
    assert (Task.objects.filter(tallied_at=None).get().state, sum(tallied().values())) == (TaskState.SUBMITTED, 12)
    Tally.objects.update(tasks=F("tasks") + 100)
    assert all_of_them() == 13 + 100 * Tally.objects.count()
    before = tallied()
    sweep()
    assert tallied() == before


def test_a_task_that_ends_is_tallied_as_it_ended_and_counts_once_throughout(stage: Stage) -> None:
    task_id = stage.sent()

    def told(**asked: Any) -> int:
        return int(stage.sender.get("a2a/tasks", **asked).body["total"])

    for _ in range(2):
        assert (told(), told(state="pending"), told(state="cancelled")) == (1, 1, 0)
        tallies.add_up()
    assert stage.sender.post(f"a2a/tasks/{task_id}/cancel").status == 200
    for _ in range(2):
        assert (told(), told(state="pending"), told(state="cancelled")) == (1, 0, 1)
        tallies.add_up()
    assert tallied() == {(stage.writer.pk, stage.planner.pk, stage.planner.pk, "canceled"): 1}


def test_a_sweep_that_breaks_off_leaves_nothing_behind(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(stage, 12)
    add = tallies._add

    def broken(numbers: Any) -> None:
        add(numbers)
        raise RuntimeError("it is killed here")

    monkeypatch.setattr(tallies, "_add", broken)
    with pytest.raises(RuntimeError):
        tallies.add_up()
    assert (tallied(), Task.objects.filter(tallied_at=None).count(), all_of_them()) == ({}, 12, 12)
    monkeypatch.setattr(tallies, "_add", add)
    assert (tallies.add_up(), all_of_them()) == (12, 12)


def test_two_sweeps_at_once_count_each_task_once_and_who_asks_meanwhile_is_told_the_same(
    open_stage: Stage, few_at_once: None
) -> None:
    count, gate = 40 * TOGETHER, threading.Barrier(3)
    ended(open_stage, count)

    def sweeps() -> int:
        gate.wait(PATIENCE)
        done = 0
        try:
            while added := tallies.add_up():
                done += added
        finally:
            connection.close()
        return done

    told: set[int] = set()
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(sweeps) for _ in range(2)]
        gate.wait(PATIENCE)
        while not all(one.done() for one in both):
            told.add(all_of_them())
        # One may have found only what the other held, and gone.
        assert sum(one.result() for one in both) + tallies.add_up() == count
    assert told <= {count}
    assert tallied() == Counter(Task.objects.order_by().values_list(*KEY))
    assert not Task.objects.filter(tallied_at=None).exists()


def test_after_an_upgrade_the_number_is_exact_before_and_after_what_was_there_is_tallied(open_stage: Stage) -> None:
    with back_at("a2a", "0004_task_cancel_reason"), connection.cursor() as cursor:
        ended_before = put(open_stage.writer, open_stage.planner, open_stage.planner.pk, TaskState.COMPLETED)
        known = {column.name for column in connection.introspection.get_table_description(cursor, "a2a_task")}
        columns = [field for field in Task._meta.concrete_fields if field.column in known]
        assert "tallied_at" not in known
        names, places = ", ".join(field.column for field in columns), ", ".join(["%s"] * len(columns))
        values = [field.get_db_prep_save(getattr(ended_before, field.attname), connection) for field in columns]
        cursor.execute(f"INSERT INTO a2a_task ({names}) VALUES ({places})", values)
    open_stage.sent()
    assert (all_of_them(), tallied()) == (2, {})
    sweep()
    assert (all_of_them(), sum(tallied().values())) == (2, 1)


def test_a_number_costs_no_look_at_what_is_tallied(open_stage: Stage) -> None:
    # From the start: what marking leaves dead in the index is removed only once nobody anywhere may still see it.
    ended(open_stage, 2000, marked=True)
    Task.objects.bulk_create(put(open_stage.writer, None, None, state) for state in sorted(OPEN))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE a2a_task" if connection.vendor == "postgresql" else "ANALYZE")
    for actor in (SYSTEM, actors.identity(open_stage.planner)):
        with CaptureQueriesContext(connection) as asked:
            tallies.total(lambda tasks, actor=actor: tasks.visible_to(actor))  # type: ignore[misc]  # one of the loop
        assert len(asked) == 1
        plan = plans.of(asked[0]["sql"])
        assert "a2a_task_untallied" in plan.text
        assert plan.rows is None or plan.rows < 100
