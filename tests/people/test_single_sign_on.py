"""Single sign-on against a real provider over HTTP: in, back, connected, refused, and never a right by itself."""

import html
import http.client
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client

from config.oidc import Oidc
from nhi import actors
from nhi.models import AuditEvent, RefusedAuthentication, User
from nhi.people import people
from tests.people import provider, totp
from tests.people.conftest import PASSWORD, Make, Somebody, set_up_app, sign_out
from tests.people.provider import Provider

pytestmark = pytest.mark.capability("CON-01")
ROOT = Path(__file__).resolve().parent.parent.parent
START = "/admin/sso/oidc/login/"


@pytest.fixture
def sso(settings) -> Iterator[Provider]:
    with provider.running() as running:
        settings.OIDC = Oidc(running.url, running.client_id, running.client_secret, "Acme ID")
        settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [settings.OIDC.app]}}
        yield running


def follow(link: str) -> str:
    """The browser at the provider: one request, and where it is sent."""
    parts = urlsplit(link)
    connection = http.client.HTTPConnection(parts.netloc, timeout=5)
    connection.request("GET", f"{parts.path}?{parts.query}")
    return connection.getresponse().headers["Location"]


def go(client: Client, link: str = START, **query: str):
    """The whole round: out to the provider and back. Returns our last answer."""
    out = client.get(link, query or None)
    assert out.status_code == 302, out.content
    back = urlsplit(follow(out["Location"]))
    return client.get(f"{back.path}?{back.query}")


def connect(person: Somebody) -> None:
    person.sign_in()
    press_connect(person)
    sign_out(person)


def press_connect(person: Somebody) -> None:
    page = person.client.get("/admin/sign-in/").content.decode()
    link = html.unescape(re.search(r'href="([^"]*process=connect[^"]*)"', page)[1])
    assert go(person.client, link)["Location"] == "/admin/sign-in/"


def test_the_button_is_there_when_configured(client: Client, db: None, sso: Provider) -> None:
    assert "Sign in with Acme ID" in client.get("/admin/login/").content.decode()


def test_and_not_otherwise(client: Client, db: None) -> None:
    assert "Sign in with" not in client.get("/admin/login/").content.decode().replace("Sign in with a passkey", "")
    assert client.get(START).status_code == 404
    assert client.get(f"{START}callback/").status_code == 404


def test_a_newcomer_becomes_a_person_without_a_console(client: Client, db: None, sso: Provider) -> None:
    sso.claims |= {"email": "nora@acme.example"}
    answer = go(client)
    assert answer.status_code == 403
    assert "no console role" in answer.content.decode()
    assert "_auth_user_id" not in client.session
    nora = User.objects.get(username="nora")
    assert (nora.is_staff, nora.is_superuser, nora.groups.count(), nora.has_usable_password()) == (
        False,
        False,
        0,
        False,
    )
    codes = set(AuditEvent.objects.values_list("event", "subject_name"))
    assert {("person.created", "nora"), ("sign_in.failed", "nora")} <= codes


def test_with_a_role_the_same_person_comes_in(make: Make, client: Client, sso: Provider) -> None:
    mara = make("mara")
    go(client)
    nora = User.objects.get(username="nora")
    people.set_roles(actor=actors.person(mara.user), user=nora, roles=["operator"])
    answer = go(client, next="/admin/roles/")
    assert (answer.status_code, answer["Location"]) == (302, "/admin/roles/")
    assert client.session["_auth_user_id"] == str(nora.pk)
    last = AuditEvent.objects.filter(event="sign_in.succeeded").latest("at")
    assert (last.actor_name, last.details) == ("nora", {"with": ["single sign-on"]})
    people.deactivate(actor=actors.person(mara.user), user=nora, reason="Left")
    assert go(Client()).status_code == 403


def test_a_name_is_no_claim_to_an_account(make: Make, client: Client, sso: Provider) -> None:
    make("mara", superuser=True)
    sso.claims |= {"preferred_username": "mara", "email": "mara@acme.example", "email_verified": True}
    assert go(client).status_code == 403
    assert User.objects.get(username="mara-2").is_staff is False
    assert not SocialAccount.objects.filter(user__username="mara").exists()


def test_a_mail_address_is_no_claim_either(make: Make, client: Client, sso: Provider) -> None:
    mara = make("mara")
    User.objects.filter(pk=mara.user.pk).update(email="mara@acme.example")
    sso.claims |= {"email": "mara@acme.example", "email_verified": True}
    assert go(client).status_code == 403
    assert not SocialAccount.objects.filter(user=mara.user).exists()


def test_one_connects_ones_own_account(make: Make, sso: Provider) -> None:
    mara = make("mara")
    connect(mara)
    assert go(mara.client)["Location"] == "/admin/"
    assert mara.client.session["_auth_user_id"] == str(mara.user.pk)
    assert AuditEvent.objects.filter(event="sign_in.connected", actor_name="mara").count() == 1
    held = SocialAccount.objects.get(user=mara.user)
    assert mara.client.post(f"/admin/sso/disconnect/{held.pk}/")["Location"] == "/admin/sign-in/"
    assert not SocialAccount.objects.exists()
    assert AuditEvent.objects.filter(event="sign_in.disconnected", actor_name="mara").count() == 1


@pytest.mark.parametrize("query", ["process=connect", "process=connect&token=guess"])
def test_a_link_of_a_stranger_connects_nothing(make: Make, sso: Provider, query: str) -> None:
    mara = make("mara")
    mara.sign_in()
    assert mara.client.get(f"{START}?{query}").status_code == 403
    assert not sso.asked


def test_nobody_disconnects_another(make: Make, sso: Provider) -> None:
    mara, tom = make("mara"), make("tom", "approver")
    connect(mara)
    tom.sign_in()
    assert tom.client.post(f"/admin/sso/disconnect/{SocialAccount.objects.get().pk}/").status_code == 404


def test_a_second_factor_here_is_asked_for_too(make: Make, sso: Provider) -> None:
    mara = make("mara")
    secret = set_up_app(mara)
    press_connect(mara)
    sign_out(mara)
    assert go(mara.client)["Location"] == "/admin/sign-in/authenticate/"
    assert "_auth_user_id" not in mara.client.session
    assert mara.client.post("/admin/sign-in/authenticate/", {"code": totp.code(secret)}).status_code == 302


def test_what_is_asked_for(client: Client, db: None, sso: Provider) -> None:
    go(client, scope="admin", auth_params="redirect_uri=https://evil.example/")
    [asked] = sso.asked
    assert asked["redirect_uri"] == "http://testserver/admin/sso/oidc/login/callback/"
    assert (asked["client_id"], asked["response_type"]) == ("gatehouse", "code")
    assert (set(asked["scope"].split()), asked["code_challenge_method"]) == ({"openid", "profile", "email"}, "S256")


@pytest.mark.parametrize("fault", ["audience", "issuer", "expired"])
def test_a_token_for_another_is_refused(client: Client, db: None, sso: Provider, fault: str) -> None:
    sso.fault = fault
    assert go(client).status_code in {401, 502}
    assert not User.objects.exists()
    assert RefusedAuthentication.objects.filter(reason="sso_failed").exists()


def test_an_answer_that_nobody_asked_for_is_refused(client: Client, db: None, sso: Provider) -> None:
    out = client.get(START)
    back = urlsplit(follow(out["Location"]))
    other = Client()
    assert other.get(f"{back.path}?{back.query}").status_code == 401
    assert other.get(f"{back.path}?code=x&state=y").status_code == 401
    assert not User.objects.exists()


def test_an_answer_is_good_once(client: Client, db: None, sso: Provider) -> None:
    out = client.get(START)
    back = urlsplit(follow(out["Location"]))
    client.get(f"{back.path}?{back.query}")
    assert client.get(f"{back.path}?{back.query}").status_code == 401


def test_saying_no_at_the_provider_leads_back(client: Client, db: None, sso: Provider) -> None:
    sso.fault = "denied"
    assert go(client)["Location"] == "/admin/sso/cancelled/"
    assert "You stopped single sign-on" in client.get("/admin/sso/cancelled/", follow=True).content.decode()


def test_a_provider_that_talks_nonsense_is_said_so(client: Client, db: None, sso: Provider) -> None:
    sso.fault = "nonsense"
    answer = client.get(START)
    assert answer.status_code == 502
    assert "gave no answer that we can use" in answer.content.decode()


def test_a_provider_that_is_away_is_said_so(client: Client, db: None, settings) -> None:
    settings.OIDC = Oidc("http://127.0.0.1:9", "gatehouse", "x", "Acme ID")
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [settings.OIDC.app]}}
    assert client.get(START).status_code == 502


GOOD = {"OIDC_ISSUER": "https://id.example", "OIDC_CLIENT_ID": "x", "OIDC_CLIENT_SECRET": "y"}
ODD = [
    ({"OIDC_CLIENT_ID": "x"}, "OIDC_CLIENT_ID"),
    ({"OIDC_NAME": "Acme"}, "OIDC_NAME"),
    ({"OIDC_ISSUER": "https://id.example"}, "OIDC_CLIENT_ID"),
    ({"OIDC_ISSUER": "https://id.example", "OIDC_CLIENT_ID": "x"}, "OIDC_CLIENT_SECRET"),
    ({"OIDC_ISSUER": "http://id.example", "OIDC_CLIENT_ID": "x", "OIDC_CLIENT_SECRET": "y"}, "OIDC_ISSUER"),
    ({"OIDC_ISSUER": "id.example", "OIDC_CLIENT_ID": "x", "OIDC_CLIENT_SECRET": "y"}, "OIDC_ISSUER"),
    ({"OIDC_ISSUER": "https://[id", "OIDC_CLIENT_ID": "x", "OIDC_CLIENT_SECRET": "y"}, "OIDC_ISSUER"),
    ({"OIDC_ISSUER": "https://u:p@id.example", "OIDC_CLIENT_ID": "x", "OIDC_CLIENT_SECRET": "y"}, "OIDC_ISSUER"),
    ({**GOOD, "OIDC_NAME": "n" * 41}, "OIDC_NAME"),
    ({"REQUIRE_MFA": "maybe"}, "REQUIRE_MFA"),
]  # fmt: skip


@pytest.mark.capability("OPS-02")
@pytest.mark.parametrize(("environ", "named"), ODD, ids=lambda value: value if isinstance(value, str) else "")
def test_odd_values_stop_the_start(tmp_path: Path, environ: dict[str, str], named: str) -> None:
    plain = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    whole = {**plain, "GATEHOUSE_DATA": str(tmp_path), **environ}
    done = subprocess.run(
        [sys.executable, "-c", "import config.settings"],
        cwd=ROOT,
        env=whole,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "ImproperlyConfigured" in done.stderr
    assert named in done.stderr.strip().splitlines()[-1]
    assert PASSWORD not in done.stderr
