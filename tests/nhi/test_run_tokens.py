"""The token of a run: it names the run, ends with it, carries no console role, and is no credential that people see."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from common.db import clock
from common.ids import uuid7
from nhi import celery_tasks
from nhi.actors import SYSTEM
from nhi.authorization import authentication, oauth
from nhi.console import attention_counts
from nhi.credentials import credentials, run_tokens, tokens
from nhi.identities import identities, lifecycle
from nhi.models import Credential, Identity, RefusedAuthentication
from tests.nhi import cast
from tests.nhi.tokens import crc, of_run, shown

pytestmark = [pytest.mark.capability("SUP-11"), pytest.mark.django_db, pytest.mark.both_databases]


def opened(of: Identity, run: UUID | None = None, *, seconds: float = 600) -> str:
    return of_run(identity=of, execution_id=run or uuid7(), seconds=seconds, actor=cast.admin())


def row_of(run: UUID) -> Credential:
    return Credential.runs.get(execution_id=run)


def test_it_says_whose_run_it_is_and_costs_one_row() -> None:
    bot, run, mara = cast.agent(), uuid7(), cast.admin()
    with transaction.atomic(), CaptureQueriesContext(connection) as asked:
        token = of_run(identity=bot, execution_id=run, seconds=600, actor=mara)
    assert len([query for query in asked.captured_queries if "SAVEPOINT" not in query["sql"]]) == 2, "the time, a row"
    found = authentication.authenticate(token)
    row = row_of(run)
    assert found.loaded_facts.token is not None
    assert (found.actor.id, found.loaded_facts.token.execution_id) == (bot.pk, run)
    assert (row.created_by_id, row.created_by_name, row.lifetime) == (mara.id, "mara", timedelta(minutes=10))
    with pytest.raises(IntegrityError), transaction.atomic():
        opened(bot, run)


def test_it_ends_with_its_run_and_alone() -> None:
    bot, runs = cast.agent(), [uuid7() for _ in range(3)]
    held = [opened(bot, run) for run in runs]
    assert [shown(token) for token in held] == ["", "", ""]
    assert run_tokens.close(execution_ids=runs[:2], at=clock.database_now()) == 2
    closed = row_of(runs[0])
    assert run_tokens.close(execution_ids=[*runs[:2], uuid7()], at=clock.database_now()) == 0
    assert run_tokens.close(execution_ids=[], at=clock.database_now()) == 0
    assert row_of(runs[0]).revoked_at == closed.revoked_at
    assert closed.revoke_reason == "The run has ended."
    assert [shown(token) for token in held] == ["credential_revoked", "credential_revoked", ""]
    assert {row.public_id for row in RefusedAuthentication.objects.all()} == {row_of(run).public_id for run in runs[:2]}


def test_it_ends_by_the_databases_clock_when_nobody_closes_it() -> None:
    assert shown(opened(cast.agent(), seconds=0)) == "token_expired"


def test_a_stop_of_its_agent_ends_it_and_a_start_does_not_bring_it_back() -> None:
    bot = cast.agent()
    token = opened(bot)
    stopped = lifecycle.suspend(actor=SYSTEM, identity=bot, reason="Odd calls")
    assert stopped.stopped["tokens"] == 0, "runs are counted as runs"
    assert shown(token) == "token_stopped"
    assert shown(opened(stopped.identity)) == "caller_suspended"
    again = lifecycle.activate(actor=SYSTEM, identity=stopped.identity, reason="Fine again")
    assert shown(token) == "token_stopped"
    late = opened(again)
    over = lifecycle.deprecate(actor=SYSTEM, identity=again, reason="Old")
    lifecycle.archive(actor=SYSTEM, identity=over, reason="Gone")
    assert shown(late) == "token_stopped"
    assert cast.events(bot).count("credential.revoked") == 0


def test_it_is_none_of_the_two_that_people_look_after() -> None:
    bot = cast.agent()
    runs = [uuid7() for _ in range(3)]
    held = [opened(bot, run) for run in runs]
    credentials.rotate(actor=SYSTEM, credential=credentials.issue(actor=SYSTEM, holder=bot).credential)
    with pytest.raises(credentials.TooManyLiveCredentials):
        credentials.issue(actor=SYSTEM, holder=bot)
    assert lifecycle.consequences(bot)["tokens"] == 2
    assert not attention_counts.credentials_ending(cast.admin()).filter(execution_id__isnull=False)
    new = credentials.replace(actor=SYSTEM, holder=bot)
    assert [shown(token) for token in held] == ["", "", ""]
    assert [row.pk for row in Credential.objects.live().filter(identity=bot)] == [new.credential.pk]
    assert not Credential.objects.visible_to(cast.admin()).filter(public_id=row_of(runs[0]).public_id)


def test_its_row_alone_lets_nobody_in() -> None:
    bot, run = cast.agent(), uuid7()
    token = opened(bot, run)
    public_id = row_of(run).public_id
    body = f"nhi_agt_{public_id}_{'A' * 40}"
    assert shown(body + crc(body)) == "credential_unknown"
    for secret in (token, body + crc(body)):
        with pytest.raises(authentication.Unauthenticated) as refused:
            oauth.exchange(client_id=public_id, secret=secret)
        assert refused.value.reason == "credential_unknown", "nothing outlives the run"
    issued = credentials.issue(actor=SYSTEM, holder=bot).credential
    now = int(clock.database_now().timestamp() * 1000)
    borrowed = tokens.ShortTokenClaims(bot.pk, issued.pk, now, now + 60_000, execution_id=run)
    assert shown(tokens.mint_short_token(borrowed)) == "credential_unknown", "a run's token stands on its own row"


def test_it_carries_no_console_role() -> None:
    nightly = cast.service()
    identities.set_console_roles(actor=SYSTEM, identity=nightly, roles=["security-admin"])
    whole = authentication.authenticate(credentials.issue(actor=SYSTEM, holder=nightly).token)
    run = authentication.authenticate(opened(nightly))
    assert whole.actor.may("nhi.issue_credential")
    assert run.actor.rights == frozenset()


def test_what_ended_a_day_ago_is_forgotten_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    bot = cast.agent()
    closed, expired, lately, live = runs = [uuid7() for _ in range(4)]
    for run in runs:
        opened(bot, run)
    standing = credentials.issue(actor=SYSTEM, holder=bot).credential
    Credential.objects.filter(pk=standing.pk).update(expires_at=cast.past(hours=25))
    run_tokens.close(execution_ids=[closed, lately], at=clock.database_now())
    Credential.runs.filter(execution_id=closed).update(revoked_at=cast.past(hours=25))
    Credential.runs.filter(execution_id=expired).update(expires_at=cast.past(hours=25))
    monkeypatch.setattr(run_tokens, "MAX_REMOVED", 1)
    assert run_tokens.remove_old(clock.database_now()) == 1
    celery_tasks.sweep()
    assert set(Credential.runs.values_list("execution_id", flat=True)) == {lately, live}
    assert run_tokens.remove_old(clock.database_now()) == 0
    assert Credential.objects.filter(pk=standing.pk).exists()
