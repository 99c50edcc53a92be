"""A token that was narrowed to some tools sends what its scope covers, and looks at nothing, through any door."""

import json
import re

import pytest
from django.urls import URLPattern

from a2a.api.base import TasksView
from a2a.api.urls import urlpatterns
from nhi.actors import SYSTEM
from nhi.credentials import credentials
from tests.a2a.conftest import Stage
from tests.api.callers import Caller
from tests.api.test_oauth import GRANT, ask, client

pytestmark = [pytest.mark.capability("A2A-08", "NHI-05"), pytest.mark.both_databases]
#: Where it may send; a decision tells what.
SENDS = {("POST", "a2a/tasks"), ("POST", "a2a/envelope")}


def doors(pk: str) -> list[tuple[str, str]]:
    """Each verb of each path that is about tasks."""
    found = []
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        view = getattr(pattern.callback, "view_class", None)
        if view is not None and issubclass(view, TasksView):
            path = re.sub(r"<[^>]+>", pk, str(pattern.pattern))
            found += [(verb.upper(), path) for verb in ("get", "post", "put", "patch", "delete") if hasattr(view, verb)]
    return [door for door in found if door not in SENDS]


@pytest.fixture
def narrowed(stage: Stage) -> Caller:
    token = credentials.issue(actor=SYSTEM, holder=stage.planner).token
    return Caller(ask({**GRANT, **client(Caller(token)), "scope": "github.*"}).body["access_token"])


def test_every_door_but_sending_is_closed(stage: Stage, narrowed: Caller) -> None:
    task_id = stage.sent()
    closed = doors(task_id)
    assert len(closed) > 25
    for method, path in closed:
        body = "" if method == "GET" else json.dumps({})
        refused = narrowed.send(method, path, body)
        assert refused.is_refused(403, "Unauthorized", "scope_not_allowed"), (method, path)


def test_an_envelope_sends_and_asks_for_nothing(stage: Stage, narrowed: Caller) -> None:
    task_id = stage.sent()
    heading = {"protocol": "a2a", "version": "1.0", "id": "e-1", "type": "request", "timestamp": "2026-11-18T10:00:00Z"}
    context = {"from": "", "to": stage.writer.name, "conversationId": "", "messageId": "m-1"}
    for params in ({"id": task_id}, {}):
        letter = {**heading, "context": context, "payload": {"method": "status", "params": params}}
        told = narrowed.post("a2a/envelope", letter).body
        assert told["type"] == "error"
        assert told["payload"]["error"]["data"][0]["metadata"]["reason"] == "scope_not_allowed"
        assert task_id not in str(told["payload"])
