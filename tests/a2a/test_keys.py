"""`Idempotency-Key`: the same again is the same task."""

from datetime import timedelta

import pytest
from django.db.models import F

from a2a import sweeping
from a2a.models import SentOnce, Task
from tests.a2a.conftest import Stage

pytestmark = [pytest.mark.capability("A2A-11"), pytest.mark.both_databases]


def test_the_same_again_is_the_same_task(stage: Stage) -> None:
    first, again = stage.sends(key="k-1"), stage.sends(key="k-1")
    assert (first.status, again.status) == (201, 201)
    assert first.body == again.body
    assert Task.objects.count() == 1


def test_the_order_of_names_does_not_matter(stage: Stage) -> None:
    first, again = stage.sends(key="k", input={"a": 1, "b": 2}), stage.sends(key="k", input={"b": 2, "a": 1})
    assert first.body == again.body


def test_another_body_under_the_key_is_refused(stage: Stage) -> None:
    stage.sends(key="k-1")
    assert stage.sends(key="k-1", task_type="translate").is_refused(409, "Conflict", "idempotency_key_used")
    assert Task.objects.count() == 1


def test_a_key_is_its_callers_own(stage: Stage) -> None:
    assert stage.sends(key="k-1").body["task_id"] != stage.sends(stage.admin, key="k-1").body["task_id"]


def test_what_was_refused_may_be_sent_again(stage: Stage) -> None:
    assert stage.sends(key="k-1", deadline="2020-01-01T00:00:00Z").status == 400
    assert stage.sends(key="k-1").status == 201


def test_a_key_is_known_for_a_day(stage: Stage) -> None:
    first = stage.sends(key="k-1").body["task_id"]
    SentOnce.objects.update(at=F("at") - timedelta(hours=24, seconds=1))
    assert stage.sends(key="k-1").body["task_id"] != first
    SentOnce.objects.update(at=F("at") - timedelta(hours=24, seconds=1))
    sweeping.sweep()
    assert not SentOnce.objects.exists()


@pytest.mark.parametrize("key", ["", "x" * 201, "a b\x7f", "schlüssel"])
def test_a_key_is_a_short_word(stage: Stage, key: str) -> None:
    refused = stage.sender.send("POST", "a2a/tasks", "{}", **{"Idempotency-Key": key})
    assert refused.status == 400
