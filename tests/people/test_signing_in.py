"""A plain form at /admin/login/: what it asks, where it leads, and that it tells nobody who exists."""

import re

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.test import Client

from nhi.models import AuditEvent
from tests.people.conftest import PASSWORD, Make, Somebody

pytestmark = pytest.mark.capability("CON-01")

REFUSAL = "This name and password do not open the console."


def events(*codes: str) -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(event__in=codes).order_by("at"))


def test_the_form_needs_no_script(client: Client, db: None) -> None:
    page = client.get("/admin/login/")
    text = page.content.decode()
    assert page.status_code == 200
    assert re.search(r'<input[^>]*name="username"', text)
    assert re.search(r'<input[^>]*name="password"[^>]*type="password"', text)
    assert "csrfmiddlewaretoken" in text


def test_the_form_passes_the_strict_policy(client: Client, db: None) -> None:
    page = client.get("/admin/login/")
    text = page.content.decode()
    assert "unsafe" not in page["Content-Security-Policy"]
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", text)
    assert "no-store" in page["Cache-Control"]


def test_a_right_password_opens_the_console(mara: Somebody) -> None:
    answer = mara.sign_in()
    assert (answer.status_code, answer["Location"]) == (302, "/admin/")
    [event] = events("sign_in.succeeded")
    assert (event.actor_name, event.source, event.details) == ("mara", "127.0.0.1", {"with": ["password"]})


@pytest.mark.parametrize(
    ("wanted", "leads_to"),
    [
        ("/admin/nhi/identity/?q=x", "/admin/nhi/identity/?q=x"),
        ("https://evil.example/", "/admin/"),
        ("//evil.example/", "/admin/"),
        ("/\\evil.example/", "/admin/"),
        ("http://testserver/admin/", "/admin/"),
        ("javascript:alert(1)", "/admin/"),
        ("admin/", "/admin/"),
        ("", "/admin/"),
    ],
)
def test_next_leads_to_own_paths_only(mara: Somebody, wanted: str, leads_to: str) -> None:
    assert mara.sign_in(next=wanted)["Location"] == leads_to
    assert mara.client.get("/admin/login/", {"next": wanted})["Location"] == leads_to


def refused(client: Client, username: str, password: str) -> str:
    answer = client.post("/admin/login/", {"username": username, "password": password})
    assert answer.status_code == 200
    page = re.sub(r'name="csrfmiddlewaretoken" value="[^"]+"', "", answer.content.decode())
    return page.replace(username, "…")


def test_every_refusal_reads_the_same(make: Make, client: Client) -> None:
    mara, gone, stranger = make("mara"), make("gone"), make("roleless")
    gone.user.__class__.objects.filter(pk=gone.user.pk).update(is_active=False)
    stranger.user.__class__.objects.filter(pk=stranger.user.pk).update(is_staff=False)
    pages = {
        refused(client, mara.user.username, "wrong"),
        refused(client, "nobody-at-all", "wrong"),
        refused(client, "gone", PASSWORD),
        refused(client, "roleless", PASSWORD),
        refused(client, "what ever; this *is", PASSWORD),
        refused(client, "x" * 400, PASSWORD),
    }
    assert len(pages) == 1
    assert REFUSAL in pages.pop()


@pytest.mark.capability("AUD-01")
def test_a_failure_is_on_record_without_the_password(mara: Somebody, client: Client) -> None:
    client.post("/admin/login/", {"username": "mara", "password": "my-very-own-guess"})
    [event] = events("sign_in.failed")
    assert (event.subject_name, event.subject_id, event.source) == ("mara", mara.user.pk, "127.0.0.1")
    assert event.actor_kind == "anonymous"
    row = {field.name: str(getattr(event, field.name)) for field in AuditEvent._meta.fields}
    assert "my-very-own-guess" not in str(row)


def test_an_empty_field_says_what_to_type(client: Client, db: None) -> None:
    answer = client.post("/admin/login/", {"username": "", "password": ""})
    assert answer.status_code == 400
    assert "Type your name." in answer.content.decode()
    assert not events("sign_in.failed")


def test_an_unknown_name_is_hashed_for_too(make: Make, client: Client) -> None:
    """The time of both is the time of one hash: counted, since a clock in a test is a coin."""
    hashed: list[str] = []
    original = MD5PasswordHasher.encode

    def counting(self: MD5PasswordHasher, password: str, salt: str) -> str:
        hashed.append(password)
        return str(original(self, password, salt))

    make("mara")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MD5PasswordHasher, "encode", counting)
        client.post("/admin/login/", {"username": "mara", "password": "one"})
        client.post("/admin/login/", {"username": "nobody", "password": "two"})
        client.post("/admin/login/", {"username": "not a name", "password": "three"})
    assert hashed == ["one", "two", "three"]


def test_signing_in_needs_the_csrf_token(mara: Somebody) -> None:
    strict = Client(enforce_csrf_checks=True)
    answer = strict.post("/admin/login/", {"username": "mara", "password": PASSWORD})
    assert answer.status_code == 403
    page = answer.content.decode()
    assert "gone stale" in page
    assert answer["X-Request-ID"] in page
    assert not events("sign_in.succeeded")
