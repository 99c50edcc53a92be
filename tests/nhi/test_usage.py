"""Last uses are noted in memory and written together: at most a minute late, never backwards, never on the hot path."""

import threading
from collections.abc import Iterator

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from common import context
from common.db import clock
from common.ids import uuid7
from nhi.actors import SYSTEM
from nhi.authorization import authentication
from nhi.credentials import credentials, last_used
from nhi.models import Credential, Identity
from tests.nhi import cast

pytestmark = [pytest.mark.capability("NHI-04"), pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture(autouse=True)
def ledger(monkeypatch: pytest.MonkeyPatch) -> Iterator[last_used.LastUsedRecorder]:
    """One without a thread, so that the test says when it is written."""
    own = last_used.LastUsedRecorder()
    own._thread = threading.current_thread()
    monkeypatch.setattr(last_used, "recorder", own)
    yield own


def use(token: str, source: str) -> None:
    with context.bind_context(context.RequestContext(uuid7(), source)):
        authentication.authenticate(token)


def test_it_is_written_within_a_minute() -> None:
    assert last_used.FLUSH_SECONDS <= 60


def test_a_use_is_written_at_the_next_turn_and_not_before(ledger: last_used.LastUsedRecorder) -> None:
    bot = cast.agent()
    issued = credentials.issue(actor=SYSTEM, holder=bot)
    before = clock.database_now()
    with CaptureQueriesContext(connection) as asked:
        for number in range(20):
            use(issued.token, f"192.0.2.{number}")
    assert not [query for query in asked.captured_queries if query["sql"].startswith("UPDATE")]
    assert Credential.objects.get(pk=issued.credential.pk).last_used_at is None
    with CaptureQueriesContext(connection) as asked:
        assert ledger.flush() == 1
    assert len(asked) == 2, "twenty uses, one row for the credential and one for its holder"
    used = Credential.objects.get(pk=issued.credential.pk)
    assert used.last_used_at is not None
    assert before <= used.last_used_at <= clock.database_now()
    assert used.last_used_from == "192.0.2.19"
    assert Identity.objects.get(pk=bot.pk).last_activity_at == used.last_used_at
    assert ledger.flush() == 0


def test_an_older_use_of_another_process_does_not_overwrite_a_newer_one(ledger: last_used.LastUsedRecorder) -> None:
    bot = cast.agent()
    credential = credentials.issue(actor=SYSTEM, holder=bot).credential
    newer, older = cast.past(seconds=5), cast.past(minutes=5)
    for at, source in ((newer, "192.0.2.1"), (older, "192.0.2.2")):
        last_used.record_use(credential, at=at, source=source)
        ledger.flush()
    used = Credential.objects.get(pk=credential.pk)
    assert used.last_used_from == "192.0.2.1"
    assert Identity.objects.get(pk=bot.pk).last_activity_at == used.last_used_at


def test_a_refused_use_is_no_use(ledger: last_used.LastUsedRecorder) -> None:
    issued = credentials.issue(actor=SYSTEM, holder=cast.agent())
    credentials.revoke(actor=SYSTEM, credential=issued.credential, reason="Leak")
    with pytest.raises(authentication.Unauthenticated):
        use(issued.token, "192.0.2.1")
    assert ledger.flush() == 0


def test_its_thread_outlives_any_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    own, turns = last_used.LastUsedRecorder(), threading.Semaphore(0)

    def broken() -> int:
        turns.release()
        raise [DatabaseError, RuntimeError, KeyError][own_turns.pop() % 3]

    own_turns = [2, 1, 0]
    monkeypatch.setattr(last_used, "FLUSH_SECONDS", 0.001)
    monkeypatch.setattr(own, "flush", broken)
    monkeypatch.setattr(last_used.log, "disabled", True)
    usage_thread = threading.Thread(target=own._run, daemon=True)
    usage_thread.start()
    assert all(turns.acquire(timeout=10) for _ in range(4)), "it goes on after each of them"
    monkeypatch.setattr(own, "flush", lambda: 0)
    monkeypatch.setattr(last_used, "FLUSH_SECONDS", 3600)
