"""Receivers of a task's events: whom its caller wants told, under which id, and with what to show for it."""

import json
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from a2a import callback_urls
from a2a.choices import DeliveryState, Trouble
from a2a.models import Delivery, PushConfig, Task
from common import crypto
from common.db import clock
from common.errors import Conflict, NotFound
from common.ids import uuid7
from common.redaction import redact_text
from nhi.actors import Actor
from nhi.audit import events
from nhi.validation import Problems

MOST = 20
#: 0.3 knows one receiver of a task that nobody named, and its clients ask for it by this.
OLD, UNNAMED = "0.3", "default"
#: Its owner's secrets apart, this is all of it.
TOLD = ("url", "token", "authentication")
SHOWN_TO_RECEIVER = "X-A2A-Notification-Token"


def make(*, actor: Actor, task: Task, asked: Mapping[str, Any], wire_version: str) -> PushConfig:
    """Tell this receiver of every event from here on; under an id that is known, instead of the one before."""
    problems = Problems()
    callback_urls.check(problems, asked["url"], field="url")
    problems.check_line("id", asked.get("id", ""), max_length=200)
    problems.raise_if_any()
    unnamed = UNNAMED if wire_version == OLD else str(uuid7())
    row = PushConfig(task=task, config_id=asked.get("id") or unnamed, wire_version=wire_version)
    row.url, row.created_at = redact_text(asked["url"]), clock.database_now()
    row.sealed = crypto.seal(json.dumps({name: asked[name] for name in TOLD if name in asked}), place=_place(row))
    with transaction.atomic():
        Task.objects.select_for_update(of=("self",)).get(pk=task.pk)
        _take_away(PushConfig.objects.filter(task=task, config_id=row.config_id))
        if PushConfig.objects.filter(task=task).count() >= MOST:
            raise Conflict(f"{MOST} receivers are told of the {task}, which is as many as may be.")
        row.save(force_insert=True)
        Task.objects.filter(pk=task.pk, pushes=False).update(pushes=True)
        # What follows the path is the receiver's own, and may be what it knows us by.
        told_at = row.url.partition("?")[0]
        events.write("push_config.made", actor=actor, subject=task, details={"config": row.config_id, "url": told_at})
    return row


def find(task: Task, config_id: str | None) -> PushConfig:
    """The one with this id; without one, which only 0.3 may ask for, the first."""
    rows = PushConfig.objects.filter(task=task).order_by("created_at", "id")
    found = rows.first() if config_id is None else rows.filter(config_id=config_id).first()
    if found is None:
        raise NotFound
    return found


def take_away(*, actor: Actor, task: Task, config_id: str, reason: str = "") -> bool:
    """Tell it nothing more; False where it is not there, and so hears nothing already."""
    with transaction.atomic():
        taken = _take_away(PushConfig.objects.filter(task=task, config_id=config_id))
        if taken:
            details = {"config": config_id}
            events.write("push_config.removed", actor=actor, subject=task, reason=reason, details=details)
        return bool(taken)


def told(row: PushConfig) -> dict[str, Any]:
    """As its owner gave it."""
    return {"taskId": str(row.task_id), "id": row.config_id, **opened(row)}


def opened(row: PushConfig) -> dict[str, Any]:
    return dict(json.loads(crypto.unseal(row.sealed, place=_place(row))))


def headers(row: PushConfig) -> dict[str, str]:
    """What shows the receiver that it is us, in the way that it asked for."""
    given = opened(row)
    shown = given.get("authentication")
    found = {"Authorization": f"{shown['scheme']} {shown.get('credentials', '')}".strip()} if shown else {}
    return {**found, SHOWN_TO_RECEIVER: given["token"]} if given.get("token") else found


def _take_away(rows: Any) -> int:
    keys = list(rows.values_list("pk", flat=True))
    Delivery.objects.pending().filter(push_id__in=keys).update(
        state=DeliveryState.DISABLED, reason=Trouble.WITHDRAWN, next_at=None, lease_mark=None, lease_until=None
    )
    return int(rows.delete()[0])


def _place(row: PushConfig) -> str:
    return f"a2a_push_config/{row.pk}"
