"""Nobody is two people: no way round a second admin, a suspension, an end or an owner."""

from datetime import timedelta

import pytest
from django.test import Client

from common.errors import InvalidInput, NotAllowed
from nhi import actors
from nhi.access import roles
from nhi.actors import SYSTEM
from nhi.audit import events
from nhi.authorization import access_precheck, authentication
from nhi.authorization.authentication import Unauthenticated
from nhi.credentials import credentials, tokens
from nhi.identities import identities, lifecycle
from nhi.models import AuditEvent, Identity
from nhi.people import people
from nhi.people.people import PersonHasNoPassword
from tests.nhi import cast

pytestmark = [pytest.mark.django_db, pytest.mark.capability("NHI-09", "NHI-02", "CON-01", "AUD-01")]


class TestWildcards:
    def test_no_service_account_asks_for_everything(self) -> None:
        account = cast.service()
        identities.set_console_roles(actor=SYSTEM, identity=account, roles=["security-admin"])
        role = roles.create(actor=cast.admin(), name="reader", patterns=["github.*"])
        with pytest.raises(NotAllowed):
            roles.create(actor=actors.identity(account), name="all", patterns=["*.*"])
        with pytest.raises(NotAllowed):
            roles.change(actor=actors.identity(account), role=role, patterns=["*.*"])
        assert [str(one) for one in role.capabilities.current()] == ["github.*"]

    def test_a_security_admin_makes_no_other(self) -> None:
        mara, tom = cast.admin(), cast.user("tom", "approver")
        with pytest.raises(NotAllowed):
            people.create(actor=mara, username="twin", roles=["security-admin"])
        with pytest.raises(NotAllowed):
            people.set_roles(actor=mara, user=tom, roles=["approver", "security-admin"], reason="x")
        with pytest.raises(NotAllowed):
            identities.set_console_roles(actor=mara, identity=cast.service(), roles=["security-admin"])
        people.set_roles(actor=SYSTEM, user=tom, roles=["security-admin"], reason="x")

    def test_a_security_admin_does_not_stand_in_for_another(self) -> None:
        mara, other = cast.admin(), cast.user("nina", "security-admin")
        with pytest.raises(NotAllowed):
            people.set_password(actor=mara, user=other, password=people.generate_password(), reason="Forgotten")
        with pytest.raises(NotAllowed):
            people.reset_second_factor(actor=mara, user=other, reason="Lost phone")
        people.deactivate(actor=mara, user=other, reason="Left")


class TestOwners:
    def test_what_a_security_admin_suspended_its_owner_does_not_activate(self) -> None:
        olga = cast.acting("olga", "operator")
        bot = lifecycle.suspend(actor=cast.admin(), identity=cast.agent(), reason="leak").identity
        with pytest.raises(NotAllowed):
            lifecycle.activate(actor=olga, identity=bot, reason="I need it")
        assert Identity.objects.get(pk=bot.pk).state == "suspended"
        bot = lifecycle.activate(actor=cast.admin(), identity=bot, reason="found the cause")
        bot = lifecycle.suspend(actor=olga, identity=bot, reason="being careful").identity
        assert lifecycle.activate(actor=olga, identity=bot, reason="all good").state == "active"

    def test_the_end_that_was_set_only_comes_nearer(self) -> None:
        olga, bot = cast.acting("olga", "operator"), cast.agent(expires_at=cast.future(days=10))
        sooner = bot.expires_at - timedelta(days=5)
        for later in (None, cast.future(days=11)):
            with pytest.raises(NotAllowed):
                identities.change(actor=olga, identity=bot, expires_at=later)
        assert identities.change(actor=olga, identity=bot, expires_at=sooner).expires_at == sooner
        assert identities.change(actor=cast.admin(), identity=bot, expires_at=None).expires_at is None

    def test_who_was_only_given_rights_does_not_take_over(self) -> None:
        bot, guest = cast.agent(), cast.user("gus", "operator")
        cast.user_grant(bot, guest, "admin")
        with pytest.raises(NotAllowed):
            identities.change(actor=actors.person(guest), identity=bot, owner=guest)
        assert identities.change(actor=actors.person(guest), identity=bot, team="Docs").team == "Docs"
        assert identities.change(actor=cast.acting("olga"), identity=bot, owner=guest).owner == guest


def test_a_credential_from_before_does_not_gain_console_roles() -> None:
    account = cast.service()
    token = credentials.issue(actor=cast.acting("olga"), holder=account).token
    identities.set_console_roles(actor=SYSTEM, identity=account, roles=["operator"])
    with pytest.raises(Unauthenticated) as refused:
        authentication.authenticate(token)
    assert refused.value.reason == "credential_revoked"


def test_a_deactivated_person_finds_no_session_when_they_come_back() -> None:
    nina, client = cast.user("nina", "operator"), Client()
    client.force_login(nina)
    assert client.get("/admin/").status_code == 200
    people.deactivate(actor=cast.admin(), user=nina, reason="Account misused")
    people.reactivate(actor=cast.admin(), user=nina, reason="Cleared")
    assert client.get("/admin/").status_code == 302


def test_who_signs_in_elsewhere_is_given_no_password() -> None:
    away = people.create(actor=SYSTEM, username="away", roles=["operator"], password=None).user
    with pytest.raises(PersonHasNoPassword):
        people.set_password(actor=cast.admin(), user=away, password=people.generate_password(), reason="Forgotten")


def test_an_agent_does_not_fill_the_record() -> None:
    bot = cast.agent()
    token = credentials.issue(actor=SYSTEM, holder=bot).token
    with pytest.raises(InvalidInput) as refused:
        access_precheck.check(
            actor=actors.identity(bot), token=tokens.parse(token), audience="", target_id=bot.pk, parameters=None,
            action="B" * 201,
        )  # fmt: skip
    assert [problem.field for problem in refused.value.fields] == ["action"]
    row = events.write("identity.changed", actor=SYSTEM, subject=bot, after={"purpose": "x" * 200_000})
    assert AuditEvent.objects.get(pk=row.pk).after["omitted_bytes"] > 200_000
