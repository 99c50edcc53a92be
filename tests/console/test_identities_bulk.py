"""Several identities at once: what costs the same for many as for one, and what stops all of them."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from common.errors import RecordUnavailable
from nhi import hooks
from nhi.audit import events
from nhi.choices import State
from nhi.identities import lifecycle
from nhi.models import Identity
from tests.console.conftest import identity

pytestmark = pytest.mark.capability("CON-05")
NAMES = ("deploy-bot", "triage-bot", "writer")


def address(verb: str, *names: str) -> str:
    return f"/admin/nhi/identity/bulk/{verb}/?" + "&".join(f"id={identity(name).pk}" for name in names)


@pytest.mark.parametrize(
    ("verb", "body"),
    [("suspend", {"reason": "Drill"}), ("owner", {"owner": "olga"}), ("tag", {"tags": "q4"})],
)
def test_without_the_record_the_page_is_a_503_and_nothing_is_done(
    mara: Client, monkeypatch: pytest.MonkeyPatch, verb: str, body: dict[str, str]
) -> None:
    page = address(verb, *NAMES)
    seen = mara.get(page).context["seen"]
    before = list(Identity.objects.order_by("pk").values())
    with monkeypatch.context() as patch:
        patch.setattr(events, "write", _away)
        answer = mara.post(page, {**body, "seen": seen})
    assert answer.status_code == 503
    assert "audit record cannot be written" in answer.content.decode()
    assert list(Identity.objects.order_by("pk").values()) == before


def _away(*_given: Any, **_more: Any) -> None:
    raise RecordUnavailable


@pytest.mark.capability("NHI-03")
def test_each_has_its_own_result(mara: Client) -> None:
    page = address("suspend", *NAMES)
    seen = mara.get(page).context["seen"]
    answer = mara.post(page, {"reason": "Drill", "seen": seen})
    assert [(item.name, item.result) for item in answer.context["results"]] == [(name, "done") for name in NAMES]
    assert {identity(name).state for name in NAMES} == {State.SUSPENDED}


@pytest.mark.capability("NHI-03")
def test_the_consequences_of_many_are_counted_like_those_of_one(seeded: None, monkeypatch: pytest.MonkeyPatch) -> None:
    step = hooks.StopStep("tasks", lambda _one: 0, lambda some: 2 * len(some))
    monkeypatch.setattr(hooks, "stop_steps", {"tasks": step})
    chosen = [identity(name) for name in NAMES]
    each = [lifecycle.consequences(one) for one in chosen]
    with CaptureQueriesContext(connection) as asked:
        together = lifecycle.consequences_of(chosen)
    assert len(asked) == 1
    assert together == {name: sum(one[name] for one in each) for name in each[0]}
    assert together["tasks"] == 6


def test_the_dialog_asks_the_database_as_often_for_three_as_for_one(mara: Client) -> None:
    one, three = address("suspend", NAMES[0]), address("suspend", *NAMES)
    mara.get(one)
    assert _asked(lambda: mara.get(three)) == _asked(lambda: mara.get(one))


def _asked(look: Callable[[], Any]) -> int:
    with CaptureQueriesContext(connection) as asked:
        look()
    return len(asked)
