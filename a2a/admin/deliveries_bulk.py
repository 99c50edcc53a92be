"""Redelivering several, or calling them off: what was ticked, or all that the list's filters leave."""

from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpResponse
from django.urls import path
from django.utils.functional import cached_property

from a2a import calling_off, deliveries
from a2a.admin import deliveries_cells
from a2a.admin.deliveries_filters import FILTERS, SEARCH
from a2a.admin.deliveries_verbs import AGAIN, WhyForm
from a2a.choices import DeliveryState
from a2a.models import Delivery
from common.admin import several
from common.admin.dialogs import Effect, counted
from common.admin.forms import ConsoleForm
from common.admin.pages import link, render
from common.errors import NotAllowed
from nhi.access import ItemResult, attempt
from nhi.actors import Actor
from nhi.admin.base import ActingDialog

#: In one go; of more, the newest, and then again.
MOST = 500


def may_any(actor: Actor) -> bool:
    """Whether there may be some that this person may redeliver or call off."""
    if actor.only_reads:
        return False
    return actor.may(deliveries.RIGHT) or actor.may(calling_off.RIGHT) or Delivery.objects.held_by(actor).exists()


class Several(ActingDialog):
    template = "admin/a2a/bulk.html"
    verb = ""
    right = ""

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed(f"You may not {self.verb.lower()} deliveries.")

    @cached_property
    def chosen(self) -> list[Delivery]:
        """What one may act on: of what one can only see, nothing is counted."""
        seen = Delivery.objects.visible_to(self.actor)
        own = seen if self.actor.may(self.right) else seen & Delivery.objects.held_by(self.actor)
        rows = several.picked(self.request, deliveries_cells.for_lines(own), FILTERS, SEARCH)
        if several.takes_all(self.request):
            rows = self.fits(rows)
        return list(rows.order_by("-created_at", "-id")[: MOST + 1])

    @cached_property
    def fitting(self) -> list[Delivery]:
        return [one for one in self.chosen[:MOST] if not self.misfit(one)]

    def fits(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """The same of many: of all that the filters leave, the others are not even named."""
        raise NotImplementedError

    def misfit(self, one: Delivery) -> str:
        """Why the verb has nothing to do for this one; empty when it has."""
        raise NotImplementedError

    @property
    def places(self) -> Counter[str]:
        return Counter(deliveries_cells.endpoint(one) for one in self.fitting)

    @property
    def title(self) -> str:  # type: ignore[override]  # the number is known once there is a request
        return f"{self.verb} {_deliveries(len(self.fitting))} to {_endpoints(len(self.places))}"

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return self.title if self.fitting else ""

    @property
    def typed(self) -> str:  # type: ignore[override]  # the same
        return several.to_type(len(self.fitting)) if self.danger else ""

    def context(self) -> dict[str, Any]:
        named = [f"{place} ({count})" for place, count in self.places.most_common()]
        left = f"These are the newest {MOST}; the others after that, in the same way."
        return {
            "title": self.title,
            **several.named(named),
            "skipped": [f"{one}: {why}" for one in self.chosen[:MOST] if (why := self.misfit(one))],
            "more_left": left if len(self.chosen) > MOST else "",
        }

    def back(self) -> str:
        query = self.request.GET.copy()
        for name in ("id", "all"):
            query.pop(name, None)
        return f"{link('a2a_delivery_changelist')}?{query.urlencode()}" if query else link("a2a_delivery_changelist")

    def each(self, form: ConsoleForm) -> Callable[[Delivery], Any]:
        raise NotImplementedError

    def act(self, form: ConsoleForm) -> str | HttpResponse:
        """Back to the list where each was done; else what became of each that was not."""
        verb = self.each(form)
        results = [
            attempt("delivery", str(one), one.pk, lambda one=one: verb(one), done="done") for one in self.fitting
        ]
        missed = [item for item in results if item.result != "done"]
        if not missed:
            messages.success(self.request, self.done(len(results)))
            return self.back()
        return self._told(missed, len(results))

    def _told(self, missed: list[ItemResult], count: int) -> HttpResponse:
        title = f"{self.verb}: {count - len(missed)} of {count} done"
        return render(self.request, "console/results.html", title=title, results=missed, back=self.back())

    def done(self, count: int) -> str:
        raise NotImplementedError


class Redeliver(Several):
    verb = "Redeliver"
    right = deliveries.RIGHT
    lead = AGAIN

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

    def done(self, count: int) -> str:
        return f"{_deliveries(count)} {'is' if count == 1 else 'are'} being made again."


class Stop(Several):
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

    def done(self, count: int) -> str:
        return f"{_deliveries(count)} {'is' if count == 1 else 'are'} called off."


def _deliveries(count: int) -> str:
    return f"{count} {'delivery' if count == 1 else 'deliveries'}"


def _endpoints(count: int) -> str:
    return f"{count} {'endpoint' if count == 1 else 'endpoints'}"


URLS = [
    path("bulk/redeliver/", Redeliver.as_view(), name="a2a_delivery_bulk_redeliver"),
    path("bulk/stop/", Stop.as_view(), name="a2a_delivery_bulk_stop"),
]
