"""Deliveries in every standing, made past their worker: for pages that only look."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from a2a.choices import DeliveryState, TaskState, Trouble
from a2a.models import Delivery, DeliveryAttempt
from nhi.models import Identity
from tests.a2a import rows

URL = "https://hooks.example.com/gatehouse"
OTHER = "https://ci.example.org:8443/callbacks"
ANSWER = '{"error": "<b>down</b>\u202e until the queue is empty again, which takes a while"}'
D = DeliveryState


def told(to: Identity, *, url: str = URL, **wished: Any) -> Delivery:
    """One that nobody has attempted yet, of a task that was rejected."""
    task = rows.sent(to, callback_url=url, **wished)
    return Delivery.objects.get(task=rows.moved(task, TaskState.REJECTED))


def given_up(to: Identity, *, url: str = OTHER, **wished: Any) -> Delivery:
    return put(told(to, url=url, **wished), D.DEAD, 10, reason=Trouble.HTTP_ERROR, last_status=503)


def put(row: Delivery, state: DeliveryState, attempts: int, **more: Any) -> Delivery:
    at = timezone.now() - timedelta(minutes=attempts)
    DeliveryAttempt.objects.bulk_create(
        DeliveryAttempt(
            delivery=row, number=number, at=at + timedelta(minutes=number), took_ms=1200,
            status=more.get("last_status"), reason=more.get("reason", ""),
            answer=ANSWER if more.get("last_status") else "",
        )
        for number in range(1, attempts + 1)
    )  # fmt: skip
    Delivery.objects.filter(pk=row.pk).update(**{"state": state, "attempts": attempts, "next_at": None, **more})
    row.refresh_from_db()
    return row


def heard(to: Identity, **wished: Any) -> Delivery:
    return put(told(to, **wished), D.DELIVERED, 1, last_status=204, delivered_at=timezone.now())


def retried(to: Identity, **wished: Any) -> Delivery:
    soon = timezone.now() + timedelta(minutes=5)
    return put(told(to, **wished), D.PENDING, 2, next_at=soon, reason=Trouble.TIMEOUT)


def of_each(to: Identity) -> dict[str, Delivery]:
    """One of each standing, by what the list's filter calls it."""
    return {
        "queued": told(to),
        "retrying": retried(to),
        "delivered": heard(to),
        "dead": given_up(to),
        "blocked": put(told(to), D.BLOCKED, 1, reason=Trouble.EGRESS_BLOCKED),
        "disabled": put(told(to, url=OTHER), D.DISABLED, 1, reason=Trouble.GONE, last_status=410),
        "stopped": put(told(to), D.DISABLED, 2, reason=Trouble.STOPPED),
    }
