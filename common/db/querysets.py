"""Base querysets and models: rows that are never deleted, rows with expiry and revocation."""

from typing import Any, NoReturn, TypeVar

from django.db import models
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

M = TypeVar("M", bound=models.Model)


class NonDeletableQuerySet(QuerySet[M]):
    """Rows that are never deleted; they are archived, revoked or withdrawn instead."""

    def delete(self) -> NoReturn:
        raise TypeError(f"{self.model.__name__} rows are kept; revoke or archive instead.")


class NonDeletableModel(models.Model):
    """A model whose rows are never deleted: `delete` raises TypeError. Rows are archived or revoked instead."""

    class Meta:
        abstract = True

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} rows are kept; revoke or archive instead.")


class TimeBoxedQuerySet(NonDeletableQuerySet[M]):
    """Rows with `expires_at` and `revoked_at`, compared with the database's clock."""

    def live(self) -> "TimeBoxedQuerySet[M]":
        return self.filter(LIVE_CONDITION)

    def revoked(self) -> "TimeBoxedQuerySet[M]":
        return self.filter(REVOKED_CONDITION)

    def expired(self) -> "TimeBoxedQuerySet[M]":
        return self.filter(EXPIRED_CONDITION)

    def in_state(self, state: str) -> "TimeBoxedQuerySet[M]":
        return self.filter({"live": LIVE_CONDITION, "revoked": REVOKED_CONDITION, "expired": EXPIRED_CONDITION}[state])


def build_live_condition(relation: str = "") -> Q:
    """Neither revoked nor expired, by the database's clock. `relation` is the lookup path to the rows."""
    prefix = f"{relation}__" if relation else ""
    never_expires, expires_later = Q(**{f"{prefix}expires_at": None}), Q(**{f"{prefix}expires_at__gt": Now()})
    return Q(**{f"{prefix}revoked_at": None}) & (never_expires | expires_later)


LIVE_CONDITION = build_live_condition()
# A row that was revoked after its expiry counts as expired: only a revocation before the expiry ends it early.
_EXPIRED_BEFORE_REVOCATION = Q(expires_at__isnull=False) & Q(revoked_at__gte=F("expires_at"))
EXPIRED_CONDITION = (Q(revoked_at=None) & Q(expires_at__lte=Now())) | _EXPIRED_BEFORE_REVOCATION
REVOKED_CONDITION = Q(revoked_at__isnull=False) & ~_EXPIRED_BEFORE_REVOCATION
