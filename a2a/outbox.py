"""What is to be told of a task, written in the transaction that it tells of: one commits with the other."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from a2a import callback_urls, pushing, queueing, showing, waking, webhooks
from a2a.choices import DeliveryState, EventKind, TaskState, Trouble
from a2a.models import Delivery, DisabledUrl, PushConfig, Task, TaskEvent
from a2a.wire.v03.json import write_task
from common.crypto import UnsealError
from common.ids import uuid7

#: The standard wants callbacks small; receivers may refuse more.
LARGEST = 20_000
#: What an agent made may be larger, and is worth it to who asked for every event; beyond this it is fetched.
LARGEST_EVENT = 1024 * 1024
OLD = "0.3"


def put(task: Task, *, event_id: UUID) -> None:
    """Where the task has a callback: a delivery of its last event, due at once."""
    if not task.callback_url or task.completed_at is None:
        return
    row = _row(task, partial(callback_urls.of, task), shown=task.callback_url, at=task.completed_at)
    row.webhook_id, row.body = event_id, body_of(task)
    _save([row])


def push(task: Task, told: Sequence[TaskEvent]) -> None:
    """A delivery of each event, to everybody who asked for them.

    0.3 tells the whole task each time, and so not of a piece that another follows."""
    events = [event for event in told if event.kind != EventKind.MESSAGE]
    rows = []
    for config in PushConfig.objects.filter(task=task) if events else ():
        wanted = [event for event in events if config.wire_version != OLD or not _goes_on(event)]
        waits_until = queueing.waits_until(config.pk) if wanted else None
        for event in wanted:
            row = _row(task, partial(_url_of, config), shown=config.url, at=event.at)
            row.webhook_id, row.push_id, row.event_seq = uuid7(), config.pk, event.seq
            row.next_at = row.next_at and max(row.next_at, waits_until or row.next_at)
            row.body = pushed(task, event, config.wire_version)
            rows.append(row)
    _save(rows)


def _goes_on(event: TaskEvent) -> bool:
    return event.kind == EventKind.ARTIFACT and not event.body["artifactUpdate"]["lastChunk"]


def pushed(task: Task, event: TaskEvent, wire_version: str) -> str:
    """The event, or in 0.3 the whole task as it stands; of one that is too large, its state alone."""
    old = wire_version == OLD
    body = json.dumps(write_task(showing.task(task)) if old else event.body)
    if len(body) < LARGEST_EVENT:
        return body
    standing = showing.whole(task)
    return json.dumps(write_task(standing) if old else {"task": standing})


def _row(task: Task, url: Callable[[], str], *, shown: str, at: datetime) -> Delivery:
    """Where it cannot be read any more to whom, the task goes on, and the delivery says so."""
    owner = webhooks.owner_of(task)
    row = Delivery(task=task, owner_id=owner.id, owner_name=owner.name, created_at=at, next_at=at, url=shown)
    try:
        whole = url()
    except UnsealError:
        whole, row.state, row.reason, row.next_at = shown, DeliveryState.DEAD, Trouble.UNREADABLE, None
    row.url_mark, row.place = callback_urls.mark(whole), callback_urls.host(whole)
    return row


def _url_of(config: PushConfig) -> str:
    return str(pushing.opened(config)["url"])


def _save(rows: list[Delivery]) -> None:
    if not rows:
        return
    marks = {row.url_mark for row in rows}
    disabled = DisabledUrl.objects.filter(owner_id=rows[0].owner_id, url_mark__in=marks)
    over = set(disabled.values_list("url_mark", flat=True))
    for row in rows:
        if row.url_mark in over:
            row.state, row.reason, row.next_at = DeliveryState.DISABLED, Trouble.GONE, None
    Delivery.objects.bulk_create(rows)
    waking.wake()


def body_of(task: Task) -> str:
    """The callback's body; a result that makes it too large stays where the task is read."""
    assert task.completed_at is not None  # it is told of what has ended
    told: dict[str, Any] = {"task_id": str(task.pk), "state": task.word.value}
    errors = {"error_code": task.error_code, "error_message": task.error_message}
    told |= {name: said for name, said in errors.items() if said}
    told["completed_at"] = task.completed_at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if task.state == TaskState.COMPLETED and task.result is not None:
        whole = json.dumps({**told, "result": task.result})
        if len(whole) < LARGEST:
            return whole
    return json.dumps(told)
