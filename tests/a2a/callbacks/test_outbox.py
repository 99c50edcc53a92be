"""A task that ends and the row that tells of it are one commit; where it is told is judged when it is given."""

import json
import socket
from typing import Any

import pytest

from a2a import callback_urls, outbox, writer
from a2a.changes import Status
from a2a.choices import TaskState
from a2a.models import Delivery, Task, TaskEvent
from common.egress import resolver
from tests.a2a.callbacks.conftest import ended
from tests.a2a.conftest import Stage

pytestmark = [pytest.mark.capability("A2A-06"), pytest.mark.both_databases]
URL = "https://hooks.example.com/done"


@pytest.fixture(autouse=True)
def _names_are_public(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "_query_system_resolver", lambda *_: ["93.184.216.34"])


def test_a_completed_task_has_one_delivery_with_the_contracts_body(stage: Stage) -> None:
    delivery = ended(stage, URL)
    read = stage.reads(str(delivery.task_id))
    assert read["callback_url"] == URL
    assert json.loads(delivery.body) == {
        "task_id": read["id"], "state": "completed", "result": {"summary": "Done."},
        "completed_at": read["completed_at"],
    }  # fmt: skip
    last = TaskEvent.objects.filter(task_id=delivery.task_id).last()
    assert last is not None
    assert (delivery.webhook_id, delivery.state, delivery.attempts) == (last.pk, "pending", 0)


def test_every_other_end_is_told_too(stage: Stage) -> None:
    failed, cancelled = stage.sent(callback_url=URL), stage.sent(callback_url=URL)
    token = stage.claimed(failed)
    stage.tells(failed, "fail", lease_token=token, error_code="unreadable", error_message="It is encrypted.")
    stage.sender.post(f"a2a/tasks/{cancelled}/cancel")
    told = {str(row.task_id): json.loads(row.body) for row in Delivery.objects.all()}
    assert set(told[failed]) == {"task_id", "state", "error_code", "error_message", "completed_at"}
    assert (told[failed]["state"], told[failed]["error_code"]) == ("failed", "unreadable")
    assert set(told[cancelled]) == {"task_id", "state", "completed_at"}
    assert told[cancelled]["state"] == "cancelled"


def test_without_a_callback_there_is_none(stage: Stage) -> None:
    for given in ({}, {"callback_url": None}):
        task_id = stage.sent(**given)
        stage.sender.post(f"a2a/tasks/{task_id}/cancel")
        assert stage.reads(task_id)["callback_url"] is None
    assert not Delivery.objects.exists()


def test_a_task_does_not_end_without_its_row(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    task_id = stage.sent(callback_url=URL)

    def refuse(_task: Task) -> str:
        raise RuntimeError

    monkeypatch.setattr(outbox, "body_of", refuse)
    with pytest.raises(RuntimeError):
        writer.apply_event(Task.objects.get(pk=task_id).pk, Status(TaskState.CANCELED))
    assert Task.objects.get(pk=task_id).is_open
    assert not Delivery.objects.exists()


def test_a_large_result_stays_where_the_task_is_read(stage: Stage) -> None:
    task_id = stage.sent(callback_url=URL)
    stage.tells(task_id, "complete", lease_token=stage.claimed(task_id), result={"text": "word " * 4000})
    body = Delivery.objects.get(task_id=task_id).body
    assert len(body) < 20_000
    assert "result" not in json.loads(body)


def test_a_secret_in_the_url_is_called_and_not_shown(stage: Stage) -> None:
    whole = "https://hooks.example.com/done?token=s3cr3t-and-more"
    delivery = ended(stage, whole)
    assert callback_urls.of(delivery.task) == whole
    stored = str(list(Task.objects.values())) + str(list(Delivery.objects.values()))
    shown = str(stage.reads(str(delivery.task_id))) + str(stage.sender.get("a2a/deliveries").body)
    assert "s3cr3t" not in stored + shown


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks",
        "ftp://hooks.example.com/",
        "http://hooks.example.com/",
        "https://ada:pw@hooks.example.com/",
        "https://localhost/",
        "https://127.0.0.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://[64:ff9b::a9fe:a9fe]/",
        "https://2130706433/",
        f"https://hooks.example.com/{'x' * 2000}",
    ],
)
def test_where_gatehouse_does_not_call_is_refused_at_once(stage: Stage, url: str) -> None:
    refused = stage.sends(callback_url=url)
    assert refused.is_refused(400, "InvalidParameters")
    assert refused.fields == ["callback_url"]
    assert not Task.objects.exists()


def test_a_name_that_leads_inside_is_refused_without_naming_where(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver, "_query_system_resolver", lambda *_: ["93.184.216.34", "10.1.2.3"])
    refused = stage.sends(callback_url=URL)
    assert refused.fields == ["callback_url"]
    assert "10.1.2.3" not in str(refused.body)


def test_a_name_that_nobody_knows_now_is_judged_when_it_is_called(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: Any) -> list[str]:
        raise socket.gaierror

    monkeypatch.setattr(resolver, "_query_system_resolver", unknown)
    assert stage.sends(callback_url=URL).status == 201
