"""The rows of callbacks: taken by one worker at a time, settled by the one that took them, begun anew on demand."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import F, Q

from a2a import answers, callback_urls, pushing, queueing, retrying, waking, webhooks
from a2a.choices import DeliveryState, Trouble
from a2a.models import Delivery, DeliveryAttempt, DisabledUrl, PushConfig
from a2a.posting import Outcome
from a2a.turns import Turns
from a2a.webhooks import Owner
from common.crypto import UnsealError
from common.db import clock
from common.errors import Conflict, NotAllowed
from common.redaction import extract_secrets
from nhi.actors import SYSTEM, Actor
from nhi.audit import events

log = logging.getLogger(__name__)
RIGHT = "a2a.redeliver_delivery"
#: Longer than an attempt may take; what a worker that died was about is sent again after that.
LEASE = timedelta(seconds=30)
GONE = "Its receiver was removed, so there is nowhere to send it."
ENDS: dict[Trouble, DeliveryState] = {
    Trouble.GONE: DeliveryState.DISABLED,
    Trouble.EGRESS_BLOCKED: DeliveryState.BLOCKED,
    Trouble.WITHDRAWN: DeliveryState.DISABLED,
}


class StillPending(Conflict):
    code = "still_pending"


class ReceiverGone(Conflict):
    """Who asked for events has taken their receiver away since."""

    code = "receiver_gone"


@dataclass(frozen=True)
class Parcel:
    """A delivery that is ours to attempt."""

    delivery: Delivery
    mark: UUID
    url: str
    #: In the clear: it signs, and is kept nowhere.
    secrets: tuple[str, ...] = field(repr=False)
    #: Beside the signature.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def confided(self) -> frozenset[str]:
        """What its receiver knows of it and must not be kept with its answer."""
        # A token may have several words, and a scheme is one before it.
        shown = {part for value in self.headers.values() for part in (value, value.partition(" ")[2])}
        return extract_secrets(self.url) | shown | {*self.secrets}


def claim(most: int, *, turns: Turns) -> list[Parcel]:
    """Take due deliveries, so that nobody else does until the lease ends."""
    wanted, mark = turns.next(most), uuid4()
    if not wanted:
        return []
    with transaction.atomic():
        now = clock.database_now()
        # Whoever asks for the same row beside us waits here, and finds it taken.
        Delivery.objects.due().filter(pk__in=wanted).update(
            lease_mark=mark, lease_until=now + LEASE, attempts=F("attempts") + 1
        )
        taken = list(Delivery.objects.filter(pk__in=wanted, lease_mark=mark).select_related("task__source"))
        DeliveryAttempt.objects.bulk_create(
            DeliveryAttempt(delivery=row, number=row.attempts, at=now) for row in taken
        )  # fmt: skip
    return [parcel for row in taken if (parcel := _parcel(row, mark)) is not None]


def settle(delivery: Delivery, mark: UUID, outcome: Outcome, *, confided: Collection[str] = ()) -> None:
    """Write what came of an attempt; of one whose lease has ended, into the log alone."""
    answer, cut = answers.kept(outcome.said, confided)
    with transaction.atomic():
        DeliveryAttempt.objects.filter(delivery=delivery, number=delivery.attempts).update(
            status=outcome.status, reason=outcome.trouble or "", took_ms=outcome.took_ms, answer=answer, answer_cut=cut,
        )  # fmt: skip
        now = clock.database_now()
        told = _told(delivery, outcome, now)
        mine = Delivery.objects.pending().filter(pk=delivery.pk, lease_mark=mark)
        if not mine.update(**told, last_status=outcome.status, lease_mark=None, lease_until=None):
            return
        queueing.settled(delivery, told["next_at"], now)
        if told["reason"] == Trouble.GONE:
            _disable(delivery, now)
        if told["state"] not in (DeliveryState.PENDING, DeliveryState.DELIVERED):
            details = {"reason": told["reason"], "attempts": delivery.attempts, "status": outcome.status}
            events.write(f"delivery.{told['state']}", actor=SYSTEM, subject=delivery, details=details)


def redeliver(*, actor: Actor, delivery: Delivery) -> Delivery:
    """Begin anew with what is over, under the same id; a URL that was disabled is called again. What waits for its next
    attempt is attempted at once."""
    if not may_redeliver(actor, delivery):
        raise NotAllowed("You may not have this delivered again.", details={"needs": RIGHT})
    if receiver_is_gone(delivery):
        raise ReceiverGone(f"{GONE} Nothing was changed.")
    with transaction.atomic():
        fresh = {"state": DeliveryState.PENDING, "reason": "", "delivered_at": None}
        over = Delivery.objects.exclude(state=DeliveryState.PENDING).filter(pk=delivery.pk)
        now = clock.database_now()
        if not over.update(**fresh, next_at=now, attempts_before=F("attempts")) and not _hasten(delivery, now):
            raise StillPending("This is being delivered already. Nothing was changed.")
        DisabledUrl.objects.filter(owner_id=delivery.owner_id, url_mark=delivery.url_mark).delete()
        events.write("delivery.redelivered", actor=actor, subject=delivery)
        waking.wake()
    return Delivery.objects.select_related("task").get(pk=delivery.pk)


def waits(delivery: Delivery, now: datetime) -> bool:
    """Whether its next attempt is still to come, and none is under way."""
    later = delivery.next_at is not None and delivery.next_at > now
    return (
        delivery.state == DeliveryState.PENDING and later and not (delivery.lease_until and delivery.lease_until > now)
    )


def _hasten(delivery: Delivery, now: datetime) -> int:
    free = Q(lease_until=None) | Q(lease_until__lt=now)
    return Delivery.objects.pending().filter(free, pk=delivery.pk, next_at__gt=now).update(next_at=now)


def receiver_is_gone(delivery: Delivery) -> bool:
    """Whether there is nowhere to send it: an attempt would only be settled as withdrawn."""
    return not Delivery.objects.receivable().filter(pk=delivery.pk).exists()


def may_redeliver(actor: Actor, delivery: Delivery) -> bool:
    if actor.only_reads:
        return False
    return actor.may(RIGHT) or Delivery.objects.held_by(actor).filter(pk=delivery.pk).exists()


def _parcel(row: Delivery, mark: UUID) -> Parcel | None:
    """One that cannot be signed any more must not hold up the others."""
    try:
        config = PushConfig.objects.filter(pk=row.push_id).first() if row.push_id else None
        if row.push_id and config is None:
            settle(row, mark, Outcome(Trouble.WITHDRAWN))
            return None
        url = pushing.opened(config)["url"] if config else callback_urls.of(row.task)
        headers = {**pushing.headers(config), "X-A2A-Event-Seq": str(row.event_seq)} if config else {}
        return Parcel(row, mark, url, tuple(webhooks.signing(Owner(row.owner_id, row.owner_name), url)), headers)
    except UnsealError as error:
        log.error("A callback cannot be signed: %s", error)
        settle(row, mark, Outcome(Trouble.UNREADABLE))
        return None


def _told(delivery: Delivery, outcome: Outcome, now: datetime) -> dict[str, Any]:
    trouble = outcome.trouble
    if trouble is None:
        return {"state": DeliveryState.DELIVERED, "reason": "", "next_at": None, "delivered_at": now}
    told: dict[str, Any] = {"state": ENDS.get(trouble, DeliveryState.DEAD), "reason": trouble, "next_at": None}
    wait = retrying.wait(delivery.attempts - delivery.attempts_before, asked=outcome.retry_after)
    if trouble in ENDS or wait is None:
        return told
    return {**told, "state": DeliveryState.PENDING, "next_at": now + wait}


def _disable(delivery: Delivery, now: datetime) -> None:
    """Exactly this URL of this owner, with whatever else waits for it."""
    DisabledUrl.objects.get_or_create(
        owner_id=delivery.owner_id, url_mark=delivery.url_mark, defaults={"at": now}
    )  # fmt: skip
    Delivery.objects.pending().filter(owner_id=delivery.owner_id, url_mark=delivery.url_mark).update(
        state=DeliveryState.DISABLED, reason=Trouble.GONE, next_at=None, lease_mark=None, lease_until=None
    )
