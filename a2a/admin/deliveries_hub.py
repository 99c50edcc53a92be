"""One delivery: did its receiver hear it, and if not, why and what next?"""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.functional import cached_property

from a2a import calling_off, deliveries
from a2a.admin import deliveries_cells
from a2a.choices import DeliveryState, Trouble
from a2a.models import Delivery, Task
from a2a.retrying import ATTEMPTS
from common.console.pages import PART, Control, Crumb, Tab, link, wants_part
from common.egress import urls
from common.errors import NotFound
from nhi.console.base import ActorMixin, ActorPage
from nhi.models import Identity

TABS = (("hub", "Attempts"), ("sent", "What is sent"), ("changes", "Changes"))


class OfDelivery(ActorMixin):
    """A page or dialog about one delivery that the person may see."""

    kwargs: dict[str, Any]
    delivery: Delivery

    def check(self) -> None:
        super().check()
        seen = Delivery.objects.visible_to(self.actor).select_related("task").defer("body")
        found = seen.filter(pk=self.kwargs["pk"]).first()
        if found is None:
            raise NotFound
        self.delivery = found

    def url(self, page: str) -> str:
        return link(f"a2a_delivery_{page}", self.delivery.pk)

    def api(self, verb: str = "") -> str:
        path = f"/api/nhi/a2a/deliveries/{self.delivery.pk}"
        return f"{path}/{verb}" if verb else path

    def back(self) -> str:
        return self.url("hub")


class Hub(OfDelivery, ActorPage):
    """The frame of every tab: the strip that says whether it was heard, one primary action."""

    tab = "hub"

    def get(self, request: HttpRequest, **_kwargs: Any) -> HttpResponse:
        """An open page asks again and again, and is told only what it has not seen."""
        unchanged = wants_part(request) and request.GET.get("seen") == self.seen
        return HttpResponse(status=204, headers={PART: "1"}) if unchanged else self.page()

    @property
    def seen(self) -> str:
        """One word for the delivery as it stands now."""
        row = self.delivery
        return f"{row.state}-{row.attempts}-{int(row.lease_until.timestamp()) if row.lease_until else 0}"

    def context(self) -> dict[str, Any]:
        row = self.delivery
        name = f"Delivery of {deliveries_cells.name(row)}"
        return {
            "title": name if self.tab == "hub" else f"{name}: {dict(TABS)[self.tab]}",
            "delivery": row,
            "name": name,
            "seen": self.seen,
            # What has ended may be redelivered by somebody else. Each answer to an auditor is on record.
            "fresh_url": "" if self.actor.only_reads else self.url(self.tab),
            "standing": deliveries_cells.standing(row),
            "said": self._said(),
            "sees_task": self._sees_task(),
            "owner_url": self._owner_url(),
            "most_attempts": ATTEMPTS,
            "made": row.attempts - row.attempts_before,
            "crumb": Crumb("Deliveries", link("a2a_delivery_changelist")),
            "controls": self._controls(),
            "more": self._more(),
            "tabs": [Tab(label, self.url(page), self._counts().get(page), page == self.tab) for page, label in TABS],
            "api": self.api(),
        }

    def _said(self) -> str:
        """In one sentence why it is not heard, and what would change that."""
        row = self.delivery
        if row.state == DeliveryState.DELIVERED:
            return ""
        if row.state == DeliveryState.DEAD:
            made = row.attempts - row.attempts_before
            return f"Nobody took it in {made} {'attempt' if made == 1 else 'attempts'}. {_last(row)}."
        if row.state == DeliveryState.BLOCKED:
            return f"Gatehouse does not call this address. {urls.allowlist_hint('it', row.place)} Then redeliver it."
        if row.state == DeliveryState.DISABLED:
            return _over(row)
        return f"{_last(row)}." if row.reason else ""

    def _sees_task(self) -> bool:
        if self.actor.may("a2a.view_task"):
            return True
        return Task.objects.visible_to(self.actor).filter(pk=self.delivery.task_id).exists()

    def _owner_url(self) -> str:
        """Where it is an identity that the person may see."""
        seen = Identity.objects.visible_to(self.actor).filter(pk=self.delivery.owner_id)
        return link("nhi_identity_hub", self.delivery.owner_id) if seen.exists() else ""

    def _counts(self) -> dict[str, int]:
        return {"hub": self.delivery.attempts}

    @cached_property
    def _may_redeliver(self) -> bool:
        return deliveries.may_redeliver(self.actor, self.delivery)

    @cached_property
    def _may_call_off(self) -> bool:
        return calling_off.may(self.actor, self.delivery)

    def _controls(self) -> list[Control]:
        """Redeliver what is over; call off what is not."""
        if self.delivery.state == DeliveryState.PENDING:
            waits = self._may_redeliver and deliveries.waits(self.delivery, timezone.now())
            sooner = [Control("Try now", self.url("redeliver"), "replay")] if waits else []
            return [*sooner, self._call_off()] if self._may_call_off else sooner
        if not self._may_redeliver:
            return []
        blocked = deliveries.GONE if deliveries.receiver_is_gone(self.delivery) else ""
        return [Control("Redeliver", self.url("redeliver"), "replay", blocked=blocked)]

    def _more(self) -> list[Control]:
        if not self._may_call_off:
            return []
        again = self.delivery.state in (DeliveryState.DEAD, DeliveryState.BLOCKED)
        disable = Control("Disable this URL…", self.url("disable"), "link_off", danger=True)
        return [self._call_off(), disable] if again else [disable]

    def _call_off(self) -> Control:
        return Control("Call off", self.url("stop"), "do_not_disturb_on", danger=True)


def _last(row: Delivery) -> str:
    """What the matter was with the last attempt."""
    said = Trouble(row.reason).label if row.reason else "Nobody heard how the last attempt ended"
    return f"{said} ({row.last_status})" if row.last_status else said


def _over(row: Delivery) -> str:
    if row.reason == Trouble.STOPPED:
        return "Somebody called it off: Changes says who, when and why."
    if row.reason == Trouble.WITHDRAWN:
        return "Its receiver was removed before it was told."
    return (
        "This URL is disabled, by a 410 of its receiver or by hand: nothing of "
        f"{row.owner_name} goes there until one is redelivered."
    )
