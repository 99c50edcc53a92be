"""Tasks of a house that is upgraded go on as they did, and their ends take away what was sealed."""

import pytest

from a2a.choices import TaskState
from a2a.models import Task, TaskMessage
from tests.a2a.conftest import Stage
from tests.services.upgrades import back_at

pytestmark = [pytest.mark.capability("A2A-02"), pytest.mark.both_databases]
SECRET = {"password": "correct-horse-battery"}


def test_what_is_under_way_keeps_what_its_agent_is_given_until_its_end(open_stage: Stage) -> None:
    sealed, plain = open_stage.sent(input=SECRET), open_stage.sent()
    assert TaskMessage.objects.exclude(sealed_body="").get().task_id == Task.objects.get(pk=sealed).pk
    with back_at("a2a", "0001_initial"):
        pass
    assert [Task.objects.get(pk=one).is_sealed for one in (sealed, plain)] == [True, False]
    claimed = open_stage.claims(sealed)
    assert claimed.body["input"] == SECRET
    done = open_stage.tells(sealed, "complete", lease_token=claimed.body["lease_token"], result={"a": 1})
    assert done.status == 200, done.body
    assert Task.objects.get(pk=sealed).state == TaskState.COMPLETED
    assert not TaskMessage.objects.exclude(sealed_body="").exists()
