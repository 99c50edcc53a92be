"""Refusals have one shape and one table; hostile bodies are refused before they do harm."""

import json
import uuid
from typing import Any

import pytest
from django.db import OperationalError
from rest_framework import exceptions

from common import strict_json
from common.api import errors, parsers
from common.errors import GatehouseError, RateLimited, RecordUnavailable
from nhi.api.people import Me
from tests.api.callers import Caller
from tests.api.conftest import Stage

pytestmark = pytest.mark.capability("OPS-04", "NHI-02")

HOSTILE = {
    "not json": b"{",
    "not an object": b"[]",
    "a text": b'"name"',
    "null": b"null",
    "not utf-8": b'{"name": "\xff"}',
    "utf-16": '{"name": "x"}'.encode("utf-16"),
    "a name twice": b'{"name": "a", "name": "b"}',
    "a name twice inside": b'{"tags": [{"a": 1, "a": 2}]}',
    "NaN": b'{"inactivity_days": NaN}',
    "Infinity": b'{"inactivity_days": -Infinity}',
    "a number that overflows": b'{"inactivity_days": 1e400}',
    "a number of 5000 digits": b'{"inactivity_days": ' + b"9" * 5000 + b"}",
    "a number of 30 digits": b'{"inactivity_days": ' + b"9" * 30 + b"}",
    "65 levels": b'{"tags": ' + b"[" * 64 + b"]" * 64 + b"}",
    "5000 levels": b'{"tags": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "500000 levels": b"[" * 500_000,
    "half a surrogate pair": b'{"name": "\\ud800"}',
    "half a pair as a name": b'{"\\udc00": 1}',
    "U+0000": b'{"description": "a\\u0000b"}',
    "a raw control character": b'{"description": "a\x00b"}',
    "a comment": b'{"name": "a" /* b */}',
}


def kinds() -> list[type[GatehouseError]]:
    found, left = [], list(GatehouseError.__subclasses__())
    while left:
        kind = left.pop()
        found.append(kind)
        left.extend(kind.__subclasses__())
    return found


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_error_of_ours_has_an_answer(kind: type[GatehouseError]) -> None:
    assert errors.answer_for(kind) is not errors.INTERNAL
    assert errors.answer_to(kind.code) == errors.answer_for(kind)


@pytest.mark.parametrize("kind", exceptions.APIException.__subclasses__(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_framework_has_an_answer(kind: Any) -> None:
    takes_one = (exceptions.MethodNotAllowed, exceptions.UnsupportedMediaType)
    _, answer, reason = errors.understood(kind("GET") if kind in takes_one else kind())
    assert 400 <= answer.status < 500
    assert reason


def test_an_error_that_waits_says_how_long() -> None:
    answer = errors.handle(RateLimited("Too fast.", retry_after=7), {})
    assert (answer.status_code, answer.data["error_code"]) == (429, "RateLimitExceeded")
    assert answer["Retry-After"] == "7"


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_body_is_refused(stage: Stage, body: bytes) -> None:
    assert stage.admin.send("POST", "identities", body).is_refused(400, "InvalidParameters")
    assert stage.admin.send("PATCH", f"identities/{stage.bot.pk}", body).is_refused(400, "InvalidParameters")


def test_what_is_deep_but_not_too_deep_is_read() -> None:
    deep: Any = strict_json.loads(b"[" * 64 + b"]" * 64)
    for _ in range(63):
        deep = deep[0]
    assert deep == []
    assert strict_json.loads(b'"\\ud83d\\ude00"') == "\U0001f600"


def test_more_than_a_mebibyte_is_too_large(stage: Stage) -> None:
    body = json.dumps({"name": "x" * parsers.LIMIT})
    assert stage.admin.send("POST", "identities", body).is_refused(413, "TooLarge", "too_large")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_another_type_is_refused(stage: Stage, content_type: str) -> None:
    answer = stage.admin.send("POST", "identities", b"name=x", content_type=content_type)
    assert answer.is_refused(400, "InvalidParameters", "unsupported_media_type")


def test_every_problem_of_a_body_is_said_at_once(stage: Stage) -> None:
    answer = stage.agent.post("decisions/check", {"target_id": "x", "foo": 1, "bar": 2, "parameters": []})
    assert answer.is_refused(400, "InvalidParameters")
    assert set(answer.fields) == {"foo", "bar", "target_id", "parameters"}


def test_another_encoding_is_refused(stage: Stage) -> None:
    answer = stage.admin.send("POST", "identities", b"{}", content_type="application/json; charset=utf-16")
    assert answer.is_refused(400, "InvalidParameters", "bad_json")


def test_unknown_paths_are_json_too(stage: Stage) -> None:
    for path in ("/api/nhi/nothing", "/api/nothing", "/api/nhi/me/", "/api/nhi/identities/not-an-id"):
        assert stage.agent.get(path).is_refused(404, "NotFound")
        assert Caller().get(path).is_refused(401, "Unauthorized", "no_credential")


def test_a_wrong_method_is_told(stage: Stage) -> None:
    answer = stage.agent.send("DELETE", "me")
    assert answer.is_refused(405, "InvalidParameters", "method_not_allowed")
    assert stage.agent.send("OPTIONS", "me").is_refused(405, "InvalidParameters", "method_not_allowed")


def test_accept_does_not_matter(stage: Stage) -> None:
    for accept in ("text/html", "application/xml", "nonsense"):
        answer = stage.agent.send("GET", "me", Accept=accept)
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")


def test_the_request_id_is_the_callers(stage: Stage) -> None:
    mine = str(uuid.uuid4())
    answer = stage.agent.send("GET", "identities/" + str(uuid.uuid4()), **{"X-Request-ID": mine})
    assert answer.body["request_id"] == mine == answer.headers["X-Request-ID"]


@pytest.mark.parametrize("raised", [OperationalError("could not connect to server: /var/run/x.sock")])
def test_a_database_that_is_away_is_a_503(stage: Stage, monkeypatch: pytest.MonkeyPatch, raised: Exception) -> None:
    answer = broken(stage, monkeypatch, raised)
    assert answer.is_refused(503, "InternalError", "database_unavailable")
    assert "var/run" not in json.dumps(answer.body)


def test_a_record_that_is_away_is_a_503(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = broken(stage, monkeypatch, RecordUnavailable())
    assert answer.is_refused(503, "InternalError", "record_unavailable")


def test_a_mistake_of_ours_says_nothing_of_us(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = broken(stage, monkeypatch, ZeroDivisionError("SELECT secret FROM nhi_credential"))
    assert answer.is_refused(500, "InternalError", "unexpected")
    text = json.dumps(answer.body)
    assert not [word for word in ("SELECT", "Zero", "Traceback", ".py", "nhi_") if word in text]


def broken(stage: Stage, monkeypatch: pytest.MonkeyPatch, raised: Exception) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise raised

    monkeypatch.setattr(Me, "get", fail)
    return stage.agent.get("me")
