"""A session: what its cookie is, when it ends, and that it ends for everyone it should."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import time_machine
from django.test import Client

from nhi import actors
from nhi.actors import SYSTEM
from nhi.models import AuditEvent
from nhi.people import people
from tests.people.conftest import PASSWORD, Make, Somebody

pytestmark = pytest.mark.capability("CON-01")
ROOT = Path(__file__).resolve().parent.parent.parent
NEW = "another-lamp-over-3-stairs"


def is_in(person: Somebody) -> bool:
    return person.client.get("/admin/session/").status_code == 200


def test_signing_in_changes_the_session_and_the_csrf_token(mara: Somebody) -> None:
    mara.client.get("/admin/login/")
    mara.client.session["planted"] = "yes"
    before = (mara.client.cookies["csrftoken"].value, mara.client.session.session_key)
    mara.sign_in()
    after = (mara.client.cookies["csrftoken"].value, mara.client.session.session_key)
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_the_cookie_is_for_this_site_and_no_script(mara: Somebody) -> None:
    mara.sign_in()
    cookie = mara.client.cookies["gatehouse"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/")


def test_half_an_hour_without_a_request_ends_it(mara: Somebody) -> None:
    mara.sign_in()
    now = time.time()
    for minutes in (20, 40, 60):
        with time_machine.travel(now + minutes * 60):
            assert mara.client.get("/admin/sign-in/").status_code == 200
    with time_machine.travel(now + 91 * 60):
        answer = mara.client.get("/admin/sign-in/", follow=True)
        assert answer.redirect_chain[0][0] == "/admin/login/?next=/admin/sign-in/"
        assert "Ended after 30 minutes without a request" in answer.content.decode()
    event = AuditEvent.objects.get(event="sign_out")
    assert (event.actor_name, event.reason) == ("mara", "Ended after 30 minutes without a request")


def test_eight_hours_end_it_whatever_is_done(mara: Somebody) -> None:
    mara.sign_in()
    now = time.time()
    for minutes in range(0, 479, 20):
        with time_machine.travel(now + minutes * 60):
            assert mara.client.get("/admin/sign-in/").status_code == 200
    with time_machine.travel(now + 8 * 3600 + 1):
        assert not is_in(mara)


def test_what_a_page_asks_in_the_background_does_not_keep_it_alive(mara: Somebody) -> None:
    mara.sign_in()
    now = time.time()
    with time_machine.travel(now + 29 * 60):
        assert mara.client.get("/admin/session/").json()["idle_seconds"] <= 60
        mara.client.get("/admin/sign-in/", headers={"X-Console-Poll": "1"})
    with time_machine.travel(now + 31 * 60):
        assert not is_in(mara)


def test_asked_for_it_lasts_longer(mara: Somebody) -> None:
    mara.sign_in()
    now = time.time()
    with time_machine.travel(now + 29 * 60):
        assert mara.client.post("/admin/session/").json()["idle_seconds"] > 1700
    with time_machine.travel(now + 50 * 60):
        assert is_in(mara)


def test_a_deactivated_person_is_out_at_once(make: Make, mara: Somebody) -> None:
    tom = make("tom", "approver")
    tom.sign_in()
    assert is_in(tom)
    people.deactivate(actor=actors.person(mara.user), user=tom.user, reason="Left")
    assert not is_in(tom)
    assert tom.client.get("/api/nhi/me").status_code == 401


def test_another_password_ends_the_other_sessions(mara: Somebody) -> None:
    here, there = mara, mara.again()
    here.sign_in()
    there.sign_in()
    answer = here.client.post("/admin/password_change/", {"password": NEW, "again": NEW})
    assert answer["Location"] == "/admin/sign-in/"
    assert is_in(here)
    assert not is_in(there)
    assert Somebody(mara.user, Client(), PASSWORD).sign_in().status_code == 200
    assert Somebody(mara.user, Client(), NEW).sign_in().status_code == 302
    assert AuditEvent.objects.filter(event="person.password_changed", actor_name="mara").exists()


@pytest.mark.parametrize(
    ("password", "again", "says"),
    [
        ("short", "short", "too short"),
        (NEW, NEW + "x", "The two differ"),
        ("271828182845904", "271828182845904", "numeric"),
    ],
)
def test_a_weak_password_is_not_taken(mara: Somebody, password: str, again: str, says: str) -> None:
    mara.sign_in()
    answer = mara.client.post("/admin/password_change/", {"password": password, "again": again})
    assert answer.status_code == 400
    assert says in answer.content.decode()


def test_an_old_session_types_the_old_password_first_and_the_new_one_is_not_kept(mara: Somebody) -> None:
    mara.sign_in()
    with time_machine.travel(time.time() + 301):
        answer = mara.client.post("/admin/password_change/", {"password": NEW, "again": NEW})
        assert answer["Location"].startswith("/admin/sign-in/confirm/")
        assert NEW not in str(dict(mara.client.session))


def test_who_signs_in_elsewhere_has_no_password_here(db: None) -> None:
    made = people.create(actor=SYSTEM, username="otto", roles=["operator"], password=None)
    client = Client()
    client.force_login(made.user)
    assert client.get("/admin/password_change/").status_code == 403
    assert Somebody(made.user, Client(), "").sign_in().status_code == 400


def test_signing_out_is_a_post(mara: Somebody) -> None:
    mara.sign_in()
    assert mara.client.get("/admin/logout/").status_code == 200
    assert is_in(mara)
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = mara.client.cookies
    assert strict.post("/admin/logout/").status_code == 403
    assert mara.client.post("/admin/logout/")["Location"] == "/admin/login/"
    assert not is_in(mara)
    assert AuditEvent.objects.filter(event="sign_out", actor_name="mara").count() == 1


def test_who_lost_the_console_sees_the_form_again(make: Make, mara: Somebody) -> None:
    tom = make("tom", "operator")
    tom.sign_in()
    people.set_roles(actor=actors.person(mara.user), user=tom.user, roles=[])
    assert "Sign in" in tom.client.get("/admin/login/").content.decode()


PRODUCTION = {
    "PUBLIC_URL": "https://gatehouse.example.org",
    "SECRET_KEY": "kept-in-a-vault-0123456789-abcdefghijklmnopqrstuvwxyz-!?",
    "TOKEN_PEPPER": "kept-in-another-vault-0123456789-abcdefghijklmnopqrs",
    "FIELD_KEYS": f"p1:{'C' * 42}A",
    "SIGNING_KEYS": f"p1:{'D' * 42}A",
    "TRUSTED_PROXIES": "1",
    "TRUSTED_PROXY_NETWORKS": "10.0.3.7/32",
    "METRICS_TOKEN": "kept-by-prometheus-0123456789-abcdefgh",
}


def manage(data: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    plain = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**plain, "GATEHOUSE_DATA": str(data), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.capability("OPS-02")
def test_a_production_is_clean_for_django(tmp_path: Path) -> None:
    done = manage(tmp_path, "check", "--deploy", "--fail-level", "WARNING", **PRODUCTION)
    assert done.returncode == 0, done.stderr
    assert "identified no issues" in done.stdout


@pytest.mark.capability("OPS-02")
@pytest.mark.parametrize("environ, named", [
    ({"TRUSTED_PROXIES": "1"}, "TRUSTED_PROXIES is set"),
    ({"TRUSTED_PROXIES": "0", "GRPC_TRUSTED_PROXIES": "1"}, "GRPC_TRUSTED_PROXIES is set"),
    ({"TRUSTED_PROXIES": "2", "GRPC_TRUSTED_PROXIES": "1"}, "TRUSTED_PROXIES and GRPC_TRUSTED_PROXIES are set"),
    ({"TRUSTED_PROXIES": "0"}, ""),
])  # fmt: skip
def test_a_production_that_believes_any_private_address_is_warned(
    tmp_path: Path, environ: dict[str, str], named: str
) -> None:
    done = manage(tmp_path, "check", "--deploy", **{**PRODUCTION, "TRUSTED_PROXY_NETWORKS": "", **environ})
    assert done.returncode == 0, done.stderr
    assert ("config.W001" in done.stderr) == bool(named)
    assert named in done.stderr


@pytest.mark.capability("OPS-02")
def test_a_production_cookie_is_bound_to_its_host(tmp_path: Path) -> None:
    names = ("SESSION_COOKIE_NAME", "SESSION_COOKIE_SECURE", "CSRF_COOKIE_NAME", "SESSION_COOKIE_DOMAIN")
    script = f"from django.conf import settings; print(*(getattr(settings, name) for name in {names}))"
    done = manage(tmp_path, "shell", "--no-imports", "-c", script, **PRODUCTION)
    assert done.stdout.split() == ["__Host-gatehouse", "True", "__Host-csrftoken", "None"], done.stderr


def test_who_comes_back_after_the_end_is_told_so_once(mara: Somebody) -> None:
    mara.sign_in()
    mara.client.session.flush()
    part = mara.client.get("/admin/sign-in/", headers={"X-Console-Part": "1"})
    assert part.status_code == 401
    told = "Your session ended; nothing was changed. Sign in to go on."
    assert told in mara.client.get("/admin/sign-in/", follow=True).content.decode()
    assert told not in mara.client.get("/admin/sign-in/", follow=True).content.decode()


def test_who_was_never_here_or_signed_out_is_told_nothing_of_a_session(mara: Somebody) -> None:
    assert "Your session ended" not in mara.client.get("/admin/sign-in/", follow=True).content.decode()
    mara.sign_in()
    mara.client.post("/admin/logout/")
    assert "Your session ended" not in mara.client.get("/admin/sign-in/", follow=True).content.decode()
