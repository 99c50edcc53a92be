"""Errors: one sentence, the request's id, and nothing of how the product is built."""

import uuid

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import Client, RequestFactory
from django.urls import path

from common.console.pages import PART, refused
from common.errors import Conflict, GatehouseError, InvalidInput, NotAllowed, NotFound, RateLimited, RecordUnavailable
from config import urls
from nhi.web import error_responses

pytestmark = pytest.mark.capability("CON-01")

LEAKS = ("Traceback", "site-packages", "nhi/", "SELECT", "Exception", "a secret value")
ERRORS = {
    "invalid": (InvalidInput("The name is odd."), 400),
    "missing": (NotFound(), 404),
    "forbidden": (NotAllowed("You may not do this."), 403),
    "conflict": (Conflict("It is suspended now."), 409),
    "limited": (RateLimited("Wait.", retry_after=7), 429),
    "unrecorded": (RecordUnavailable(), 503),
    "broken": (ValueError("a secret value"), 500),
}


class Unheard(GatehouseError):
    """Of a kind that no table names."""

    code = "unheard"


def fail(request, kind: str):
    raise ERRORS[kind][0]


class Broken:
    urlpatterns = [path("admin/fail/<kind>/", fail), path("api/fail/<kind>", fail), *urls.urlpatterns]
    handler400, handler403, handler404, handler500 = urls.handler400, urls.handler403, urls.handler404, urls.handler500


@pytest.fixture
def client(settings, db: None) -> Client:
    settings.ROOT_URLCONF = Broken
    return Client(raise_request_exception=False)


@pytest.mark.parametrize("kind", ERRORS)
def test_a_page_says_what_and_under_which_id(client: Client, kind: str) -> None:
    asked = str(uuid.uuid4())
    answer = client.get(f"/admin/fail/{kind}/", headers={"X-Request-ID": asked})
    text = answer.content.decode()
    assert answer.status_code == ERRORS[kind][1]
    assert answer["X-Request-ID"] == asked
    assert asked in text
    assert not [leak for leak in LEAKS if leak in text]
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert answer.get("Retry-After") == ("7" if kind == "limited" else None)


@pytest.mark.parametrize("kind", ERRORS)
def test_a_program_gets_the_envelope(client: Client, kind: str) -> None:
    answer = client.get(f"/api/fail/{kind}")
    body = answer.json()
    assert answer.status_code == ERRORS[kind][1]
    assert set(body) == {"error_code", "message", "details", "request_id"}
    assert body["request_id"] == answer["X-Request-ID"]
    assert not [leak for leak in LEAKS if leak in answer.content.decode()]


def test_an_unknown_address_is_a_plain_page(client: Client) -> None:
    answer = client.get("/nothing/here")
    assert answer.status_code == 404
    assert "There is nothing here that you can see." in answer.content.decode()


def test_an_unknown_host_is_refused(client: Client) -> None:
    answer = client.get("/admin/login/", headers={"Host": "evil.example"})
    assert answer.status_code == 400
    assert "evil.example" not in answer.content.decode()


@pytest.mark.parametrize(
    "error", [Unheard("Not so."), *(error for error, _ in ERRORS.values() if isinstance(error, GatehouseError))]
)
def test_a_refusal_has_one_status_in_the_console_and_outside_it(error: GatehouseError, rf: RequestFactory) -> None:
    request = rf.get("/admin/", headers={PART: "1"})
    request.user = AnonymousUser()
    assert refused(request, error).status_code == error_responses.render_gatehouse_error(request, error).status_code
