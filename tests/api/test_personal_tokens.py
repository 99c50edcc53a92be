"""Personal tokens and sessions over REST: what a thief of either can make that outlives it, which is nothing."""

from datetime import timedelta

import pytest
import time_machine
from allauth.account.internal.flows.login import record_authentication
from django.core.management import call_command
from django.http import HttpRequest
from django.test import Client

from common.db import clock
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.identities import identities
from nhi.models import Credential, User
from nhi.people import people
from tests.api.callers import Caller
from tests.api.conftest import Stage
from tests.nhi import cast
from tests.services.upgrades import back_at

pytestmark = [pytest.mark.capability("NHI-04", "CON-01"), pytest.mark.both_databases]


def token_of(user: User, *, issues: bool) -> tuple[Caller, Credential]:
    issued = credentials.issue(actor=SYSTEM, holder=user, issues_credentials=issues)
    return Caller(issued.token), issued.credential


def session_of(user: User) -> Caller:
    """A console session whose person has just given their password, and its CSRF cookie."""
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    request = HttpRequest()
    request.session = client.session
    record_authentication(request, user, method="password")
    request.session.save()
    return Caller(client=client)


@pytest.mark.parametrize("issues", [False, True])
def test_a_stolen_token_renews_itself_not_even_once(stage: Stage, issues: bool) -> None:
    """It used to hand out a successor with 90 days more, and to cut its owner off with an overlap of 0."""
    thief, token = token_of(stage.olga, issues=issues)
    reply = thief.post(f"credentials/{token.pk}/rotate", {"overlap_seconds": 0})
    assert reply.is_refused(403, "Unauthorized", "personal_token")
    assert "My tokens" in reply.body["message"]
    assert Credential.objects.filter(user=stage.olga).count() == 1
    assert thief.get("me").status == 200


def test_a_superusers_token_makes_none_of_others(stage: Stage) -> None:
    boss = people.create(actor=SYSTEM, username="boss", superuser=True).user
    thief, _ = token_of(boss, issues=True)
    _, theirs = token_of(stage.olga, issues=False)
    assert thief.post(f"credentials/{theirs.pk}/rotate").is_refused(403, "Unauthorized", "personal_token")


def test_credentials_of_identities_need_a_token_with_the_right(stage: Stage) -> None:
    plain, _ = token_of(stage.olga, issues=False)
    path = f"identities/{stage.bot.pk}/credentials"
    old = Credential.objects.get(identity=stage.bot)
    for tried in (path, f"credentials/{old.pk}/rotate"):
        assert plain.post(tried).is_refused(403, "Unauthorized", "personal_token")
    assert Credential.objects.filter(identity=stage.bot).count() == 1
    able, _ = token_of(stage.olga, issues=True)
    assert able.post(path).status == 201


def test_the_right_adds_nothing_to_what_the_person_may(stage: Stage) -> None:
    kim, _ = token_of(cast.user("kim", "operator"), issues=True)
    assert kim.post(f"identities/{stage.bot.pk}/credentials").is_refused(403, "Unauthorized", "not_allowed")


def test_a_token_without_the_right_still_revokes(stage: Stage) -> None:
    plain, _ = token_of(stage.olga, issues=False)
    old = Credential.objects.get(identity=stage.bot)
    assert plain.post(f"credentials/{old.pk}/revoke", {"reason": "Leaked"}).status == 200


def test_the_command_makes_tokens_with_the_right(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("issue_user_token", "olga", "--json")
    assert Credential.objects.get(user=stage.olga).issues_credentials


class TestSessions:
    @pytest.mark.parametrize("what", ["issue", "rotate", "rotate own"])
    def test_an_old_proof_hands_out_nothing(self, stage: Stage, what: str) -> None:
        session = session_of(stage.olga)
        _, own = token_of(stage.olga, issues=False)
        of_bot = Credential.objects.get(identity=stage.bot)
        path = {
            "issue": f"identities/{stage.bot.pk}/credentials",
            "rotate": f"credentials/{of_bot.pk}/rotate",
            "rotate own": f"credentials/{own.pk}/rotate",
        }[what]
        count = Credential.objects.count()
        with time_machine.travel(timedelta(minutes=6)):
            reply = session.post(path)
            assert reply.is_refused(403, "Unauthorized", "proof_required")
            assert "/admin/sign-in/confirm/" in reply.body["message"]
            assert Credential.objects.count() == count
        assert session.post(path).status in (200, 201)

    def test_a_session_without_any_proof_hands_out_nothing(self, stage: Stage) -> None:
        client = Client()
        client.force_login(stage.mara)
        path = f"identities/{stage.bot.pk}/credentials"
        assert Caller(client=client).post(path).is_refused(403, "Unauthorized", "proof_required")

    def test_who_has_neither_password_nor_factor_signs_in_again(self, stage: Stage) -> None:
        """Through single sign-on alone there is no page to prove anything on; the last sign-in must be fresh."""
        stage.olga.set_unusable_password()
        stage.olga.save()
        session = session_of(stage.olga)
        path = f"identities/{stage.bot.pk}/credentials"
        with time_machine.travel(timedelta(minutes=6)):
            reply = session.post(path)
            assert reply.is_refused(403, "Unauthorized", "proof_required")
            assert "Sign out and sign in again" in reply.body["message"]
        assert session.post(path).status == 201

    def test_what_is_not_theirs_is_refused_before_any_proof(self, stage: Stage) -> None:
        client = Client()
        client.force_login(cast.user("uma"))
        path = f"identities/{stage.bot.pk}/credentials"
        assert Caller(client=client).post(path).is_refused(404, "NotFound")


class TestFamilies:
    def test_a_family_ends_a_year_after_its_first(self, stage: Stage) -> None:
        session = session_of(stage.olga)
        first = credentials.issue(actor=SYSTEM, holder=stage.olga, days=366).credential
        began = clock.database_now() - timedelta(days=300)
        ends = clock.database_now() + timedelta(days=66)
        Credential.objects.filter(pk=first.pk).update(created_at=began, family_began_at=began, expires_at=ends)
        second = session.post(f"credentials/{first.pk}/rotate", {"overlap_seconds": 0}).body
        made = Credential.objects.get(pk=second["id"])
        assert made.family_began == began
        assert made.expires_at == began + timedelta(days=366)
        third = session.post(f"credentials/{made.pk}/rotate", {"overlap_seconds": 0}).body
        assert Credential.objects.get(pk=third["id"]).expires_at == began + timedelta(days=366)

    def test_a_token_from_before_counts_from_its_own_making(self, stage: Stage) -> None:
        old = credentials.issue(actor=SYSTEM, holder=stage.olga, days=366).credential
        began = clock.database_now() - timedelta(days=10)
        Credential.objects.filter(pk=old.pk).update(created_at=began, family_began_at=None)
        made = session_of(stage.olga).post(f"credentials/{old.pk}/rotate", {"overlap_seconds": 0}).body
        assert Credential.objects.get(pk=made["id"]).expires_at == began + timedelta(days=366)

    def test_a_successor_keeps_the_right_of_the_old_one(self, stage: Stage) -> None:
        session = session_of(stage.olga)
        for issues in (False, True):
            _, old = token_of(stage.olga, issues=issues)
            made = session.post(f"credentials/{old.pk}/rotate", {"overlap_seconds": 0}).body
            assert Credential.objects.get(pk=made["id"]).issues_credentials is issues
            session.post(f"credentials/{made['id']}/revoke", {"reason": "Done"})

    def test_credentials_of_identities_go_on_by_rotation(self, stage: Stage) -> None:
        old = Credential.objects.get(identity=stage.bot)
        began = clock.database_now() - timedelta(days=400)
        Credential.objects.filter(pk=old.pk).update(created_at=began)
        made = stage.admin.post(f"credentials/{old.pk}/rotate").body
        assert Credential.objects.get(pk=made["id"]).expires_at > clock.database_now() + timedelta(days=366)


def test_a_security_admin_makes_no_credential_of_a_service_account_that_approves(stage: Stage) -> None:
    """With it the same person would approve their own change as somebody else."""
    identities.set_console_roles(actor=SYSTEM, identity=stage.account, roles=["approver"])
    path = f"identities/{stage.account.pk}/credentials"
    assert stage.admin.post(path).is_refused(403, "Unauthorized", "not_allowed")
    assert session_of(stage.mara).post(path).is_refused(403, "Unauthorized", "not_allowed")


@pytest.mark.django_db(transaction=True)
def test_after_an_upgrade_what_a_command_made_goes_on() -> None:
    """The console's tokens were made to act as a person; scripts that issue credentials use the command's."""
    olga = cast.user("olga", "operator")
    by_command = credentials.issue(actor=SYSTEM, holder=olga).credential
    by_console = credentials.issue(actor=cast.acting("olga"), holder=olga).credential
    of_agent = credentials.issue(actor=SYSTEM, holder=cast.agent()).credential
    with back_at("nhi", "0008_seen"):
        pass
    rows = {row.pk: row for row in Credential.objects.all()}
    assert rows[by_command.pk].issues_credentials
    assert not rows[by_console.pk].issues_credentials
    assert not rows[of_agent.pk].issues_credentials
    assert rows[by_command.pk].family_began == rows[by_command.pk].created_at
    olga.refresh_from_db()
    assert not olga.must_change_password
