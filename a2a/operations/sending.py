"""Operations that change something: a new task, more for one that waits, and its end."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from a2a import cancelling, sending, showing
from a2a.models import Task
from a2a.operations import visits
from a2a.operations.answers import Began
from a2a.operations.visits import Visit
from a2a.sending import Wish
from a2a.wire.faults import Fault, Kind, invalid
from a2a.writer import TaskEnded


def send(visit: Visit, params: Mapping[str, Any]) -> Began:
    asked = params.get("configuration", {})
    began = _begin(visit, params)
    return replace(began, waits=not asked.get("returnImmediately", False), history=asked.get("historyLength"))


def push_config(params: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = params.get("configuration", {}).get("taskPushNotificationConfig")
    return found


def receiver(params: Mapping[str, Any]) -> tuple[str, str] | None:
    found = push_config(params)
    return (found["url"], "configuration.taskPushNotificationConfig.url") if found is not None else None


def begin_stream(visit: Visit, params: Mapping[str, Any]) -> Began:
    began = _begin(visit, params)
    return replace(began, from_start="taskId" not in params["message"], ends_when_asked=True)


def cancel(visit: Visit, params: Mapping[str, Any]) -> dict[str, Any]:
    found = visits.task(visit, params["id"])
    try:
        return showing.task(cancelling.cancel(actor=visit.actor, task=found))
    except TaskEnded as ended:
        raise Fault(Kind.TASK_NOT_CANCELABLE, ended.message) from ended


def _begin(visit: Visit, params: Mapping[str, Any]) -> Began:
    key, send = visit.idempotency_key, _sending(visit, params)
    if key is None:
        return Began(send(), visit.caller_id)
    body = {"agent": visit.agent.name, **params}
    return Began(sending.once(caller=visit.caller, key=key, body=body, sending=send), visit.caller_id)


def _sending(visit: Visit, params: Mapping[str, Any]) -> Callable[[], Task]:
    """What is left to do once all is read that can be without the database."""
    message = params["message"]
    if "taskId" in message:
        return lambda: _said(visit, message)
    metadata = dict(params.get("metadata", {}))
    wish = Wish(
        message={name: one for name, one in message.items() if name != "contextId"},
        # What the REST contract has a field for; grants name it.
        task_type=_text(metadata.pop("task_type", "")),
        context_id=message.get("contextId", ""),
        metadata=metadata,
        push=push_config(params),
        wire_version=visit.version,
    )
    _ = wish.shown
    return lambda: sending.send(caller=visit.caller, target=visit.agent, wish=wish)


def _said(visit: Visit, message: Mapping[str, Any]) -> Task:
    """More for a task whose agent asked for it."""
    task = visits.task(visit, message["taskId"])
    if message.get("contextId", task.context_id) != task.context_id:
        raise invalid(("message.contextId", "The task belongs to another context; leave this out."))
    try:
        return sending.say(caller=visit.caller, task=task, message=message)
    except (TaskEnded, sending.TakesNoMessage) as refused:
        raise Fault(Kind.UNSUPPORTED, refused.message) from refused


def _text(said: Any) -> str:
    if not isinstance(said, str):
        raise invalid(("metadata.task_type", "Give a text."))
    return said
