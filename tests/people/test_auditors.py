"""An auditor reads everything, changes nothing, and leaves a trace of each page they open."""

import pytest
from django.db import DatabaseError

from nhi.models import AuditEvent
from tests.people.conftest import PASSWORD, Make, Somebody

pytestmark = pytest.mark.capability("AUD-01", "CON-01")


@pytest.fixture
def ada(make: Make) -> Somebody:
    ada = make("ada", "auditor")
    ada.sign_in()
    return ada


def opened() -> list[str]:
    return list(AuditEvent.objects.filter(event="page.opened").order_by("at").values_list("subject_name", flat=True))


def test_each_page_is_on_record(ada: Somebody) -> None:
    assert ada.client.get("/admin/sign-in/?tab=1").status_code == 200
    event = AuditEvent.objects.get(event="page.opened")
    assert (event.actor_name, event.subject_kind, event.subject_name) == ("ada", "page", "Sign-in (/admin/sign-in/)")
    assert event.details == {"path": "/admin/sign-in/", "query": "tab=1"}


@pytest.mark.parametrize("header", ["HX-Request", "X-Console-Part", "X-Console-Poll"])
def test_no_header_keeps_a_page_off_the_record(ada: Somebody, header: str) -> None:
    ada.client.get("/admin/sign-in/", headers={header: "1"})
    assert opened() == ["Sign-in (/admin/sign-in/)"]


def test_what_nobody_opened_is_not_recorded(ada: Somebody) -> None:
    ada.client.get("/admin/search/", {"s": "dep"})
    ada.client.get("/admin/session/")
    ada.client.get("/admin/nothing-here/")
    ada.client.get("/api/nhi/me")
    assert not opened()


def test_others_leave_none(make: Make) -> None:
    mara = make("mara")
    mara.sign_in()
    mara.client.get("/admin/sign-in/")
    assert not opened()


def test_a_page_that_cannot_be_recorded_is_not_shown(ada: Somebody, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise DatabaseError

    monkeypatch.setattr(AuditEvent, "save", broken)
    answer = ada.client.get("/admin/sign-in/")
    assert answer.status_code == 503
    assert "Password" not in answer.content.decode()


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
@pytest.mark.parametrize("path", ["/admin/", "/admin/nhi/identity/add/", "/admin/tokens/", "/admin/nothing-here/"])
def test_nothing_is_changed(ada: Somebody, method: str, path: str) -> None:
    answer = getattr(ada.client, method)(path)
    assert answer.status_code == 403
    assert "Auditors read everything and change nothing." in answer.content.decode()
    assert answer["X-Request-ID"] in answer.content.decode()


def test_their_own_sign_in_is_theirs(ada: Somebody) -> None:
    new = "another-lamp-over-3-stairs"
    assert ada.client.post("/admin/password_change/", {"password": new, "again": new}).status_code == 302
    assert ada.client.post("/admin/sign-in/confirm/", {"password": new}).status_code == 302
    assert ada.client.post("/admin/sign-in/totp/activate/", {"code": "1"}).status_code == 200
    assert ada.client.post("/admin/session/").status_code == 200
    assert ada.client.post("/admin/logout/").status_code == 302
    assert ada.client.post("/admin/login/", {"username": "ada", "password": PASSWORD}).status_code == 200


def test_a_superuser_who_audits_still_acts(make: Make) -> None:
    root = make("root", "auditor", superuser=True)
    root.sign_in()
    assert root.client.post("/admin/session/").status_code == 200
    assert not opened()
