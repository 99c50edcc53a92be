"""Telling a remote agent that a task has ended here. It is final here first; this is done as well as it can be."""

from uuid import UUID

from django.db import transaction

from a2a.models import RemoteTask, Task
from a2a.remote import asking, keeping, pausing
from a2a.remote.client import Client
from a2a.remote.target import Target
from a2a.remote.troubles import Trouble
from a2a.wire.faults import Kind
from common.executors import run_in_thread
from common.ids import uuid7
from nhi.actors import SYSTEM
from nhi.audit import events

#: There is nothing to end there any more.
NAMELESS = "It ended here while it was being sent on, before the remote agent had said what it is called there."
ENDED_THERE = frozenset({Kind.TASK_NOT_CANCELABLE, Kind.TASK_NOT_FOUND, Kind.NOT_FOUND})


async def forward_cancel(*, task_id: UUID, target: Target) -> bool:
    """Whether the remote agent was told. Nothing is done for a task that is open here, over there, or told already."""
    row = await run_in_thread(lambda: _owed(task_id))
    if row is None:
        return False
    if not row.remote_task_id:
        await run_in_thread(lambda: _settle(task_id, told=False, why=NAMELESS))
        return False
    trouble = await _tell(row, target)
    ended_there = trouble is not None and trouble.kind in ENDED_THERE
    told = trouble is None or ended_there
    await run_in_thread(lambda: _settle(task_id, told=told, why=trouble.operator if trouble else ""))
    return told


def _owed(task_id: UUID) -> RemoteTask | None:
    going_on = RemoteTask.objects.going_on().filter(pk=task_id).select_related("task")
    return going_on.exclude(remote_task_id="", leaving=None).first()


async def _tell(row: RemoteTask, target: Target) -> Trouble | None:
    client = Client(target, request_id=str(row.task.request_id or uuid7()))
    interface = keeping.interface_of(row)
    for pause in (*pausing.AGAIN, None):
        try:
            await client.ask(interface, asking.of_task(interface, "cancel", row.remote_task_id))
        except Trouble as trouble:
            if not trouble.passing or pause is None:
                return trouble
            await pausing.before_again(pause, trouble)
        else:
            return None
    raise AssertionError("the last try returns")


def _settle(task_id: UUID, *, told: bool, why: str) -> None:
    """Once: of two that told it, one is on record."""
    with transaction.atomic():
        if not RemoteTask.objects.filter(pk=task_id, cancel_settled=False).update(cancel_settled=True):
            return
        event = "task.cancel_forwarded" if told else "task.cancel_not_forwarded"
        events.write(event, actor=SYSTEM, subject=Task.objects.get(pk=task_id), reason=why)
