"""From the lease to the row: whatever is given up or comes late, each call has one row and no lease stays."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from common.db import clock
from mcp.gateway import arguments
from mcp.gateway.batch import active_calls, batch_transaction, result_writer
from mcp.gateway.batch.worker import batch_worker
from mcp.gateway.types import CallLease, CallResult
from mcp.models import Budget, BudgetWindow, Call, CallSlot
from nhi.audit import row_macs
from nhi.identities import lifecycle
from nhi.models import AuditEvent, Identity, InvocationLog
from tests.mcp.leases import made as made
from tests.mcp.leases import nothing_is_left, rows, warm_up
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, scene
from tests.nhi import cast
from tests.services.waiting import wait_for

pytestmark = [
    pytest.mark.capability("AUD-03", "AUD-02", "MCP-08", "NHI-03"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]


@contextmanager
def under_way(made: Scene, server: Peer, **more: Any) -> Iterator[tuple[UUID, Callable[[], CallResult]]]:
    """A call that the server holds, and how to let it end."""
    server.forget()
    server.hold()
    with ThreadPoolExecutor(1) as aside:
        asking = aside.submit(made.call, **more)
        wait_for(lambda: bool(server.calls), 5, "called")

        def end() -> CallResult:
            server.let_go()
            server.mode = "echo"
            return asking.result(10)

        [call_id] = server.call_ids
        try:
            yield UUID(call_id), end
        finally:
            server.let_go()


def overdue(call_id: UUID) -> None:
    past = clock.database_now() - timedelta(seconds=1)
    Call.objects.filter(pk=call_id).update(deadline=past)
    CallSlot.objects.filter(call_id=call_id).update(deadline=past)


def test_a_result_that_comes_after_the_reaper_is_told_and_not_logged_twice(made: Scene, server: Peer) -> None:
    with under_way(made, server) as (call_id, end):
        overdue(call_id)
        assert result_writer.reap_lost_calls() == 1
        assert rows() == [("error", "lost")]
        assert not CallSlot.objects.exists()
        outcome = end()
    assert (outcome.status, outcome.reason, outcome.error_code) == ("error", "lost", "Timeout")
    assert outcome.result is None
    assert rows() == [("error", "lost")]
    [event] = AuditEvent.objects.filter(event="call.late_result")
    assert event.subject_id == outcome.call_id == call_id
    assert event.details["status"] == "success"
    row = InvocationLog.objects.get()
    assert row_macs.is_intact(row)
    assert row.duration > 0
    assert nothing_is_left()


def test_reaping_again_finds_nothing(made: Scene, server: Peer) -> None:
    with under_way(made, server) as (call_id, end):
        assert result_writer.reap_lost_calls() == 0, "what is not overdue is left alone"
        overdue(call_id)
        assert [result_writer.reap_lost_calls(), result_writer.reap_lost_calls()] == [1, 0]
        end()
    assert rows() == [("error", "lost")]


def test_two_reapers_at_once_write_one_row_each(server: Peer) -> None:
    made = scene(server.url)
    warm_up(made)
    calls = orphans(made, 30)

    def reap() -> int:
        try:
            return result_writer.reap_lost_calls(limit=20) + result_writer.reap_lost_calls(limit=20)
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as aside:
        counts = [one.result() for one in [aside.submit(reap) for _ in range(3)]]
    assert sum(counts) == 30
    lost = InvocationLog.objects.filter(reason="lost")
    assert set(lost.values_list("pk", flat=True)) == calls
    assert all(row_macs.is_intact(row) for row in lost)
    assert not Call.objects.exists()


def orphans(made: Scene, count: int) -> set[UUID]:
    """Leases of a process that is gone."""
    wishes = [made.ask() for _ in range(count)]
    checked = arguments.check_remembered_schemas(wishes[0])
    held = [batch_worker.decide(wish, checked).result(10) for wish in wishes]
    assert all(isinstance(one, CallLease) for one in held)
    batch_worker.stop()
    batch_worker.restart()
    Call.objects.update(deadline=clock.database_now() - timedelta(seconds=1))
    return {wish.call_id for wish in wishes}


def test_a_lease_is_renewed_and_never_past_its_calls_end(made: Scene, server: Peer, monkeypatch: Any) -> None:
    monkeypatch.setattr(active_calls, "RENEW_INTERVAL_SECONDS", 0.0)
    with under_way(made, server) as (call_id, end):
        [flight] = [one for one in batch_worker.active_calls._by_call.values() if one.lease.call_id == call_id]
        soon = clock.database_now() + timedelta(seconds=1)
        Call.objects.update(deadline=soon)
        CallSlot.objects.update(deadline=soon)
        moved(call_id, soon)
        near = clock.database_now() + active_calls.LEASE_DURATION
        assert abs(Call.objects.get().deadline - near) < timedelta(seconds=3)
        assert abs(CallSlot.objects.get().deadline - Call.objects.get().deadline) < timedelta(seconds=2)
        # As if it had been under way for all of its time but five seconds.
        flight.started_at = time.monotonic() - flight.lease.timeout - 5
        before = Call.objects.get().deadline
        moved(call_id, before, earlier=True)
        assert Call.objects.get().deadline <= clock.database_now() + timedelta(seconds=5.5)
        flight.started_at = time.monotonic() - flight.lease.timeout - 11
        last = Call.objects.get().deadline
        wait_for(lambda mark=flight.renewed_at: flight.renewed_at > mark, 5, "looked at again")
        assert Call.objects.get().deadline == last, "nobody's slot is held for ever"
        assert end().status == "success"


def moved(call_id: UUID, before: datetime, *, earlier: bool = False) -> None:
    def has_moved() -> bool:
        now = Call.objects.get(pk=call_id).deadline
        return now < before if earlier else now > before

    wait_for(has_moved, 5, "renewed")


def test_access_that_changes_in_between_is_decided_anew_and_charged_once(
    made: Scene, server: Peer, monkeypatch: Any
) -> None:
    warm_up(made)
    lease, times = batch_transaction.write_leases, []

    def meanwhile(leases: Any, *more: Any) -> Any:
        times.extend([len(leases)] if leases else [])
        if len(times) == 1:
            # What a credential's revocation does, for another credential of the same agent.
            raise_epoch()
        return lease(leases, *more)

    monkeypatch.setattr(batch_transaction, "write_leases", meanwhile)
    outcome = made.call()
    assert (outcome.status, len(times)) == ("success", 2)
    assert Budget.objects.get().day_used == 2, "one for the call before, one for this"
    assert sum(BudgetWindow.objects.values_list("used", flat=True)) == 2
    assert rows() == [("success", "")] * 2


def raise_epoch() -> None:
    if connection.vendor == "postgresql":
        with ThreadPoolExecutor(1) as aside:
            aside.submit(raise_it).result(5)
    else:
        raise_it(keep=True)


def raise_it(*, keep: bool = False) -> None:
    from django.db.models import F

    Identity.objects.filter(name="bot").update(access_epoch=F("access_epoch") + 1)
    if not keep:
        connection.close()


def test_a_suspension_in_between_leaves_no_lease_and_costs_nothing(made: Scene, server: Peer, monkeypatch: Any) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite lets nobody in between: its one writer reads and writes alone")
    warm_up(made)
    lease, done = batch_transaction.write_leases, []

    def meanwhile(leases: Any, *more: Any) -> Any:
        if not done:
            done.append(True)
            with ThreadPoolExecutor(1) as aside:
                aside.submit(suspend).result(5)
        return lease(leases, *more)

    monkeypatch.setattr(batch_transaction, "write_leases", meanwhile)
    outcome = made.call()
    assert (outcome.status, outcome.reason) == ("unauthenticated", "caller_suspended")
    assert Budget.objects.get().day_used == 1
    assert len(server.calls) == 1
    assert nothing_is_left()


def suspend() -> None:
    try:
        lifecycle.suspend(actor=cast.admin(), identity=Identity.objects.get(name="bot"), reason="It ran wild")
    finally:
        connection.close()


def test_a_stop_that_another_process_says_ends_the_call_within_a_turn(made: Scene, server: Peer) -> None:
    with under_way(made, server) as (call_id, end):
        Call.objects.filter(pk=call_id).update(stop_reason="revoked_in_flight")
        wait_for(lambda: server.cancelled == 1, 5, "cancelled")
        assert end().reason == "revoked_in_flight"
    assert rows()[-1] == ("error", "revoked_in_flight")


def test_a_call_is_cancelled_by_its_key_and_its_own_identity(made: Scene, server: Peer) -> None:
    bot = Identity.objects.get(name="bot")
    with under_way(made, server, cancel_key="k" * 64) as (call_id, end):
        assert Call.objects.get(pk=call_id).cancel_key == "k" * 64
        assert active_calls.cancel_call(cast.agent("other").pk, "k" * 64) == 0
        assert active_calls.cancel_call(bot.pk, "l" * 64) == 0
        assert active_calls.cancel_call(bot.pk, "k" * 64) == 1
        assert active_calls.cancel_call(bot.pk, "k" * 64) == 0, "it stops already"
        wait_for(lambda: server.cancelled == 1, 5, "cancelled")
        outcome = end()
    assert (outcome.status, outcome.reason) == ("error", "cancelled")
    assert rows()[-1] == ("error", "cancelled")
    assert nothing_is_left()
