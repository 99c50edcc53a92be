"""What is to be told of a task's end, written in the transaction that ends it: one commits with the other."""

import json
from typing import Any
from uuid import UUID

from a2a import callback_urls, waking, webhooks
from a2a.choices import DeliveryState, TaskState, Trouble
from a2a.models import Delivery, DisabledUrl, Task

#: The standard wants callbacks small; receivers may refuse more.
LARGEST = 20_000


def put(task: Task, *, event_id: UUID) -> None:
    """Where the task has a callback: a delivery of its last event, due at once."""
    if not task.callback_url or task.completed_at is None:
        return
    owner, url = webhooks.owner_of(task), callback_urls.of(task)
    row = Delivery(
        task=task,
        webhook_id=event_id,
        owner_id=owner.id,
        owner_name=owner.name,
        url=task.callback_url,
        url_mark=callback_urls.mark(url),
        place=callback_urls.host(url),
        body=body_of(task),
        created_at=task.completed_at,
        next_at=task.completed_at,
    )
    if DisabledUrl.objects.filter(owner_id=row.owner_id, url_mark=row.url_mark).exists():
        row.state, row.reason, row.next_at = DeliveryState.DISABLED, Trouble.GONE, None
    row.save(force_insert=True)
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
