"""A password that somebody else set is changed at the first sign-in, and its owner is told who set it and why."""

import re
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from common.errors import NotAllowed
from nhi import actors, demo
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.models import SignInNotice, User
from nhi.people import people
from nhi.people.people import PASSWORD_ALPHABET, PasswordAlreadyChanged
from tests.people.conftest import Make, Somebody, set_up_app, sign_out

pytestmark = [pytest.mark.capability("CON-01"), pytest.mark.both_databases]
CHANGE = "/admin/password_change/"
OWN = "green-ladder-beside-9-wells"


@pytest.fixture
def olga(make: Make) -> Somebody:
    return make("olga", "operator")


def set_by_mara(make: Make, person: Somebody, reason: str = "Forgot it, came by in person") -> Somebody:
    """Through the dialog, as a security admin does it. The person then knows the password that it showed."""
    mara = make("mara")
    mara.sign_in()
    path = f"/admin/nhi/user/{person.user.pk}/password/"
    page = mara.client.post(path, {"reason": reason, "seen": ""}).content.decode()
    return Somebody(person.user, Client(), shown_password(page))


def shown_password(page: str) -> str:
    found = re.search(r'id="gh-password" data-text="([^"]+)"', page)
    assert found is not None, page
    return found[1]


def change(person: Somebody, password: str = OWN) -> Any:
    return person.client.post(CHANGE, {"password": password, "again": password})


def flagged(person: Somebody) -> bool:
    return User.objects.get(pk=person.user.pk).must_change_password


def test_nothing_opens_before_it_is_changed(make: Make, olga: Somebody) -> None:
    olga = set_by_mara(make, olga)
    assert olga.sign_in()["Location"] == "/admin/"
    for path in ("/admin/", "/admin/nhi/identity/", "/admin/tokens/issue/", "/admin/sign-in/", "/admin/nothing-here/"):
        for answer in (olga.client.get(path), olga.client.post(path)):
            assert (answer.status_code, answer["Location"]) == (302, CHANGE), path
    answer = olga.client.get("/api/nhi/me")
    assert (answer.status_code, answer.json()["details"]["reason"]) == (403, "password_change_required")
    assert CHANGE in answer.json()["message"]


def test_its_owner_is_told_who_set_it_and_why_and_goes_on_with_their_own(make: Make, olga: Somebody) -> None:
    olga = set_by_mara(make, olga)
    olga.sign_in()
    page = olga.client.get(CHANGE).content.decode()
    assert "Choose your own password" in page
    assert "mara set your password on" in page
    assert "Reason: Forgot it, came by in person" in page
    assert change(olga)["Location"] == "/admin/"
    assert olga.client.get("/admin/").status_code == 200
    assert not flagged(olga)
    again = Somebody(olga.user, Client(), OWN)
    again.sign_in()
    assert "mara set your password" not in again.client.get("/admin/").content.decode()
    listed = again.client.get("/admin/sign-in/").content.decode()
    assert "Changed by others" in listed
    assert "Forgot it, came by in person" in listed


def test_the_password_that_somebody_else_knows_is_no_choice(make: Make, olga: Somebody) -> None:
    olga = set_by_mara(make, olga)
    olga.sign_in()
    answer = change(olga, olga.password)
    assert answer.status_code == 400
    assert "Somebody else knows this password." in answer.content.decode()
    assert flagged(olga)


def test_a_reason_is_asked_for_and_none_is_filled_in(make: Make, olga: Somebody) -> None:
    mara = make("mara")
    mara.sign_in()
    path = f"/admin/nhi/user/{olga.user.pk}/password/"
    for body in ({"seen": ""}, {"seen": "", "reason": "  "}):
        assert mara.client.post(path, body).status_code in (400, 422)
    assert not flagged(olga)
    assert olga.sign_in()["Location"] == "/admin/"


def test_a_person_added_in_the_console_chooses_their_own(make: Make) -> None:
    mara = make("mara")
    mara.sign_in()
    page = mara.client.post("/admin/nhi/user/add/", {"username": "nina", "roles": ["operator"], "seen": ""})
    nina = Somebody(User.objects.get(username="nina"), Client(), shown_password(page.content.decode()))
    nina.sign_in()
    assert nina.client.get("/admin/")["Location"] == CHANGE
    assert "mara set your password on" in nina.client.get(CHANGE).content.decode()


@pytest.mark.parametrize("required", [False, True])
def test_a_command_forces_nobody_unless_second_factors_are_required(db: None, settings: Any, required: bool) -> None:
    settings.REQUIRE_MFA = required
    call_command("create_person", "nina", "--role", "operator", "--json")
    assert User.objects.get(username="nina").must_change_password is required


def test_the_people_of_the_demo_keep_what_was_printed(db: None) -> None:
    demo.seed()
    assert not User.objects.filter(must_change_password=True).exists()


def test_the_password_comes_before_the_second_factor(make: Make, olga: Somebody, settings: Any) -> None:
    olga = set_by_mara(make, olga)
    settings.REQUIRE_MFA = True
    olga.sign_in()
    assert olga.client.get("/admin/")["Location"] == CHANGE
    assert olga.client.get(CHANGE).status_code == 200
    change(olga)
    assert olga.client.get("/admin/")["Location"] == "/admin/sign-in/"
    assert olga.client.get(CHANGE)["Location"] == "/admin/sign-in/"


def test_a_personal_token_is_another_proof_and_goes_on(make: Make, olga: Somebody) -> None:
    token = credentials.issue(actor=SYSTEM, holder=olga.user).token
    set_by_mara(make, olga)
    answer = Client().get("/api/nhi/me", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.json()["name"]) == (200, "olga")


def test_a_reset_factor_is_told_too(make: Make, olga: Somebody) -> None:
    set_up_app(olga)
    sign_out(olga)
    mara = actors.person(make("mara").user)
    people.reset_second_factor(actor=mara, user=olga.user, reason="Phone lost, called back")
    olga.sign_in()
    page = olga.client.get("/admin/").content.decode()
    assert "mara removed your second factors and recovery codes on" in page
    assert "Reason: Phone lost, called back" in page
    assert SignInNotice.objects.get(user=olga.user).seen_at is not None


def test_of_two_changes_at_once_the_later_starts_from_a_password_that_is_gone(make: Make, olga: Somebody) -> None:
    """A session that was there before mara set the password does not take the duty to change it away."""
    before = User.objects.get(pk=olga.user.pk)
    set_by_mara(make, olga)
    with pytest.raises(PasswordAlreadyChanged):
        people.change_password(actor=actors.person(before), user=before, password=OWN)
    assert flagged(olga)


def test_nobody_changes_the_password_of_another_as_if_it_were_their_own(make: Make, olga: Somebody) -> None:
    mara = make("mara", superuser=True)
    with pytest.raises(NotAllowed):
        people.change_password(actor=actors.person(mara.user), user=olga.user, password=OWN)


@pytest.mark.capability("OPS-01")
def test_passwords_have_no_letters_that_look_alike() -> None:
    assert len(PASSWORD_ALPHABET) == 57
    assert not set(PASSWORD_ALPHABET) & set("lIO01")
    assert all(set(people.generate_password()) <= {*PASSWORD_ALPHABET, "-"} for _ in range(100))
