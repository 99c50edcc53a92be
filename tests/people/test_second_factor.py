"""A second factor: set up, asked for, spent once, counted by the guard, reset by an admin, required if so set."""

import re
import time
from datetime import timedelta

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.db.models import F

from common import crypto
from common.errors import InvalidInput, NotAllowed
from nhi import actors
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.models import AuditEvent, SignInGuard
from nhi.people import mfa, people
from tests.people import totp
from tests.people.conftest import PASSWORD, Make, Somebody, set_up_app, sign_out

pytestmark = pytest.mark.capability("CON-01")
PROVE = "/admin/sign-in/authenticate/"


@pytest.fixture
def secret(mara: Somebody) -> str:
    made = set_up_app(mara)
    sign_out(mara)
    return made


def signed_in(person: Somebody) -> bool:
    return "_auth_user_id" in person.client.session


def prove(person: Somebody, code: str):
    return person.client.post(PROVE, {"code": code})


def test_the_password_alone_no_longer_opens(mara: Somebody, secret: str) -> None:
    assert mara.sign_in(next="/admin/roles/")["Location"] == PROVE
    assert not signed_in(mara)
    assert mara.client.get("/admin/sign-in/").status_code == 302
    assert prove(mara, "000000").status_code == 200
    assert not signed_in(mara)
    answer = prove(mara, totp.code(secret))
    assert (answer.status_code, answer["Location"]) == (302, "/admin/roles/")
    assert signed_in(mara)
    last = AuditEvent.objects.filter(event="sign_in.succeeded").latest("at")
    assert last.details == {"with": ["password", "totp"]}


def test_the_second_step_needs_the_first(mara: Somebody, secret: str) -> None:
    answer = prove(mara, totp.code(secret))
    assert (answer.status_code, answer["Location"]) == (302, "/admin/login/")
    assert not signed_in(mara)


@pytest.mark.parametrize("steps", [-1, 0, 1])
def test_a_code_is_good_once_from_any_browser(mara: Somebody, secret: str, steps: int) -> None:
    code = totp.code(secret, steps=steps)
    mara.sign_in()
    assert prove(mara, code).status_code == 302
    other = mara.again()
    other.sign_in()
    answer = prove(other, f"{code[:3]} {code[3:]}")
    assert answer.status_code == 200
    assert "used before" in answer.content.decode()
    assert not signed_in(other)


def test_an_older_code_than_the_last_is_no_good(mara: Somebody, secret: str) -> None:
    mara.sign_in()
    prove(mara, totp.code(secret, steps=1))
    other = mara.again()
    other.sign_in()
    assert prove(other, totp.code(secret)).status_code == 200


@pytest.mark.parametrize("steps", [-2, 2])
def test_a_code_of_another_minute_is_no_good(mara: Somebody, secret: str, steps: int) -> None:
    with time_machine.travel(time.time() // 30 * 30 + 1, tick=False):
        mara.sign_in()
        assert prove(mara, totp.code(secret, steps=steps)).status_code == 200


def test_wrong_codes_count_with_wrong_passwords(mara: Somebody, secret: str) -> None:
    for _ in range(2):
        mara.client.post("/admin/login/", {"username": "mara", "password": "wrong"})
    mara.sign_in()
    for _ in range(3):
        assert prove(mara, "000000").status_code == 200
    answer = prove(mara, totp.code(secret))
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 800
    assert not signed_in(mara)
    assert mara.sign_in().status_code == 429, "a right password is no way back to the codes"
    steps = AuditEvent.objects.filter(event="sign_in.failed").order_by("at").values_list("details__step", flat=True)
    assert list(steps) == ["password", "password", "second factor", "second factor", "second factor"]


def test_a_recovery_code_signs_in_once(mara: Somebody) -> None:
    set_up_app(mara)
    page = mara.client.get("/admin/sign-in/recovery-codes/").content.decode()
    codes = re.findall(r"<li><code>(\d{8})</code></li>", page)
    assert len(codes) == 10
    assert codes[0] not in mara.client.get("/admin/sign-in/recovery-codes/").content.decode(), "they are shown once"
    sign_out(mara)
    mara.sign_in()
    assert prove(mara, codes[0]).status_code == 302
    sign_out(mara)
    mara.sign_in()
    assert prove(mara, codes[0]).status_code == 200
    assert prove(mara, codes[1]).status_code == 302


@pytest.mark.parametrize("kind", ["totp", "recovery_codes"])
def test_secrets_are_sealed_for_their_owner(make: Make, kind: str) -> None:
    mara, tom = make("mara"), make("tom", "approver")
    secret = set_up_app(mara)
    set_up_app(tom)
    hers = Authenticator.objects.get(user=mara.user, type=kind)
    his = Authenticator.objects.get(user=tom.user, type=kind)
    assert secret not in str(hers.data)
    his.data = hers.data
    his.save()
    sealed = his.data["secret" if kind == "totp" else "seed"]
    with pytest.raises(crypto.UnsealError):
        mfa.unseal_secret(sealed, owner=tom.user)
    assert mfa.unseal_secret(sealed, owner=mara.user)


@pytest.mark.capability("AUD-01")
def test_adding_and_removing_is_on_record(mara: Somebody) -> None:
    set_up_app(mara)
    assert "Set up" in mara.client.get("/admin/sign-in/").content.decode()
    mara.client.post("/admin/sign-in/recovery-codes/generate/")
    assert mara.client.post("/admin/sign-in/totp/deactivate/")["Location"] == "/admin/sign-in/"
    assert not Authenticator.objects.exists()
    codes = AuditEvent.objects.filter(event__startswith="person.").order_by("at").values_list("event", flat=True)
    assert list(codes) == [
        "person.created", "person.second_factor_added", "person.recovery_codes_made", "person.second_factor_removed"
    ]  # fmt: skip


def test_factors_are_touched_only_by_who_proved_it_lately(mara: Somebody) -> None:
    mara.sign_in()
    with time_machine.travel(time.time() + 301):
        answer = mara.client.get("/admin/sign-in/totp/activate/")
        assert answer["Location"] == "/admin/sign-in/confirm/?next=%2Fadmin%2Fsign-in%2Ftotp%2Factivate%2F"
        confirm = {"password": "wrong", "next": "/admin/sign-in/totp/activate/"}
        assert "This is not your password." in mara.client.post("/admin/sign-in/confirm/", confirm).content.decode()
        answer = mara.client.post("/admin/sign-in/confirm/", {**confirm, "password": PASSWORD})
        assert answer["Location"] == "/admin/sign-in/totp/activate/"
        assert mara.client.get("/admin/sign-in/totp/activate/").status_code == 200


def test_confirming_is_guarded_too(mara: Somebody) -> None:
    mara.sign_in()
    for _ in range(5):
        mara.client.post("/admin/sign-in/confirm/", {"password": "wrong"})
    answer = mara.client.post("/admin/sign-in/confirm/", {"password": PASSWORD})
    assert answer.status_code == 429
    assert answer["Retry-After"]


def test_a_security_admin_resets_the_factor_of_who_lost_their_phone(make: Make) -> None:
    mara, tom, root = make("mara"), make("tom", "operator"), make("root", superuser=True)
    set_up_app(tom)
    sign_out(tom)
    assert people.reset_second_factor(actor=actors.person(mara.user), user=tom.user, reason="Lost phone") == 1
    assert tom.sign_in()["Location"] == "/admin/"
    event = AuditEvent.objects.get(event="person.second_factor_reset")
    assert (event.actor_name, event.subject_name, event.reason) == ("mara", "tom", "Lost phone")
    with pytest.raises(NotAllowed):
        people.reset_second_factor(actor=actors.person(tom.user), user=mara.user, reason="x")
    with pytest.raises(NotAllowed):
        people.reset_second_factor(actor=actors.person(mara.user), user=root.user, reason="x")
    with pytest.raises(InvalidInput):
        people.reset_second_factor(actor=actors.person(mara.user), user=mara.user, reason="x")
    with pytest.raises(InvalidInput):
        people.reset_second_factor(actor=SYSTEM, user=tom.user, reason="")


class TestRequired:
    @pytest.fixture(autouse=True)
    def _required(self, settings) -> None:
        settings.REQUIRE_MFA = True

    def test_a_factor_comes_before_anything_else(self, mara: Somebody) -> None:
        mara.sign_in()
        for path in ("/admin/", "/admin/nhi/identity/", "/admin/password_change/", "/admin/nothing-here/"):
            answer = mara.client.get(path)
            assert (answer.status_code, answer.get("Location")) == (302, "/admin/sign-in/"), path
        assert "Set one up to go on" in mara.client.get("/admin/sign-in/").content.decode()

    def test_the_api_by_session_waits_too(self, mara: Somebody) -> None:
        mara.sign_in()
        answer = mara.client.get("/api/nhi/me")
        body = answer.json()
        assert (answer.status_code, body["error_code"]) == (403, "Unauthorized")
        assert body["details"]["reason"] == "second_factor_required"

    def test_a_token_speaks_for_itself_whatever_cookie_comes_with_it(self, mara: Somebody) -> None:
        mara.sign_in()
        token = credentials.issue(actor=SYSTEM, holder=mara.user).token
        answer = mara.client.get("/api/nhi/me", headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.json()["name"]) == (200, "mara")

    def test_with_a_factor_everything_opens(self, mara: Somebody) -> None:
        set_up_app(mara)
        assert mara.client.get("/api/nhi/me").status_code == 200
        assert mara.client.get("/admin/password_change/").status_code == 200


def test_it_is_not_forced_otherwise(mara: Somebody) -> None:
    mara.sign_in()
    assert mara.client.get("/admin/password_change/").status_code == 200


def test_the_pending_second_step_ends(mara: Somebody, secret: str) -> None:
    mara.sign_in()
    with time_machine.travel(time.time() + 1000):
        assert prove(mara, totp.code(secret))["Location"] == "/admin/login/"


@pytest.mark.both_databases
def test_failures_at_the_second_step_are_not_forgotten_by_a_right_password(mara: Somebody, secret: str) -> None:
    mara.sign_in()
    prove(mara, "000000")
    mara.sign_in()
    assert SignInGuard.objects.get(username="mara", source="127.0.0.1").failures == 1
    SignInGuard.objects.update(last_attempt_at=F("last_attempt_at") - timedelta(minutes=20))
    assert prove(mara, totp.code(secret)).status_code == 302
