"""Calling callbacks off by hand: one of them, or whatever its owner has told at one URL, now and later."""

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from a2a import queueing
from a2a.choices import DeliveryState, Trouble
from a2a.models import Delivery, DisabledUrl, Task
from common.db import clock
from common.errors import Conflict, NotAllowed
from nhi.actors import Actor
from nhi.audit import events
from nhi.validation import Problems

RIGHT = "a2a.disable_delivery"
#: What was delivered is, and what its receiver or a person called off is over.
STOPPABLE = (DeliveryState.PENDING, DeliveryState.DEAD, DeliveryState.BLOCKED)


class Settled(Conflict):
    code = "delivery_settled"


class AlreadyDisabled(Conflict):
    code = "already_disabled"


def may_remove_receiver(actor: Actor, task: Task) -> bool:
    """Who asked for the task, and who may call off what is told of anybody's."""
    if actor.only_reads:
        return False
    return actor.may(RIGHT) or Task.objects.held_by(actor).filter(pk=task.pk).exists()


def stop(*, actor: Actor, delivery: Delivery, reason: str) -> Delivery:
    """Try no more, or let a dead letter be; an attempt under way goes on and is told in the log alone."""
    _require(actor, delivery, reason)
    with transaction.atomic():
        if not _call_off(Delivery.objects.filter(pk=delivery.pk)):
            raise Settled("This is not tried any more. Nothing was changed.")
        queueing.settled(delivery, None, clock.database_now())
        events.write("delivery.stopped", actor=actor, subject=delivery, reason=reason)
    return Delivery.objects.select_related("task").get(pk=delivery.pk)


def disable(*, actor: Actor, delivery: Delivery, reason: str) -> Delivery:
    """As if its receiver had said 410: nothing of this owner goes to this exact URL until one is redelivered."""
    _require(actor, delivery, reason)
    with transaction.atomic():
        mark, now = {"owner_id": delivery.owner_id, "url_mark": delivery.url_mark}, clock.database_now()
        _, is_new = DisabledUrl.objects.get_or_create(**mark, defaults={"at": now})
        if not is_new:
            raise AlreadyDisabled("Nothing of this owner goes to this URL already. Nothing was changed.")
        details = {"stopped": _call_off(beside(delivery))}
        events.write("delivery.url_disabled", actor=actor, subject=delivery, reason=reason, details=details)
    return Delivery.objects.select_related("task").get(pk=delivery.pk)


def beside(delivery: Delivery) -> QuerySet[Delivery]:
    """What waits for the same URL of the same owner, itself too."""
    return Delivery.objects.pending().filter(owner_id=delivery.owner_id, url_mark=delivery.url_mark)


def is_disabled(delivery: Delivery) -> bool:
    return DisabledUrl.objects.filter(owner_id=delivery.owner_id, url_mark=delivery.url_mark).exists()


def disabled_among(rows: Iterable[Delivery]) -> int:
    """How many URLs that these go to are disabled, each for its own owner."""
    wanted = {(row.owner_id, row.url_mark) for row in rows}
    marks = DisabledUrl.objects.filter(url_mark__in={mark for _, mark in wanted})
    return len(wanted & set(marks.values_list("owner_id", "url_mark")))


def may(actor: Actor, delivery: Delivery) -> bool:
    if actor.only_reads:
        return False
    return actor.may(RIGHT) or Delivery.objects.held_by(actor).filter(pk=delivery.pk).exists()


def _require(actor: Actor, delivery: Delivery, reason: str) -> None:
    if not may(actor, delivery):
        raise NotAllowed("You may not call this off.", details={"needs": RIGHT})
    problems = Problems()
    problems.check_reason(reason)
    problems.raise_if_any()


def _call_off(rows: QuerySet[Any]) -> int:
    over = {"state": DeliveryState.DISABLED, "reason": Trouble.STOPPED, "next_at": None}
    return rows.filter(state__in=STOPPABLE).update(**over, lease_mark=None, lease_until=None)
