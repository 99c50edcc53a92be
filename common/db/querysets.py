"""What every governed table shares."""

from typing import Any, NoReturn, TypeVar

from django.db import models
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

M = TypeVar("M", bound=models.Model)


class KeptQuerySet(QuerySet[M]):
    """Rows that are never deleted: they are archived, revoked or withdrawn."""

    def delete(self) -> NoReturn:
        raise TypeError(f"{self.model.__name__} rows are kept; revoke or archive instead.")


class Kept(models.Model):
    class Meta:
        abstract = True

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} rows are kept; revoke or archive instead.")


class TimeBoxedQuerySet(KeptQuerySet[M]):
    """Rows with `expires_at` and `revoked_at`; the database's clock decides."""

    def live(self) -> "TimeBoxedQuerySet[M]":
        return self.filter(LIVE)

    def revoked(self) -> "TimeBoxedQuerySet[M]":
        return self.filter(REVOKED)

    def expired(self) -> "TimeBoxedQuerySet[M]":
        return self.filter(EXPIRED)

    def in_state(self, state: str) -> "TimeBoxedQuerySet[M]":
        return self.filter({"live": LIVE, "revoked": REVOKED, "expired": EXPIRED}[state])


def live_through(relation: str = "") -> Q:
    """Neither revoked nor expired, by the database's clock; `relation` names the way to the rows."""
    way = f"{relation}__" if relation else ""
    endless, later = Q(**{f"{way}expires_at": None}), Q(**{f"{way}expires_at__gt": Now()})
    return Q(**{f"{way}revoked_at": None}) & (endless | later)


LIVE = live_through()
# What was closed only after its end had passed had expired; revoking is what ends something early.
_ENDED_ITSELF = Q(expires_at__isnull=False) & Q(revoked_at__gte=F("expires_at"))
EXPIRED = (Q(revoked_at=None) & Q(expires_at__lte=Now())) | _ENDED_ITSELF
REVOKED = Q(revoked_at__isnull=False) & ~_ENDED_ITSELF
