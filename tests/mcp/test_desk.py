"""The clerk's desk under what goes wrong beside a call: one bad call harms no other, and nobody waits in a circle."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from common import canonical_json
from common.db import clock
from common.errors import RecordUnavailable
from mcp.gateway import arguments, pipeline
from mcp.gateway.batch import batch_transaction, database, decision, result_writer, worker
from mcp.gateway.batch.worker import BatchWorker, batch_worker
from mcp.gateway.types import (
    CallLease,
    CallRefusal,
    CallRequest,
    CallResult,
    CheckedArguments,
    DatabaseUnavailable,
    GatewayOverloaded,
)
from mcp.models import Breaker, Call, CallApproval
from nhi.models import InvocationLog, RefusedAuthentication
from tests.mcp import peer
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, do, run, scene
from tests.nhi.tokens import forged
from tests.services.waiting import wait_for

pytestmark = [
    pytest.mark.capability("AUD-02", "NHI-10", "NHI-14", "MCP-09"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def far_side(settings: Any) -> Iterator[Peer]:
    with peer.serving("echo", "poison") as one:
        settings.EGRESS_ALLOW = frozenset({f"127.0.0.1:{one.port}"})
        yield one


@pytest.fixture
def made(far_side: Peer) -> Scene:
    known = scene(far_side.url)
    for tool in ("echo", "poison"):
        assert known.call(tool).status == "success"
    far_side.forget()
    return known


def wish(
    made: Scene, tool: str = "echo", agent: str = "bot", **parameters: Any
) -> tuple[CallRequest, CheckedArguments]:
    """A call as the pipeline gives it to the desk."""
    ask = made.ask(tool, parameters, agent=agent)
    return ask, arguments.check_remembered_schemas(ask)


@contextmanager
def desks(count: int) -> Iterator[list[BatchWorker]]:
    """As in so many processes: each with a thread and a connection of its own."""
    made = [BatchWorker() for _ in range(count)]
    try:
        yield made
    finally:
        for one in made:
            one.stop()


def at_once(work: list[Callable[[], Any]]) -> list[Any]:
    ready = threading.Barrier(len(work))

    def begin(one: Callable[[], Any]) -> Any:
        try:
            ready.wait(10)
            return one()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(work)) as aside:
        return [future.result(20) for future in [aside.submit(begin, one) for one in work]]


def test_a_fault_of_ours_in_one_call_spoils_no_other(made: Scene, far_side: Peer, monkeypatch: Any) -> None:
    decide = decision.decide_call

    def break_down(found: Any, about: CallRequest, *behind: Any) -> Any:
        if about.tool == "poison":
            raise ZeroDivisionError
        return decide(found, about, *behind)

    monkeypatch.setattr(decision, "decide_call", break_down)

    async def together() -> list[Any]:
        asks = [made.ask("poison" if number % 4 == 0 else "echo") for number in range(20)]
        return await asyncio.gather(*(pipeline.call_tool(ask) for ask in asks), return_exceptions=True)

    answers = run(together())
    assert [isinstance(answer, ZeroDivisionError) for answer in answers] == [number % 4 == 0 for number in range(20)]
    assert sum(getattr(answer, "status", "") == "success" for answer in answers) == 15
    assert {call["params"]["name"] for call in far_side.calls} == {"echo"}


REFUSES_ONE = {
    "postgresql": (
        "CREATE FUNCTION refuse_one() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.method = 'poison' AND"
        " NEW.status = 'success' THEN RAISE EXCEPTION 'no'; END IF; RETURN NEW; END $$;"
        " CREATE TRIGGER refuse_one BEFORE INSERT ON nhi_invocation_log FOR EACH ROW EXECUTE FUNCTION refuse_one()"
    ),
    "sqlite": (
        "CREATE TRIGGER refuse_one BEFORE INSERT ON nhi_invocation_log WHEN NEW.method = 'poison' AND"
        " NEW.status = 'success' BEGIN SELECT RAISE(ABORT, 'no'); END"
    ),
}
REFUSES_NONE = {
    "postgresql": "DROP TRIGGER refuse_one ON nhi_invocation_log; DROP FUNCTION refuse_one()",
    "sqlite": "DROP TRIGGER refuse_one",
}


def test_one_row_that_is_refused_for_itself_stops_nobody_for_long(made: Scene, far_side: Peer) -> None:
    """It ends as lost, with its lease; the others go on."""
    do((REFUSES_ONE[connection.vendor],))
    try:
        before = set(InvocationLog.objects.values_list("pk", flat=True))
        with pytest.raises(RecordUnavailable):
            made.call("poison")
        wait_for(lambda: calls_again(made), 5, "called again")
        [lease] = Call.objects.all()
        Call.objects.update(deadline=clock.database_now() - timedelta(seconds=1))
        assert result_writer.reap_lost_calls() == 1
        row = InvocationLog.objects.get(pk=lease.pk)
        assert (row.status, row.reason) == ("error", "lost")
        rows = InvocationLog.objects.exclude(pk__in=before).values_list("pk", flat=True)
        assert {str(pk) for pk in rows} == set(far_side.call_ids), "a row for each call that was sent"
    finally:
        do((REFUSES_NONE[connection.vendor],))


def calls_again(made: Scene) -> bool:
    try:
        return made.call().status == "success"
    except RecordUnavailable:
        return False


def test_a_connection_that_was_ended_is_made_anew(made: Scene) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("An embedded database has no connections to end")
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    do((f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}",))
    answers = []
    for _ in range(3):
        try:
            answers.append(made.call().status)
        except DatabaseUnavailable:
            answers.append("away")
    # Whoever comes next finds no connection of this test's making dead.
    connection.pool.check()
    connection.pool.wait(10)
    assert answers[1:] == ["success"] * 2, "at most those who were first to find out are told so"


def test_the_same_call_asked_for_at_several_places_waits_once(far_side: Peer) -> None:
    made = scene(far_side.url, requires_approval=True)
    assert made.call().status == "pending_approval"
    with desks(3) as several:
        for number in range(8):
            wishes = [wish(made, n=number) for _ in several]
            found = at_once([
                lambda one=one, about=about: one.decide(*about).result(10)
                for one, about in zip(several, wishes, strict=True)
            ])  # fmt: skip
            assert [answer.reason for answer in found] == ["approval_required"] * 3
            assert len({answer.expires_at for answer in found}) == 1
    assert CallApproval.objects.count() == 9
    assert sum(CallApproval.objects.values_list("attempts", flat=True)) == 25
    assert InvocationLog.objects.filter(reason="approval_required").count() == 25


def test_crossed_waits_for_approval_end(far_side: Peer) -> None:
    """Each asks again for the same two calls, in another order: nobody waits for whoever waits for it."""
    made = scene(far_side.url, requires_approval=True)
    made.call("echo")
    made.call("poison")
    with desks(2) as (one, other):
        for _ in range(6):
            found = at_once([
                lambda: together(one, [wish(made, "echo"), wish(made, "poison")]),
                lambda: together(other, [wish(made, "poison"), wish(made, "echo")]),
            ])  # fmt: skip
            assert all(isinstance(answer, CallRefusal) for answers in found for answer in answers)


def test_a_call_whose_row_was_held_for_too_long_is_decided_again(
    far_side: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = waiting_call(far_side, monkeypatch)
    reserve, failures, freed = batch_transaction.reserve_calls, [], threading.Event()

    def reserve_and_free(requests: Sequence[tuple[CallRequest, CheckedArguments]]) -> Any:
        try:
            return reserve(requests)
        except OperationalError as error:
            failures.append(type(error.__cause__))
            freed.set()
            holder.join(10)
            raise

    monkeypatch.setattr(batch_transaction, "reserve_calls", reserve_and_free)
    holder = start_holder(freed)
    with desks(1) as (one,):
        assert one.decide(*wish(made)).result(10).reason == "approval_required"
    assert failures == [LockNotAvailable]


def test_a_row_that_stays_held_ends_the_calls_and_not_the_worker(
    far_side: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = waiting_call(far_side, monkeypatch)
    reserve, tries, freed = batch_transaction.reserve_calls, [], threading.Event()

    def reserve_and_count(requests: Sequence[tuple[CallRequest, CheckedArguments]]) -> Any:
        tries.append(1)
        return reserve(requests)

    monkeypatch.setattr(batch_transaction, "reserve_calls", reserve_and_count)
    holder = start_holder(freed)
    with desks(1) as (one,):
        with pytest.raises(DatabaseUnavailable):
            one.decide(*wish(made)).result(10)
        assert len(tries) == 2
        freed.set()
        holder.join(10)
        assert one.decide(*wish(made)).result(10).reason == "approval_required"


def test_waiting_for_rows_ends_before_callers_give_up() -> None:
    """A call may wait for a batch of results and a batch of requests, and each is tried twice."""
    assert 4 * database.LOCK_TIMEOUT_MS / 1000 < worker.ANSWER_TIMEOUT_SECONDS


def test_a_result_that_waits_to_be_written_keeps_no_body(made: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body has up to 16 MiB, the row has none of it, and in an outage results wait."""
    lease, bodies, write = held(made, "bot"), [], result_writer.write_results

    def note_and_write(results: Sequence[CallResult]) -> Any:
        bodies.extend(result.result for result in results)
        return write(results)

    monkeypatch.setattr(result_writer, "write_results", note_and_write)
    assert batch_worker.record(CallResult("success", result={"content": []}, lease=lease)).result(10)
    assert bodies == [None]


def test_a_call_beyond_what_can_be_decided_costs_no_hash(made: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise GatewayOverloaded("Full.", retry_after=1)

    monkeypatch.setattr(batch_worker, "require_capacity", refuse)
    monkeypatch.setattr(canonical_json, "encode", lambda _: 1 / 0)
    with pytest.raises(GatewayOverloaded):
        made.call()


def waiting_call(far_side: Peer, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Make a call that waits for approval, and let the batch worker give up on a lock after 200 ms.

    Skips the test on a database without locks of single rows.
    """
    if connection.vendor != "postgresql":
        pytest.skip("An embedded database has no locks of single rows")
    made = scene(far_side.url, requires_approval=True)
    made.call()
    monkeypatch.setattr(database, "SESSION_SETTINGS", ("SET lock_timeout = 200",))
    return made


def start_holder(freed: threading.Event) -> threading.Thread:
    """Return a thread that has locked the waiting approvals and keeps them locked until they are to be freed."""
    held = threading.Event()
    holder = threading.Thread(target=hold_approvals, args=(held, freed))
    holder.start()
    assert held.wait(10)
    return holder


def hold_approvals(held: threading.Event, freed: threading.Event) -> None:
    """Keep the waiting approvals locked until they are to be freed."""
    try:
        with transaction.atomic():
            list(CallApproval.objects.select_for_update())
            held.set()
            freed.wait(10)
    finally:
        connection.close()


def together(one: BatchWorker, wishes: list[tuple[CallRequest, CheckedArguments]]) -> list[Any]:
    """In one batch."""
    futures = [one.decide(*about) for about in wishes]
    return [future.result(10) for future in futures]


def test_crossed_faults_of_several_servers_end(far_side: Peer) -> None:
    first = scene(far_side.url, server="first", agents=["a"], breaker={"failure_threshold": 1000})
    second = scene(far_side.url, server="second", agents=["b"], breaker={"failure_threshold": 1000})
    first.call("echo", agent="a")
    second.call("echo", agent="b")
    rounds = 10
    for _ in range(rounds):
        sides = [
            [fault(held(first, "a")), fault(held(second, "b"))],
            [fault(held(second, "b")), fault(held(first, "a"))],
        ]
        written = at_once([lambda side=side: result_writer.write_results(side) for side in sides])
        assert [len(one) for one in written] == [2, 2]
    assert set(Breaker.objects.values_list("failure_count", flat=True)) == {2 * rounds}
    assert not Call.objects.exists()


def held(made: Scene, agent: str) -> CallLease:
    ticket = batch_worker.decide(*wish(made, agent=agent)).result(10)
    assert isinstance(ticket, CallLease)
    return ticket


def fault(ticket: CallLease) -> CallResult:
    return CallResult("error", "upstream", "It is broken.", lease=ticket, service_verdict="fault")


def test_strangers_who_come_at_several_places_are_all_counted(made: Scene) -> None:
    """From several addresses, in another order at each place."""
    stranger = forged(made.made["tokens"]["bot"])
    sources = [f"203.0.113.{number}" for number in range(10)]
    rounds = 15
    for _ in range(rounds):
        sides = [[bearing(made, stranger, source) for source in order] for order in (sources, sources[::-1])]
        found = at_once([lambda side=side: batch_transaction.reserve_calls(side) for side in sides])
        assert all(answer.unknown_bearer for answers in found for answer in answers.values())
    assert sum(RefusedAuthentication.objects.values_list("count", flat=True)) == 2 * rounds * len(sources)
    assert set(RefusedAuthentication.objects.values_list("source", flat=True)) == set(sources)
    assert InvocationLog.objects.count() == 2


def bearing(made: Scene, token: str, source: str) -> tuple[CallRequest, CheckedArguments]:
    return made.ask(agent=token, source=source), {}
