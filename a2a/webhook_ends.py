"""Ending what signs callbacks: those before the present secret at once, or a secret for good."""

from functools import reduce
from operator import or_

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Left
from django.db.models.lookups import Exact

from a2a import webhooks
from a2a.models import Delivery, WebhookSecret
from common.db import clock
from common.errors import Conflict, NotAllowed
from nhi.actors import Actor
from nhi.audit import events
from nhi.validation import Problems

MAY_NOT = "You may not change the webhook secret of somebody else."


class SignsAlone(Conflict):
    code = "signs_alone"


def revoke_previous(*, actor: Actor, secret: WebhookSecret, reason: str) -> WebhookSecret:
    """Sign with the present one alone from here on, as after a leak. An attempt under way may carry both still."""
    _require(actor, secret, reason)
    with transaction.atomic():
        row, now = webhooks.locked(secret), clock.database_now()
        until = row.previous_valid_until
        if until is None or until <= now:
            raise SignsAlone("It signs alone already. Nothing was changed.")
        row.sealed_previous, row.previous_valid_until = "", None
        row.save(update_fields=["sealed_previous", "previous_valid_until"])
        details = {"valid_until": until.isoformat(), "waiting": waiting(row)}
        events.write("webhook_secret.previous_revoked", actor=actor, subject=row, reason=reason, details=details)
    return row


def remove(*, actor: Actor, secret: WebhookSecret, reason: str) -> WebhookSecret:
    """It signs nothing more, and neither does what signed beside it: the next fitting one does, or one made anew."""
    _require(actor, secret, reason)
    with transaction.atomic():
        row = webhooks.locked(secret)
        events.write(
            "webhook_secret.removed", actor=actor, subject=row, reason=reason, details={"waiting": waiting(row)}
        )
        WebhookSecret.objects.filter(pk=row.pk).delete()
    return row


def successor(secret: WebhookSecret) -> WebhookSecret | None:
    """What would sign for its URLs without it; where there is none, one is made that nobody has seen."""
    return webhooks.longest(secret.owner_id, secret.url_prefix, but=secret)


def waiting(secret: WebhookSecret) -> int:
    """How many deliveries that are still to be attempted it signs, as far as their URLs may be shown."""
    others = WebhookSecret.objects.filter(owner_id=secret.owner_id).exclude(pk=secret.pk)
    rows = Delivery.objects.pending().filter(_fits(secret.url_prefix), owner_id=secret.owner_id)
    for prefix in others.values_list("url_prefix", flat=True):
        if webhooks.fits(prefix, secret.url_prefix):
            rows = rows.exclude(_fits(prefix))
    return rows.count()


def _fits(prefix: str) -> Q:
    """As `webhooks.fits` has it."""
    if prefix.count("/") != 2:
        return _begins(prefix)
    return reduce(or_, (_begins(f"{prefix}{mark}") for mark in "/?#"), Q(url=prefix))


def _begins(prefix: str) -> Q:
    """To the letter, which LIKE is not in every database."""
    return Q(Exact(Left("url", len(prefix)), prefix)) if prefix else Q()


def _require(actor: Actor, secret: WebhookSecret, reason: str) -> None:
    if not webhooks.may_rotate(actor, secret):
        raise NotAllowed(MAY_NOT, details={"needs": webhooks.ROTATE})
    problems = Problems()
    problems.check_reason(reason)
    problems.raise_if_any()
