"""How many tasks an agent takes: exact, whoever sends, whichever way and however many at once."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F

from a2a import endpoint_changes
from a2a.models import Task
from nhi.actors import SYSTEM
from tests.a2a.conftest import Stage
from tests.nhi import cast

pytestmark = [pytest.mark.capability("A2A-09"), pytest.mark.both_databases]
AT_ONCE = 6


def limited(stage: Stage, **limits: Any) -> None:
    endpoint_changes.change(actor=SYSTEM, identity=stage.writer, **limits)


@pytest.mark.parametrize(("limit", "window"), [("tasks_per_minute", 60), ("tasks_per_hour", 3600)])
def test_a_window_is_counted_exactly_over_all_senders(stage: Stage, limit: str, window: int) -> None:
    limited(stage, **{limit: 2})
    assert [stage.sends().status, stage.sends(stage.admin).status] == [201, 201]
    for caller in (stage.sender, stage.admin):
        refused = stage.sends(caller)
        assert refused.is_refused(429, "RateLimitExceeded", "endpoint_rate_limited")
        assert 0 < int(refused.headers["Retry-After"]) <= window
    assert cast.events(stage.writer, event="task.refused") == ["task.refused"] * 2
    oldest = Task.objects.earliest("created_at")
    Task.objects.filter(pk=oldest.pk).update(created_at=F("created_at") - timedelta(seconds=window))
    assert stage.sends().status == 201
    assert stage.sends().status == 429


def test_other_agents_have_room_of_their_own(stage: Stage) -> None:
    limited(stage, tasks_per_minute=1)
    assert stage.sends().status == 201
    other = cast.agent("second")
    cast.nhi_grant(stage.planner, other)
    assert stage.sends(target_agent_id=str(other.pk)).status == 201
    assert stage.sends().status == 429


def test_as_many_are_open_as_it_works_on_at_a_time(stage: Stage) -> None:
    limited(stage, max_concurrent_tasks=1)
    first = stage.sent()
    refused = stage.sends()
    assert refused.is_refused(429, "RateLimitExceeded", "endpoint_busy")
    assert int(refused.headers["Retry-After"]) > 0
    stage.tells(first, "complete", lease_token=stage.claimed(first), result={})
    assert stage.sends().status == 201


@pytest.mark.parametrize("limit", ["tasks_per_minute", "tasks_per_hour", "max_concurrent_tasks"])
def test_who_send_at_once_do_not_get_past_it(open_stage: Stage, limit: str) -> None:
    limited(open_stage, **{limit: 2})
    gate = threading.Barrier(AT_ONCE)

    def go(number: int) -> int:
        gate.wait()
        try:
            return open_stage.sends(open_stage.sender if number % 2 else open_stage.admin).status
        finally:
            connection.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert Counter(pool.map(go, range(AT_ONCE))) == {201: 2, 429: AT_ONCE - 2}
    assert Task.objects.count() == 2


def test_input_that_is_too_large_is_refused_whichever_way_it_comes(stage: Stage) -> None:
    limited(stage, max_input_size=40)
    assert stage.sends(input={"text": "short"}).status == 201
    refused = stage.sends(input={"text": "x" * 40})
    assert refused.is_refused(413, "TooLarge", "input_too_large")
    assert refused.body["details"]["limit"] == 40
    assert Task.objects.count() == 1


def test_output_that_is_too_large_is_not_taken_from_the_agent(stage: Stage) -> None:
    limited(stage, max_output_size=200)
    task_id = stage.sent()
    token = stage.claimed(task_id)
    refused = stage.tells(task_id, "complete", lease_token=token, result={"text": "x" * 200})
    assert refused.is_refused(413, "TooLarge", "output_too_large")
    assert stage.reads(task_id)["state"] == "running", "it may bring a shorter one"
    assert stage.tells(task_id, "complete", lease_token=token, result={"text": "x"}).status == 200


def test_a_refused_caller_learns_nothing_of_the_endpoint(stage: Stage) -> None:
    limited(stage, tasks_per_minute=1)
    assert stage.sends().status == 201
    assert stage.sends(stage.stranger).is_refused(404, "NotFound")
