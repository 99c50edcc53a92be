"""What a receiver is told after a delivery to it: events go to it in their order."""

from datetime import datetime
from uuid import UUID

from a2a.models import Delivery
from a2a.models.callbacks import DeliveryQuerySet


def waits_until(push_id: UUID) -> datetime | None:
    """When the last of what this receiver is to be told already is attempted; what comes now goes after it.

    Locked: while it is being settled, nobody knows whether what comes now has to wait for it.
    """
    before = Delivery.objects.pending().filter(push_id=push_id).order_by("-event_seq")
    return before.select_for_update(no_key=True).values_list("next_at", flat=True).first()


def settled(delivery: Delivery, next_at: datetime | None, now: datetime) -> None:
    """It is attempted again then, or is over."""
    if delivery.push_id is None:
        return
    if next_at is None:
        _let_go(delivery, now)
    else:
        _let_wait(delivery, next_at)


def _let_wait(delivery: Delivery, until: datetime) -> None:
    """As long as this one, which they come after: nobody looks in vain at what cannot go yet."""
    _after(delivery).filter(next_at__lt=until).update(next_at=until)


def _let_go(delivery: Delivery, now: datetime) -> None:
    """Its receiver is told the next one at once."""
    first = _after(delivery).order_by("event_seq").values("pk")[:1]
    Delivery.objects.pending().filter(pk__in=first, next_at__gt=now).update(next_at=now)


def _after(delivery: Delivery) -> DeliveryQuerySet:
    return Delivery.objects.pending().filter(push_id=delivery.push_id, event_seq__gt=delivery.event_seq)
