"""Transfers the identities of a person to another owner."""

from typing import Any

from django.db.models import Q

from nhi.access.bulk import ItemResult, attempt_item
from nhi.actors import Actor
from nhi.choices import State
from nhi.identities import identities
from nhi.models import Identity, User
from nhi.models.identities import IdentityQuerySet
from nhi.validation import Problems

MAX_IDENTITIES = 200


def identities_of(user: User) -> IdentityQuerySet:
    """Return the identities that the person owns or backs up, except archived ones: those need no owner."""
    rows = Identity.objects.filter(Q(owner=user) | Q(backup_owner=user)).exclude(state=State.ARCHIVED)
    return rows.order_by("name", "id")


def hand_over(*, actor: Actor, user: User, to: User) -> list[ItemResult]:
    """Replace `user` by `to` on up to `MAX_IDENTITIES` identities, each in its own transaction."""
    actor.require("nhi.change_identity", "hand over identities")
    problems = Problems()
    problems.unless(to.pk != user.pk, "to", "Choose someone else.")
    problems.unless(to.is_active, "to", f"{to.username} is deactivated; choose someone who is here.")
    problems.raise_if_any()
    return [_hand_over_identity(actor, identity, user, to) for identity in identities_of(user)[:MAX_IDENTITIES]]


def _hand_over_identity(actor: Actor, identity: Identity, user: User, to: User) -> ItemResult:
    changes = _owner_changes(identity, user, to)
    return attempt_item(
        "identity",
        identity.name,
        identity.pk,
        lambda: identities.change(actor=actor, identity=identity, **changes),
        success_result="done",
    )


def _owner_changes(identity: Identity, user: User, to: User) -> dict[str, Any]:
    """Return the changed owner fields. If `to` is already the other owner, the backup owner becomes empty."""
    if identity.owner_id == user.pk:
        return {"owner": to, **({"backup_owner": None} if identity.backup_owner_id == to.pk else {})}
    return {"backup_owner": None if identity.owner_id == to.pk else to}
