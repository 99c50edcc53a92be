"""Refused tokens: 401 whatever is wrong, and one row a minute for each id and source, with a count."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection

from common import context
from common.db import clock
from common.errors import RecordUnavailable
from common.ids import uuid7
from nhi.actors import SYSTEM
from nhi.audit import authentication_failures
from nhi.authorization import authentication
from nhi.credentials import credentials, tokens
from nhi.identities import lifecycle
from nhi.models import Credential, Identity, RefusedAuthentication, User
from tests.nhi import cast

pytestmark = [pytest.mark.capability("NHI-04", "AUD-01"), pytest.mark.django_db, pytest.mark.both_databases]


def refused(token: str, source: str = "192.0.2.1") -> str:
    with (
        pytest.raises(authentication.Unauthenticated) as error,
        context.bind_context(context.RequestContext(uuid7(), source)),
    ):
        authentication.authenticate(token)
    assert error.value.reason == error.value.details["reason"]
    return error.value.reason


def rows() -> list[tuple[str, str, str, int]]:
    return sorted(RefusedAuthentication.objects.values_list("public_id", "source", "reason", "count"))


def test_one_row_for_each_id_and_source_with_a_count() -> None:
    issued = credentials.issue(actor=SYSTEM, holder=cast.agent())
    credentials.revoke(actor=SYSTEM, credential=issued.credential, reason="Leak")
    for _ in range(5):
        refused(issued.token, "192.0.2.1")
    refused(issued.token, "192.0.2.2")
    for _ in range(3):
        refused(tokens.make_credential_token("agt").token, "192.0.2.1")
    counted: dict[tuple[str, str, str], int] = {}
    for public_id, source, reason, count in rows():
        counted[public_id, source, reason] = counted.get((public_id, source, reason), 0) + count
    assert counted == {
        (issued.credential.public_id, "192.0.2.1", "credential_revoked"): 5,
        (issued.credential.public_id, "192.0.2.2", "credential_revoked"): 1,
        ("unknown", "192.0.2.1", "credential_unknown"): 3,
    }
    assert len(rows()) <= 6, "a minute may have ended in between"


def test_a_minute_is_a_minute() -> None:
    at = clock.database_now().replace(second=59, microsecond=999999)
    for later in (timedelta(0), timedelta(microseconds=1), timedelta(seconds=60)):
        authentication_failures.count_failure("abc", "credential_expired", at + later)
    assert RefusedAuthentication.objects.count() == 2
    assert {row.minute.second for row in RefusedAuthentication.objects.all()} == {0}


def test_a_thousand_unknown_tokens_make_one_row() -> None:
    at = clock.database_now()
    for _ in range(1000):
        authentication_failures.count_failure("", "credential_unknown", at)
    assert [(row[0], row[3]) for row in rows()] == [("unknown", 1000)]


def test_what_is_refused_and_why() -> None:
    bot = cast.agent()
    issued = credentials.issue(actor=SYSTEM, holder=bot, allowed_networks=["192.0.2.0/24"])
    assert refused(issued.token, "198.51.100.1") == "network_not_allowed"
    for verb, reason in (
        (lifecycle.deactivate, "caller_inactive"),
        (lifecycle.activate, None),
        (lifecycle.suspend, "caller_suspended"),
        (lifecycle.deprecate, "caller_deprecated"),
    ):
        verb(actor=SYSTEM, identity=Identity.objects.get(pk=bot.pk), reason="On the way")
        if reason:
            assert refused(issued.token) == reason
    lifecycle.archive(actor=SYSTEM, identity=Identity.objects.get(pk=bot.pk), reason="Gone")
    assert refused(issued.token) == "credential_revoked"


@pytest.mark.capability("NHI-02")
def test_an_identity_whose_end_has_passed_is_refused() -> None:
    bot = cast.agent()
    issued = credentials.issue(actor=SYSTEM, holder=bot)
    Identity.objects.filter(pk=bot.pk).update(expires_at=cast.past(seconds=1))
    assert refused(issued.token) == "caller_expired"


def test_a_person_who_was_deactivated_elsewhere_is_refused() -> None:
    uma = cast.user("uma")
    issued = credentials.issue(actor=SYSTEM, holder=uma)
    User.objects.filter(pk=uma.pk).update(is_active=False)
    assert Credential.objects.live().filter(user=uma).exists()
    assert refused(issued.token) == "person_inactive"


def test_when_the_refusal_cannot_be_counted_the_caller_hears_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_args: Any, **_kwargs: Any) -> None:
        raise DatabaseError

    with monkeypatch.context() as patch:
        patch.setattr(authentication_failures.connection, "cursor", away)
        with pytest.raises(RecordUnavailable):
            authentication_failures.count_failure("abc", "credential_revoked", datetime.now(UTC))
    assert connection.is_usable()
