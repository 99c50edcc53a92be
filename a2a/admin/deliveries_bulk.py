"""Redelivering several, or calling them off: what was ticked, or all that the list's filters leave."""

from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.urls import path
from django.utils.functional import cached_property

from a2a import calling_off, deliveries
from a2a.admin import deliveries_cells
from a2a.admin.deliveries_filters import FILTERS, SEARCH
from a2a.admin.deliveries_verbs import AGAIN, WhyForm
from a2a.choices import DeliveryState
from a2a.models import Delivery
from common.console.confirmation_dialogs import Effect, counted
from common.console.forms import ConsoleForm
from nhi.actors import Actor
from nhi.console.bulk_dialog import BulkDialog


def may_any(actor: Actor) -> bool:
    """Whether there may be some that this person may redeliver or call off."""
    if actor.only_reads:
        return False
    return actor.may(deliveries.RIGHT) or actor.may(calling_off.RIGHT) or Delivery.objects.held_by(actor).exists()


def within_reach(actor: Actor, right: str) -> QuerySet[Any]:
    """Those that this person sees and may act on: all with the right, else those of whom they speak for."""
    seen = Delivery.objects.visible_to(actor)
    return seen if actor.may(right) else seen & Delivery.objects.held_by(actor)


class Bulk(BulkDialog[Delivery]):
    nouns = ("delivery", "deliveries")
    kind = "delivery"
    list_name = "a2a_delivery_changelist"
    filters = FILTERS
    search = SEARCH
    most = 500
    right = ""

    def rows(self) -> QuerySet[Any]:
        return deliveries_cells.for_lines(within_reach(self.actor, self.right))

    @property
    def places(self) -> Counter[str]:
        return Counter(deliveries_cells.endpoint(one) for one in self.fitting)

    def names(self) -> list[str]:
        return [f"{place} ({count})" for place, count in self.places.most_common()]

    @property
    def title(self) -> str:  # type: ignore[override]  # the number is known once there is a request
        count = len(self.places)
        return f"{super().title} to {count} {'endpoint' if count == 1 else 'endpoints'}"


class Redeliver(Bulk):
    verb = "Redeliver"
    right = deliveries.RIGHT
    lead = AGAIN
    # What was heard is, once it is heard again, where it was.
    others = "for the others, narrow the filter by Happened from and Happened until"

    def fits(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        sendable: QuerySet[Any] = rows.exclude(state=DeliveryState.PENDING).receivable()  # type: ignore[attr-defined]  # the rows are of our own queryset
        return sendable

    def misfit(self, one: Delivery) -> str:
        if one.state == DeliveryState.PENDING:
            return "is being delivered already"
        return "" if one.pk in self._receivable else "has no receiver any more"

    @cached_property
    def _receivable(self) -> set[UUID]:
        """Asked once for all that were chosen."""
        found = Delivery.objects.receivable().filter(pk__in=[one.pk for one in self.chosen])
        return set(found.values_list("pk", flat=True))

    def effects(self) -> list[Effect]:
        heard = sum(one.state == DeliveryState.DELIVERED for one in self.fitting)
        gone = calling_off.disabled_among(self.fitting)
        return [
            counted("deliveries", len(self.fitting), "{} callback is sent at once", "{} callbacks are sent at once"),
            counted("heard", heard, "{} of them was heard before", "{} of them were heard before"),
            counted("urls", gone, "{} URL that was disabled is called again", "{} disabled URLs are called again"),
        ]

    def each(self, form: ConsoleForm) -> Callable[[Delivery], Any]:
        return lambda one: deliveries.redeliver(actor=self.actor, delivery=one)

    def said(self, count: int) -> str:
        return f"{self.counted(count)} {'is' if count == 1 else 'are'} being made again."


class Stop(Bulk):
    verb = "Call off"
    right = calling_off.RIGHT
    danger = True
    leave = "Keep them"
    form_class = WhyForm
    lead = "They are tried no more, and are no dead letters any more. Each can be redelivered."

    def fits(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(state__in=calling_off.STOPPABLE)

    def misfit(self, one: Delivery) -> str:
        return "" if one.state in calling_off.STOPPABLE else "is not tried any more"

    def effects(self) -> list[Effect]:
        waiting = sum(one.state == DeliveryState.PENDING for one in self.fitting)
        return [
            counted("deliveries", len(self.fitting), "{} is told to nobody", "{} are told to nobody"),
            counted("waiting", waiting, "{} of them is still being tried", "{} of them are still being tried"),
        ]

    def each(self, form: ConsoleForm) -> Callable[[Delivery], Any]:
        reason = form.cleaned_data["reason"]
        return lambda one: calling_off.stop(actor=self.actor, delivery=one, reason=reason)

    def said(self, count: int) -> str:
        return f"{self.counted(count)} {'is' if count == 1 else 'are'} called off."


URLS = [
    path("bulk/redeliver/", Redeliver.as_view(), name="a2a_delivery_bulk_redeliver"),
    path("bulk/stop/", Stop.as_view(), name="a2a_delivery_bulk_stop"),
]
