"""One's own pages: personal tokens that are shown once, and the profile."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pytest
import time_machine
from allauth.account.internal.flows.login import record_authentication
from django.http import HttpRequest
from django.test import Client

from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.models import AuditEvent, Credential, User
from tests.nhi import cast
from tests.people.conftest import PASSWORD, Make, Somebody

pytestmark = pytest.mark.capability("CON-01")
CONFIRM = "/admin/sign-in/confirm/?next="


@pytest.fixture
def mara(make: Make) -> Somebody:
    mara = make("mara")
    mara.sign_in()
    return mara


def issue(person: Somebody, **more: str) -> str:
    page = person.client.post("/admin/tokens/issue/", {"days": "30", "networks": "", **more})
    assert page.status_code == 200, page.content
    assert "no-store" in page["Cache-Control"]
    return re.search(r"nhi_usr_[0-9A-Za-z]+_[0-9A-Za-z]+", page.content.decode())[0]


@pytest.mark.capability("NHI-04")
def test_a_token_is_shown_once_and_works(mara: Somebody) -> None:
    token = issue(mara)
    assert token not in mara.client.get("/admin/tokens/").content.decode()
    answer = Client().get("/api/nhi/me", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.json()["name"]) == (200, "mara")


@pytest.mark.capability("NHI-04")
@pytest.mark.parametrize("ticked", [False, True])
def test_a_token_issues_credentials_of_identities_when_its_owner_ticked_it(mara: Somebody, ticked: bool) -> None:
    token = issue(mara, **({"issues_credentials": "on"} if ticked else {}))
    bot = cast.agent(owner=mara.user)
    path = f"/api/nhi/identities/{bot.pk}/credentials"
    answer = Client().post(path, "{}", "application/json", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == (201 if ticked else 403)
    assert ("issues and rotates" in mara.client.get("/admin/tokens/").content.decode()) is ticked


@pytest.mark.capability("NHI-04")
def test_a_revoked_token_is_dead(mara: Somebody) -> None:
    token = issue(mara)
    held = Credential.objects.get(user=mara.user)
    assert "Revoke" in mara.client.get("/admin/tokens/").content.decode()
    answer = mara.client.post(f"/admin/tokens/{held.pk}/revoke/", {"reason": "Leaked", "seen": "tokens:1"})
    assert (answer.status_code, answer["Location"]) == (302, "/admin/tokens/")
    assert Client().get("/api/nhi/me", headers={"Authorization": f"Bearer {token}"}).status_code == 401
    event = AuditEvent.objects.get(event="credential.revoked")
    assert (event.actor_name, event.reason) == ("mara", "Leaked")


@pytest.mark.parametrize("header", [{}, {"X-Console-Part": "1"}], ids=["page", "dialog"])
def test_an_old_session_proves_itself_before_it_issues_a_token(mara: Somebody, header: dict[str, str]) -> None:
    page = "/admin/tokens/issue/"
    with time_machine.travel(timedelta(minutes=6)):
        sent = mara.client.post(page, {"days": "30", "networks": ""}, headers=header)
        assert led_to(sent) == led_to(mara.client.get(page, headers=header)) == CONFIRM + page
        assert not Credential.objects.filter(user=mara.user).exists()
        assert mara.client.post(led_to(sent), {"password": PASSWORD, "next": page})["Location"] == page
        assert mara.client.get(page).status_code == 200
        assert issue(mara)


def test_an_old_session_proves_itself_before_it_changes_who_gets_in(mara: Somebody, make: Make) -> None:
    tom = make("tom", "operator").user
    with time_machine.travel(timedelta(minutes=6)):
        for part in ("add", *(f"{tom.pk}/{verb}" for verb in ("roles", "password", "factor", "reactivate"))):
            page = f"/admin/nhi/user/{part}/"
            assert led_to(mara.client.get(page)) == CONFIRM + page
            body = {"roles": "security-admin", "username": "new", "reason": "Because", "seen": ""}
            assert led_to(mara.client.post(page, body)) == CONFIRM + page
    assert not AuditEvent.objects.filter(event__startswith="person.", actor_name="mara").exists()


@pytest.mark.capability("NHI-04")
def test_an_old_session_proves_itself_before_it_is_shown_a_credential(mara: Somebody) -> None:
    bot = cast.agent()
    old = credentials.issue(actor=SYSTEM, holder=bot).credential
    with time_machine.travel(timedelta(minutes=6)):
        for part in ("credentials/issue", f"credentials/{old.pk}/rotate"):
            page = f"/admin/nhi/identity/{bot.pk}/{part}/"
            assert led_to(mara.client.get(page)) == CONFIRM + page
            assert led_to(mara.client.post(page, {"days": "30", "overlap": "0"})) == CONFIRM + page
        assert Credential.objects.filter(identity=bot).count() == 1
        mara.client.post(CONFIRM + page, {"password": PASSWORD})
        assert mara.client.post(page, {"overlap": "0"}).status_code == 200


def test_who_signs_in_elsewhere_signs_in_again_before_a_first_factor_or_a_token(make: Make) -> None:
    """There is nothing to ask for: without this, whoever took the session over would add a passkey of their own."""
    olga = make("olga", "operator")
    olga.sign_in()
    olga.user.set_unusable_password()
    olga.user.save()
    olga.client.force_login(olga.user, backend="django.contrib.auth.backends.ModelBackend")
    pages = ("/admin/sign-in/totp/activate/", "/admin/sign-in/webauthn/add/", "/admin/tokens/issue/")
    for path in pages:
        assert olga.client.get(path).status_code == 403
    request = HttpRequest()
    request.session = olga.client.session
    record_authentication(request, olga.user, method="socialaccount")
    request.session.save()
    for path in pages:
        assert olga.client.get(path).status_code == 200
    with time_machine.travel(timedelta(minutes=6)):
        for path in pages:
            answer = olga.client.get(path)
            assert answer.status_code == 403
            assert "Sign out and sign in again" in answer.content.decode()


def test_who_may_not_is_told_so_and_proves_nothing(make: Make, mara: Somebody) -> None:
    olga = make("olga", "operator")
    olga.sign_in()
    with time_machine.travel(timedelta(minutes=6)):
        assert olga.client.get("/admin/nhi/user/add/").status_code == 403


def led_to(answer: Any) -> str:
    """Where the browser goes next; scripts are told in a header."""
    return unquote(answer.headers.get("Location") or answer.headers["X-Console-Go"])


def test_two_at_a_time(mara: Somebody) -> None:
    issue(mara)
    issue(mara)
    assert mara.client.post("/admin/tokens/issue/", {"days": "30"}).status_code == 409
    assert "Two work already" in mara.client.get("/admin/tokens/").content.decode()


def test_nobody_handles_the_token_of_another(make: Make, mara: Somebody) -> None:
    issue(mara)
    held = Credential.objects.get(user=mara.user)
    tom = make("tom", "approver")
    tom.sign_in()
    assert tom.client.post(f"/admin/tokens/{held.pk}/revoke/", {"reason": "x"}).status_code == 404
    assert held.public_id not in tom.client.get("/admin/tokens/").content.decode()


def test_an_auditor_has_no_controls(make: Make) -> None:
    ada = make("ada", "auditor")
    ada.sign_in()
    assert "Issue token" not in ada.client.get("/admin/tokens/").content.decode()
    assert ada.client.get("/admin/tokens/issue/").status_code == 403
    assert ada.client.post("/admin/tokens/issue/", {"days": "30"}).status_code == 403


def test_the_profile_is_kept(mara: Somebody) -> None:
    assert mara.client.get("/admin/profile/").status_code == 200
    answer = mara.client.post("/admin/profile/", {"time_zone": "Europe/Vienna"})
    assert (answer.status_code, answer["Location"]) == (302, "/admin/profile/")
    held = User.objects.get(pk=mara.user.pk)
    assert (held.time_zone, held.single_key_shortcuts) == ("Europe/Vienna", False)
    assert "Times are in Europe/Vienna" in mara.client.get("/admin/tokens/").content.decode()


def test_a_zone_that_is_none_is_refused(mara: Somebody) -> None:
    answer = mara.client.post("/admin/profile/", {"time_zone": "Europe/Atlantis"})
    assert answer.status_code == 422
    assert "Choose a zone like Europe/Vienna" in answer.content.decode()


@pytest.mark.parametrize("page", ["tokens/", "tokens/issue/", "profile/", "sign-in/", "password_change/", "logout/"])
def test_strangers_are_sent_to_sign_in(client: Client, db: None, page: str) -> None:
    answer = client.get(f"/admin/{page}")
    assert answer.status_code == 302
    assert answer["Location"].startswith("/admin/login/")
