"""A log that cannot be written: nothing is decided and nothing sent until a row could be written again."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.db.backends.signals import connection_created

from common.errors import RecordUnavailable
from mcp.gateway import pipeline
from mcp.gateway.batch.worker import batch_worker
from mcp.models import Call
from nhi.audit import row_macs
from nhi.models import InvocationLog
from tests.mcp.peer import Peer
from tests.mcp.scene import Scene, do, run, scene, until
from tests.services.waiting import wait_for

pytestmark = [
    pytest.mark.capability("AUD-02", "AUD-03"),
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
]
BROKEN = {
    "postgresql": (
        (
            "CREATE FUNCTION refuse_for_a_test() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'disk full'; END $$"
        ),
        (
            "CREATE TRIGGER refuse_for_a_test BEFORE INSERT ON nhi_invocation_log"
            " FOR EACH ROW EXECUTE FUNCTION refuse_for_a_test()"
        ),
    ),
    "sqlite": (
        (
            "CREATE TRIGGER refuse_for_a_test BEFORE INSERT ON nhi_invocation_log"
            " BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        ),
    ),
}
MENDED = {
    "postgresql": ("DROP TRIGGER refuse_for_a_test ON nhi_invocation_log", "DROP FUNCTION refuse_for_a_test()"),
    "sqlite": ("DROP TRIGGER refuse_for_a_test",),
}


@contextmanager
def a_log_that_refuses() -> Iterator[Callable[[], None]]:
    """And how to mend it."""
    do(BROKEN[connection.vendor])
    mended: list[bool] = []

    def mend() -> None:
        if not mended:
            mended.append(True)
            do(MENDED[connection.vendor])

    try:
        yield mend
    finally:
        mend()


@pytest.fixture
def made(server: Peer) -> Scene:
    known = scene(server.url, agents=["bot", "stranger"], without=["stranger"])
    assert known.call().status == "success"
    server.forget()
    return known


def refused(made: Scene, agent: str = "bot") -> None:
    with pytest.raises(RecordUnavailable):
        made.call(agent=agent)


def test_after_one_row_that_could_not_be_written_nothing_is_sent(made: Scene, server: Peer) -> None:
    with a_log_that_refuses() as mend:
        refused(made)
        assert len(server.calls) == 1, "the call that found it out"
        for _ in range(5):
            refused(made)
        refused(made, "stranger")
        assert len(server.calls) == 1, "nothing after it"
        assert InvocationLog.objects.count() == 1
        assert Call.objects.count() == 1, "its lease is kept"
        mend()
        wait_for(lambda: InvocationLog.objects.count() == 2, 5, "recorded")
    assert made.call().status == "success"
    [row] = InvocationLog.objects.filter(pk__in=server.call_ids).exclude(
        pk=InvocationLog.objects.latest("timestamp", "id").pk
    )
    assert (row.status, row.reason) == ("success", ""), "the call was made, and now has its row"
    assert row_macs.is_intact(row)
    assert not Call.objects.exists()


def test_a_refusal_that_could_not_be_written_stops_the_deciding_too(made: Scene, server: Peer) -> None:
    with a_log_that_refuses() as mend:
        refused(made, "stranger")
        for _ in range(3):
            refused(made)
        assert server.calls == []
        assert not Call.objects.exists()
        mend()
        assert made.call().status == "success", "the next one finds that it works"
    assert made.call(agent="stranger").reason == "no_grant"


def test_all_calls_in_flight_get_their_rows_when_it_works_again(made: Scene, server: Peer) -> None:
    async def many() -> list[Any]:
        tasks = [asyncio.create_task(pipeline.call_tool(made.ask())) for _ in range(10)]
        await until(lambda: len(server.calls) == 10, "called")
        await asyncio.to_thread(break_it)
        server.let_go()
        return await asyncio.gather(*tasks, return_exceptions=True)

    server.hold()
    answers = run(many())
    try:
        assert [type(answer) for answer in answers] == [RecordUnavailable] * 10
        assert Call.objects.count() == 10
    finally:
        do(MENDED[connection.vendor])
    wait_for(lambda: InvocationLog.objects.filter(pk__in=server.call_ids).count() == 10, 5, "recorded")
    assert set(InvocationLog.objects.values_list("status", flat=True)) == {"success"}
    assert not Call.objects.exists()
    server.mode = "echo"
    assert made.call().status == "success"


def test_a_right_that_is_gone_is_seen_before_anything_is_sent(made: Scene, server: Peer) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("An embedded database has no rights to lose")
    with as_somebody() as role:
        assert made.call().status == "success", "who owns nothing can do all of it"
        server.forget()
        do((f"REVOKE INSERT ON nhi_invocation_log FROM {role}",))
        for agent in ("bot", "stranger", "bot"):
            refused(made, agent)
        assert server.calls == []
        assert not Call.objects.exists()
        do((f"GRANT INSERT ON nhi_invocation_log TO {role}",))
        assert made.call().status == "success"


@contextmanager
def as_somebody() -> Iterator[str]:
    """The clerk works under a role that owns nothing and may do what the documents say."""
    role = "clerk_of_a_test"
    rights = "SELECT, INSERT, UPDATE, DELETE"
    do((
        f"CREATE ROLE {role}", f"GRANT {rights} ON ALL TABLES IN SCHEMA public TO {role}",
        f"REVOKE UPDATE, DELETE ON nhi_invocation_log, nhi_audit_event FROM {role}",
    ))  # fmt: skip

    def become(connection: Any, **_: Any) -> None:
        if threading.current_thread().name == "clerk":
            with connection.cursor() as cursor:
                cursor.execute(f"SET ROLE {role}")

    batch_worker.stop()
    connection_created.connect(become)
    try:
        yield role
    finally:
        connection_created.disconnect(become)
        batch_worker.stop()
        do((f"DROP OWNED BY {role}", f"DROP ROLE {role}"))


def break_it() -> None:
    try:
        do(BROKEN[connection.vendor])
    finally:
        connection.close()
