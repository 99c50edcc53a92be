"""Counts the objects that need an action by the signed-in person, for the home page and the sidebar.

One statement counts them, up to a bound. The counts are cached for 15 seconds per person.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.core.cache import cache
from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

from common.console.pages import link
from nhi.actors import Actor
from nhi.choices import State
from nhi.console.request_actor import actor_of
from nhi.models import Credential, Identity, RoleCapability, ToolPermission

MAX_COUNT = 100
CACHE_SECONDS = 15
SOON = timedelta(days=7)

Rows = Callable[[Actor], QuerySet[Any]]


@dataclass(frozen=True)
class AttentionItem:
    """A kind of item that may need a person: the rows to count, the label of the count, and the list page."""

    key: str
    rows: Rows
    singular: str
    plural: str
    icon: str
    #: Name of the list's URL in the admin site, and the query string that filters the list to these items.
    page: str
    query: str = ""

    @property
    def url(self) -> str:
        return f"{link(self.page)}?{self.query}" if self.query else link(self.page)

    def said(self, count: int, _actor: Actor) -> str:
        number = "99+" if count >= MAX_COUNT else str(count)
        return (self.singular if count == 1 else self.plural).format(number)


_items: list[AttentionItem] = []


def add_items(*items: AttentionItem) -> None:
    """Add kinds of item; each app adds its own."""
    _items.extend(items)


def all_items() -> list[AttentionItem]:
    return list(_items)


def counts_for_request(request: HttpRequest) -> dict[str, int]:
    """Return the counts for this request, the same for every part of a page."""
    counts: dict[str, int] | None = getattr(request, "_needs", None)
    if counts is None:
        counts = _cached_counts(actor_of(request))
        request._needs = counts  # type: ignore[attr-defined]  # cached on the request
    return counts


def clear_cache(actor: Actor) -> None:
    """Drop the cached counts after the actor changed one of the items."""
    cache.delete(_cache_key(actor))


def _cache_key(actor: Actor) -> str:
    return f"needs:{actor.id}"


def _cached_counts(actor: Actor) -> dict[str, int]:
    counts: dict[str, int] | None = cache.get(_cache_key(actor))
    if counts is None:
        counts = count_items(actor)
        cache.set(_cache_key(actor), counts, CACHE_SECONDS)
    return counts


def count_items(actor: Actor) -> dict[str, int]:
    """Count all kinds in one SELECT of subqueries. Each stops at `MAX_COUNT`."""
    parts: list[str] = []
    parameters: list[Any] = []
    for item in _items:
        try:
            # Every table has `pk`; a count needs no order.
            statement, params = item.rows(actor).order_by().values("pk")[:MAX_COUNT].query.sql_with_params()
        except EmptyResultSet:
            # The ORM knows without a query that there are no rows.
            parts.append("0")
            continue
        parts.append(f"(SELECT COUNT(*) FROM ({statement}) counted)")  # noqa: S608 - the ORM wrote the statement
        parameters += params
    if not parts:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(parts)}", parameters)
        row = cursor.fetchone()
    return {item.key: count for item, count in zip(_items, row, strict=True)}


def credentials_ending(actor: Actor) -> QuerySet[Any]:
    """Live credentials that end within 7 days and have no successor."""
    soon = Credential.objects.live().filter(expires_at__lte=Now() + SOON, rotated_at=None)
    return _to_act_on(actor, "nhi.issue_credential", soon, Q(user_id=actor.id) | Q(identity__in=_managed(actor)))


def access_ending(actor: Actor) -> QuerySet[Any]:
    soon = ToolPermission.objects.live().filter(expires_at__lte=Now() + SOON)
    return _to_act_on(actor, "nhi.add_toolpermission", soon, Q(agent__in=_managed(actor)))


def limits_void(actor: Actor) -> QuerySet[Any]:
    """Live grants from before limits were checked, with a limit that limits nothing."""
    void = ToolPermission.objects.live().filter(limits_nothing=True)
    return _to_act_on(actor, "nhi.add_toolpermission", void, Q(agent__in=_managed(actor)))


def identities_ending(actor: Actor) -> QuerySet[Any]:
    soon = Identity.objects.usable().filter(expires_at__lte=Now() + SOON)
    return _to_act_on(actor, "nhi.change_identity", soon, Q(pk__in=_managed(actor)))


def wildcards_waiting(actor: Actor) -> QuerySet[Any]:
    """Wildcards of roles that wait for approval and were added by someone else."""
    waiting = RoleCapability.objects.current().filter(approved_at=None).exclude(added_by_id=actor.id)
    return _to_act_on(actor, "nhi.change_role", waiting, Q(pk__in=[]))


def suspended(actor: Actor) -> QuerySet[Any]:
    stopped = Identity.objects.filter(state=State.SUSPENDED)
    return _to_act_on(actor, "nhi.move_identity", stopped, Q(pk__in=_managed(actor)))


def _to_act_on(actor: Actor, right: str, rows: QuerySet[Any], own: Q) -> QuerySet[Any]:
    """Return all rows if the actor has the right, else their own rows. Read-only people get none."""
    if actor.only_reads:
        return rows.none()
    return rows if actor.may(right) else rows.filter(own)


def _managed(actor: Actor) -> QuerySet[Any]:
    return Identity.objects.managed_by(actor).values("pk")
