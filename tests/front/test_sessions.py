"""Sessions: for one identity, one endpoint and seven days; over as soon as one of them is not so any more."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F

from common.db import clock
from common.errors import RateLimited
from mcp import celery_tasks
from mcp.models import McpSession, SessionStartCount
from mcp.server.handshake import session_ids, sessions
from mcp.server.handshake.sessions import SessionNotFound, SessionRequired
from nhi.actors import SYSTEM
from nhi.authorization.authentication import Unauthenticated
from nhi.credentials import credentials
from nhi.identities import lifecycle
from nhi.models import Identity
from nhi.people import people
from tests.front.handshake import token
from tests.nhi import cast

pytestmark = [
    pytest.mark.capability("MCP-06"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.both_databases,
]


@pytest.fixture
def bot() -> Identity:
    return cast.agent()


@pytest.fixture
def bearer(bot: Identity) -> str:
    return token(bot)


def start(bearer: str, server: str = "") -> str:
    return sessions.start(bearer, server=server, version="2025-06-18", capabilities=frozenset({"roots"}))


def check(bearer: str, session_id: str | None, server: str = "") -> sessions.CheckedSession:
    return sessions.check(bearer, session_id, server=server)


def test_a_session_is_served_to_its_identity(bot: Identity, bearer: str) -> None:
    session = check(bearer, start(bearer))
    assert (session.claims.version, session.claims.capabilities) == ("2025-06-18", {"roots"})
    assert session.claims.identity_id == bot.pk
    assert not McpSession.objects.exists(), "there is nothing to remember"


def test_a_renewed_token_keeps_its_session(bot: Identity, bearer: str) -> None:
    session_id = start(bearer)
    assert check(token(bot), session_id).id == session_id


def refusal(bearer: str, session_id: str, server: str = "") -> str:
    with pytest.raises(SessionNotFound) as refused:
        check(bearer, session_id, server)
    return refused.value.message


def test_whatever_is_wrong_with_it_the_answer_is_the_same(bot: Identity, bearer: str, monkeypatch: Any) -> None:
    session_id = start(bearer)
    messages = {
        refusal(bearer, "nonsense"),
        refusal(bearer, session_id[:-1] + ("A" if session_id[-1] != "A" else "B")),
        refusal(token(cast.agent("other")), session_id),
        refusal(bearer, session_id, "todo"),
    }
    ended = start(bearer)
    sessions.end(check(bearer, ended))
    messages.add(refusal(bearer, ended))
    monkeypatch.setattr(sessions, "SESSION_LIFETIME", timedelta(0))
    messages.add(refusal(bearer, session_id))
    assert messages == {"There is no such session. Send initialize again, without Mcp-Session-Id."}


def test_a_session_of_one_server_is_none_of_another_and_none_of_all(bearer: str) -> None:
    session_id = start(bearer, "todo")
    assert check(bearer, session_id, "todo").id == session_id
    for server in ("", "other", "Todo"):
        refusal(bearer, session_id, server)


def test_a_session_is_valid_for_seven_days_from_its_start(bearer: str, monkeypatch: Any) -> None:
    session_id, issue = start(bearer), session_ids.issue
    assert check(bearer, session_id).expires_at - clock.database_now() > timedelta(days=7) - timedelta(minutes=1)

    def issue_earlier(claims: Any) -> str:
        claims.__dict__["issued_at"] -= age
        return issue(claims)

    monkeypatch.setattr(session_ids, "issue", issue_earlier)
    age = 7 * 24 * 3600 - 60
    assert check(bearer, start(bearer))
    age = 7 * 24 * 3600 + 1
    refusal(bearer, start(bearer))


def test_a_suspension_ends_every_session_and_says_401_first(bot: Identity, bearer: str) -> None:
    session_id = start(bearer)
    lifecycle.suspend(actor=cast.admin(), identity=bot, reason="It ran wild")
    with pytest.raises(Unauthenticated):
        check(bearer, session_id)
    with pytest.raises(Unauthenticated):
        check(bearer, "nonsense")
    bot.refresh_from_db()
    lifecycle.activate(actor=cast.admin(), identity=bot, reason="It is tame again")
    refusal(token(bot), session_id)


def test_without_a_session_one_is_required_of_whoever_is_known(bearer: str) -> None:
    with pytest.raises(SessionRequired):
        check(bearer, None)
    with pytest.raises(Unauthenticated):
        check("nhi_agt_x", None)


def test_a_person_has_no_session() -> None:
    person = people.create(actor=SYSTEM, username="pia").user
    issued = credentials.issue(actor=SYSTEM, holder=person).token
    with pytest.raises(Unauthenticated):
        start(issued)


def elsewhere(work: Any, *arguments: Any) -> Any:
    """In another thread, which has a connection of its own, as another process has."""

    def done() -> Any:
        try:
            return work(*arguments)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as aside:
        return aside.submit(done).result(20)


def test_an_end_is_the_end_in_every_process(bearer: str) -> None:
    session_id = start(bearer)
    elsewhere(lambda: sessions.end(check(bearer, session_id)))
    refusal(bearer, session_id)
    assert start(bearer) != session_id, "another one may begin"


def test_a_session_that_ends_twice_keeps_its_first_end(bearer: str) -> None:
    session = check(bearer, start(bearer))
    sessions.end(session)
    sessions.end(replace(session, checked_at=session.checked_at + timedelta(minutes=1)))
    refusal(bearer, session.id)
    row = McpSession.objects.get()
    assert (row.key, row.identity_id) == (session.key, session.claims.identity_id)
    assert (row.ended_at, row.expires_at) == (session.checked_at, session.expires_at)


def test_an_ended_session_is_remembered_as_long_as_its_id_could_pass(bearer: str) -> None:
    session = check(bearer, start(bearer))
    sessions.end(session)
    now = clock.database_now()
    McpSession.objects.update(ended_at=now - timedelta(days=6), expires_at=now + timedelta(minutes=1))
    sessions.remove_expired()
    refusal(bearer, session.id)
    McpSession.objects.update(expires_at=now - timedelta(hours=23))
    sessions.remove_expired()
    assert McpSession.objects.count() == 1
    McpSession.objects.update(expires_at=now - timedelta(hours=25))
    celery_tasks.tidy()
    assert not McpSession.objects.exists()


def test_sixty_sessions_a_minute_are_started_over_all_processes(bot: Identity, bearer: str) -> None:
    start(bearer)
    counted = SessionStartCount.objects.filter(identity_id=bot.pk)
    minute = clock.database_now().replace(second=0, microsecond=0)
    # Of this minute and of the next, in case it begins now.
    counted.delete()
    for first in (minute, minute + timedelta(minutes=1)):
        SessionStartCount.objects.create(identity_id=bot.pk, minute=first, total=58)
    for _ in range(2):
        assert elsewhere(start, bearer)
    assert sum(counted.values_list("total", flat=True)) == 118
    counted.update(total=60)
    with pytest.raises(RateLimited) as refused:
        start(bearer)
    assert 1 <= refused.value.retry_after <= 60
    assert start(token(cast.agent("other"))), "others may go on"
    counted.update(minute=F("minute") - timedelta(minutes=8))
    sessions.remove_expired()
    assert not counted.exists()


def test_the_key_of_a_cancellation_is_of_one_session_and_one_id(bearer: str) -> None:
    mine, other = (check(bearer, start(bearer)) for _ in range(2))
    keys = [session.make_cancel_key(given) for session in (mine, other) for given in (1, "1", 2, "a")]
    assert len(set(keys)) == 8
    assert mine.make_cancel_key(1) == check(bearer, mine.id).make_cancel_key(1)
