"""An auditor reads everything, changes nothing, and leaves a trace of each page they open."""

from collections.abc import Callable

import pytest
from django.db import DatabaseError
from django.test import Client

from nhi.actors import SYSTEM
from nhi.credentials import credentials
from nhi.identities import identities
from nhi.models import AuditEvent
from tests.nhi import cast
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
    assert (event.actor_name, event.subject_kind, event.subject_name) == ("ada", "page", "Sign-in")
    assert event.details == {"path": "/admin/sign-in/", "query": "tab=1"}


@pytest.mark.parametrize("header", ["HX-Request", "X-Console-Part", "X-Console-Poll"])
def test_no_header_keeps_a_page_off_the_record(ada: Somebody, header: str) -> None:
    ada.client.get("/admin/sign-in/", headers={header: "1"})
    assert opened() == ["Sign-in"]


def test_what_nobody_opened_is_not_recorded(ada: Somebody) -> None:
    ada.client.get("/admin/search/", {"s": "dep"})
    ada.client.get("/admin/session/")
    ada.client.get("/admin/nothing-here/")
    ada.client.get("/api/nhi/me")
    assert not opened()


def by_session(ada: Somebody) -> Client:
    return ada.client


def by_own_token(ada: Somebody) -> Client:
    # Issued for them: an auditor changes nothing, so none of theirs is issued by themselves.
    return bearer(credentials.issue(actor=SYSTEM, holder=ada.user).token)


def by_service_account(_ada: Somebody) -> Client:
    account = cast.service("ada-evidence")
    identities.set_console_roles(actor=SYSTEM, identity=account, roles=["auditor"])
    return bearer(credentials.issue(actor=SYSTEM, holder=account).token)


def bearer(token: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {token}"})


WAYS = pytest.mark.parametrize("way", [by_session, by_own_token, by_service_account])


@WAYS
def test_each_answer_over_rest_is_on_record(ada: Somebody, way: Callable[[Somebody], Client]) -> None:
    client = way(ada)
    assert client.get("/api/nhi/identities?kind=agent").status_code == 200
    event = AuditEvent.objects.get(event="page.opened")
    assert (event.actor_name.partition("-")[0], event.subject_kind) == ("ada", "page")
    assert event.subject_name == "List identities"
    assert event.details == {"path": "/api/nhi/identities", "query": "kind=agent"}
    assert client.head("/api/nhi/people").status_code == 200
    assert opened()[1:] == ["List people"]


def test_an_explanation_over_rest_is_on_record(ada: Somebody) -> None:
    bot, read = cast.agent("bot"), cast.tool("github__read")
    body = {"caller_id": str(bot.pk), "target_id": str(read.pk)}
    answer = by_own_token(ada).post("/api/nhi/decisions/explain", body, content_type="application/json")
    assert answer.status_code == 200, answer.content
    paths = AuditEvent.objects.filter(event="page.opened").values_list("details__path", flat=True)
    assert list(paths) == ["/api/nhi/decisions/explain"]


def test_what_was_not_shown_over_rest_is_not_recorded(ada: Somebody) -> None:
    for path in (f"identities/{ada.user.pk}", "nothing-here", "identities?limit=x"):
        assert ada.client.get(f"/api/nhi/{path}").status_code in (400, 404)
    assert ada.client.get("/api/schema/").status_code == 200
    assert not opened()


@WAYS
def test_nothing_is_shown_over_rest_that_cannot_be_recorded(
    ada: Somebody, monkeypatch: pytest.MonkeyPatch, way: Callable[[Somebody], Client]
) -> None:
    client = way(ada)

    def broken(*_: object, **__: object) -> None:
        raise DatabaseError

    monkeypatch.setattr(AuditEvent, "save", broken)
    answer = client.get("/api/nhi/people")
    assert answer.status_code == 503
    assert answer.json()["details"]["reason"] == "record_unavailable"


def test_others_leave_none(make: Make) -> None:
    mara = make("mara")
    mara.sign_in()
    mara.client.get("/admin/sign-in/")
    assert mara.client.get("/api/nhi/people").status_code == 200
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
