"""What people have said that they have seen of a list, so that it counts for them what came since."""

from datetime import UTC, datetime

from django.db import transaction
from django.db.models import DateTimeField, Subquery, Value
from django.db.models.functions import Coalesce

from common import clock
from common.errors import NotAllowed
from nhi.actors import Actor
from nhi.models import LastLook

EVER = datetime(1970, 1, 1, tzinfo=UTC)


def note(*, actor: Actor, page: str, until: datetime) -> None:
    """They have seen what was there at this moment. It never goes back, and no further than now."""
    if not actor.is_person or actor.only_reads or actor.id is None:
        raise NotAllowed("You may not mark what you have seen.")
    at = min(until, clock.database_now())
    with transaction.atomic():
        LastLook.objects.bulk_create([LastLook(user_id=actor.id, page=page, at=at)], ignore_conflicts=True)
        LastLook.objects.filter(user_id=actor.id, page=page, at__lt=at).update(at=at)


def last(actor: Actor, page: str) -> Coalesce:
    """The moment of it, for a condition of a query; of who has said nothing yet, the beginning of time."""
    own = LastLook.objects.filter(user_id=actor.id) if actor.id else LastLook.objects.none()
    looks = own.filter(page=page).values("at")[:1]
    return Coalesce(Subquery(looks), Value(EVER), output_field=DateTimeField())
