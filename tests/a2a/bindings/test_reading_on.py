"""What a follower reads of a task next: every event behind the last that it knows, in order, so many at a time."""

import pytest

from a2a import parts, writer
from a2a.changes import Status
from a2a.choices import Role, TaskState
from a2a.models import Task, TaskEvent
from a2a.operations import following
from tests.a2a.conftest import Stage

pytestmark = [pytest.mark.capability("A2A-05"), pytest.mark.both_databases]


def told(task_id: str, count: int) -> Task:
    said = [Status(TaskState.WORKING, parts.message(Role.AGENT, [parts.text(f"{at}")])) for at in range(count)]
    return writer.apply_event(Task.objects.get(pk=task_id).pk, *said)


def test_all_that_is_new_is_read_in_order(stage: Stage) -> None:
    task = told(stage.sent(), 3)
    kept = list(TaskEvent.objects.filter(task=task).order_by("seq").values_list("seq", "body"))
    assert [seq for seq, _ in kept] == list(range(1, task.last_seq + 1))
    for known in range(task.last_seq + 1):
        assert [(item.seq, item.body) for item in following.read(task.pk, known)] == kept[known:]


def test_who_is_far_behind_reads_on(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PAGE", 2)
    task = told(stage.sent(), 4)
    found: list[int | None] = []
    while page := following.read(task.pk, len(found)):
        assert len(page) <= 2
        found += [item.seq for item in page]
    assert found == list(range(1, task.last_seq + 1))
