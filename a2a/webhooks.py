"""The secrets that sign callbacks: each is its owner's, for the URLs that begin with its prefix."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from a2a import signatures
from a2a.models import Task, WebhookSecret
from common import crypto
from common.db import clock
from common.errors import Conflict, Duplicate, NotAllowed, NotFound
from nhi.actors import SYSTEM, Actor
from nhi.audit import events
from nhi.choices import Kind
from nhi.models import Identity
from nhi.validation import Problems

ROTATE = "a2a.rotate_webhooksecret"
OVERLAP = timedelta(hours=24)
LONGEST_PREFIX = 500
MOST = 100
#: That sign beside the newest; receivers read a header of so many signatures.
MOST_PREVIOUS = 3


@dataclass(frozen=True)
class Owner:
    """Whose callback it is: the identity or the person that asked for the task."""

    id: UUID
    name: str


#: In the record of a secret's making: the prefix of the one that it took URLs over from.
TAKEN_OVER = "took_over_from"


@dataclass(frozen=True)
class Shown:
    """A secret in the clear, for the one answer that shows it."""

    row: WebhookSecret
    secret: str


class RotatedOften(Conflict):
    code = "rotated_often"


def owner_of(task: Task) -> Owner:
    if task.source_id != task.created_by_id and task.source is not None:
        return Owner(task.source.pk, task.source.name)
    assert task.created_by_id is not None  # whoever sends a task with a callback is somebody
    return Owner(task.created_by_id, task.created_by_name)


def make(*, actor: Actor, url_prefix: str, holder: Identity | None = None) -> Shown:
    """Make a secret of the actor's own, or of an identity that they speak for. What signed these URLs before, by a
    shorter prefix, signs beside it for a day, retries included."""
    owner = _owner(actor, holder)
    problems = Problems()
    problems.check_line("url_prefix", url_prefix, max_length=LONGEST_PREFIX)
    fine = not url_prefix or url_prefix.startswith(("https://", "http://"))
    problems.unless(fine, "url_prefix", "Write the beginning of a URL, such as https://hooks.example.com/, or nothing.")
    problems.raise_if_any()
    whose = "You have" if owner.id == actor.id else f"{owner.name} has"
    if WebhookSecret.objects.filter(owner_id=owner.id).count() >= MOST:
        raise Conflict(f"{whose} {MOST} webhook secrets, which is as many as may be.")
    try:
        with transaction.atomic():
            return _make(owner, url_prefix, actor)
    except IntegrityError:
        said = f"{whose} a webhook secret for this prefix. Rotate it to see a new one."
        raise Duplicate(said) from None


def holders(actor: Actor) -> QuerySet[Identity]:
    """For which identities the actor may make one: those that send tasks, and that they manage or keep secrets of."""
    sending = Identity.objects.of_kind(Kind.AGENT, Kind.SERVICE_ACCOUNT)
    if actor.only_reads:
        return sending.none()
    return sending.visible_to(actor) if actor.may(ROTATE) else sending.managed_by(actor)


def _owner(actor: Actor, holder: Identity | None) -> Owner:
    assert actor.id is not None  # whoever asks at a door is somebody
    actor.refuse_run("make a webhook secret")
    if holder is None or holder.pk == actor.id:
        return Owner(actor.id, actor.name)
    if not holders(actor).filter(pk=holder.pk).exists():
        raise NotAllowed(f"You may not make a webhook secret for {holder.name}.", details={"needs": ROTATE})
    return Owner(holder.pk, holder.name)


def rotate(*, actor: Actor, secret: WebhookSecret) -> Shown:
    """Make a successor; the one before signs beside it for a day, and so does what was promised that earlier."""
    if not may_rotate(actor, secret):
        raise NotAllowed("You may not rotate the webhook secret of somebody else.")
    text = signatures.new_secret()
    with transaction.atomic():
        row = locked(secret)
        now = clock.database_now()
        _follow(row, row, now)
        row.sealed, row.rotated_at = crypto.seal(text, place=_place(row)), now
        row.save(update_fields=["sealed", "sealed_previous", "previous_valid_until", "rotated_at"])
        events.write("webhook_secret.rotated", actor=actor, subject=row)
    return Shown(row, text)


def taken_over(*, actor: Actor, url_prefix: str, holder: Identity | None = None) -> WebhookSecret | None:
    """What the actor's next secret would take callbacks over from; for a day both would sign them."""
    return _before(_owner(actor, holder), url_prefix)


def may_rotate(actor: Actor, secret: WebhookSecret) -> bool:
    """Whose it is and who manages that; of identities, also who keeps their secrets for the house."""
    return secret.pk in rotatable(actor, [secret.pk])


def rotatable(actor: Actor, keys: Sequence[UUID]) -> set[UUID]:
    """Which of these."""
    if actor.only_reads or not keys:
        return set()
    rows = WebhookSecret.objects.filter(pk__in=keys)
    found = rows.held_by(actor)
    if actor.may(ROTATE):
        found |= rows.filter(owner_id__in=Identity.objects.values("pk"))
    return set(found.values_list("pk", flat=True))


def ensure(owner: Owner, url: str, *, actor: Actor) -> WebhookSecret:
    """The secret for this URL; where there is none yet, one for all URLs that nobody has seen."""
    found = longest(owner.id, url)
    if found is not None:
        return found
    try:
        with transaction.atomic():
            return _make(owner, "", actor).row
    except IntegrityError:
        # Somebody beside us was quicker.
        return WebhookSecret.objects.get(owner_id=owner.id, url_prefix="")


def signing(owner: Owner, url: str) -> list[str]:
    """What a callback to this URL is signed with now, in the clear; the newest first."""
    row = ensure(owner, url, actor=SYSTEM)
    current = crypto.unseal(row.sealed, place=_place(row))
    return [current, *(secret for secret, _ in reversed(_previous(row, clock.database_now())))]


def _previous(row: WebhookSecret, now: datetime) -> list[tuple[str, datetime]]:
    """Those before it that still sign, the oldest first, and until when."""
    if not row.sealed_previous or row.previous_valid_until is None or row.previous_valid_until <= now:
        return []
    opened = crypto.unseal(row.sealed_previous, place=_place(row))
    # A list since several may sign at once; before that it was the one itself.
    kept = json.loads(opened) if opened.startswith("[") else [[opened, f"{row.previous_valid_until}"]]
    read = [(secret, datetime.fromisoformat(until)) for secret, until in kept]
    return [(secret, until) for secret, until in read if until > now]


def forget_previous(now: datetime) -> int:
    return WebhookSecret.objects.filter(previous_valid_until__lte=now).exclude(sealed_previous="").update(
        sealed_previous=""
    )  # fmt: skip


def _make(owner: Owner, url_prefix: str, actor: Actor) -> Shown:
    text, before = signatures.new_secret(), _before(owner, url_prefix)
    before, now = locked(before) if before else None, clock.database_now()
    row = WebhookSecret(owner_id=owner.id, owner_name=owner.name, url_prefix=url_prefix, created_at=now)
    row.sealed = crypto.seal(text, place=_place(row))
    if before is not None:
        # What cannot be read signs nothing that a receiver would miss.
        with suppress(crypto.UnsealError):
            _follow(row, before, now)
    row.save(force_insert=True)
    details = {TAKEN_OVER: before.url_prefix} if before is not None and row.sealed_previous else {}
    events.write("webhook_secret.made", actor=actor, subject=row, details=details)
    return Shown(row, text)


def locked(secret: WebhookSecret) -> WebhookSecret:
    found = WebhookSecret.objects.select_for_update(of=("self",)).filter(pk=secret.pk).first()
    if found is None:
        # Somebody beside us removed it.
        raise NotFound
    return found


def _follow(row: WebhookSecret, before: WebhookSecret, now: datetime) -> None:
    """What has signed until now signs beside it for a day, and what that had followed for as long as was promised."""
    still = _previous(before, now)
    if len(still) >= MOST_PREVIOUS:
        said = f"{MOST_PREVIOUS} sign beside {before} already, which is as many as may be. Each does for a day."
        raise RotatedOften(said)
    still.append((crypto.unseal(before.sealed, place=_place(before)), now + OVERLAP))
    row.sealed_previous = crypto.seal(json.dumps([[one, f"{until}"] for one, until in still]), place=_place(row))
    row.previous_valid_until = now + OVERLAP


def _before(owner: Owner, url_prefix: str) -> WebhookSecret | None:
    """What signs for these URLs where another one does. Whether a callback went there yet tells nothing: its receiver
    may know it and wait for the first."""
    found = longest(owner.id, url_prefix)
    return found if found is not None and found.url_prefix != url_prefix else None


def longest(owner_id: UUID, url: str, *, but: WebhookSecret | None = None) -> WebhookSecret | None:
    """Of an owner's secrets the one that signs for this URL; `but` one of them."""
    fitting = [
        row for row in WebhookSecret.objects.filter(owner_id=owner_id) if row != but and fits(url, row.url_prefix)
    ]
    return max(fitting, key=lambda row: len(row.url_prefix), default=None)


def fits(url: str, prefix: str) -> bool:
    """A prefix without a path says a whole host: not the beginning of another one's name, port or account."""
    rest = url.removeprefix(prefix)
    names_host_alone = prefix.count("/") == 2
    return url.startswith(prefix) and (not names_host_alone or rest[:1] in {"", "/", "?", "#"})


def _place(row: WebhookSecret) -> str:
    return f"a2a_webhook_secret/{row.pk}"
