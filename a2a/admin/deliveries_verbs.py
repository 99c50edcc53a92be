"""Dialogs of one delivery: have it delivered again, call it off, disable its URL."""

from typing import Any

from django.contrib import messages
from django.urls import path
from django.utils import timezone

from a2a import calling_off, deliveries
from a2a.admin import deliveries_cells
from a2a.admin.deliveries_hub import OfDelivery
from a2a.choices import DeliveryState
from a2a.retrying import ATTEMPTS
from common.console.confirmation_dialogs import ApiExample, Effect, counted
from common.console.forms import ConsoleForm, ReasonField
from common.errors import NotAllowed
from nhi.console.base import ActorDialog

AGAIN = f"The same body under the same webhook-id, at once, and then up to {ATTEMPTS} attempts within three days."


class WhyForm(ConsoleForm):
    reason = ReasonField("Its receiver was taken down", "Handled by hand", "Wrong URL")


class Verb(OfDelivery, ActorDialog):
    verb = ""
    #: The last part of its address over REST.
    rest = ""

    def check(self) -> None:
        super().check()
        if not self.allowed():
            raise NotAllowed(f"You may not {self.verb.lower()} this delivery.", details={"needs": self.right})

    right = calling_off.RIGHT

    def allowed(self) -> bool:
        return calling_off.may(self.actor, self.delivery)

    @property
    def button(self) -> str:  # type: ignore[override]  # the name is known once there is a delivery
        return f"{self.verb} {self.what()}"

    def what(self) -> str:
        return deliveries_cells.name(self.delivery)

    def context(self) -> dict[str, Any]:
        return {"title": self.button, "impossible": self.impossible()}

    def impossible(self) -> str:
        """Why the state forbids it now."""
        return ""

    def by_api(self) -> ApiExample:
        return ApiExample(self.api(self.rest), {"reason": "…"})


class Redeliver(Verb):
    rest = "redeliver"
    right = deliveries.RIGHT

    @property
    def waits(self) -> bool:
        return deliveries.waits(self.delivery, timezone.now())

    @property
    def verb(self) -> str:  # type: ignore[override]  # what it is known once there is a delivery
        return "Try now" if self.waits else "Redeliver"

    @property
    def button(self) -> str:  # type: ignore[override]  # the same
        return f"Try {self.what()} now" if self.waits else f"Redeliver {self.what()}"

    @property
    def lead(self) -> str:  # type: ignore[override]  # the same
        return "At once, instead of when its next attempt is due." if self.waits else AGAIN

    def allowed(self) -> bool:
        return deliveries.may_redeliver(self.actor, self.delivery)

    def impossible(self) -> str:
        if self.delivery.state == DeliveryState.PENDING and not self.waits:
            return "It is being delivered already."
        return deliveries.GONE if deliveries.receiver_is_gone(self.delivery) else ""

    def effects(self) -> list[Effect]:
        row = self.delivery
        heard = row.state == DeliveryState.DELIVERED
        disabled = int(calling_off.is_disabled(row))
        return [
            counted("heard", int(heard), "Its receiver has heard it once, and is told again", ""),
            counted("url", disabled, f"Callbacks of {row.owner_name} go to this URL again, later ones too", ""),
        ]

    def by_api(self) -> ApiExample:
        return ApiExample(self.api("redeliver"))

    def act(self, form: ConsoleForm) -> str:
        deliveries.redeliver(actor=self.actor, delivery=self.delivery)
        messages.success(self.request, f"Another attempt at {self.what()} was asked for.")
        return self.url("hub")


class Stop(Verb):
    verb, rest, form_class, danger, leave = "Call off", "stop", WhyForm, True, "Leave it"

    @property
    def lead(self) -> str:  # type: ignore[override]  # what it is known once there is a delivery
        if self.delivery.state == DeliveryState.PENDING:
            return "It is tried no more. An attempt that is under way goes on, and its answer stands in the log."
        return "It is no dead letter any more. It can be redelivered whenever somebody wants to."

    def impossible(self) -> str:
        over = self.delivery.state not in calling_off.STOPPABLE
        return "It is not tried any more." if over else ""

    def effects(self) -> list[Effect]:
        who = self.delivery.owner_name
        return [Effect("delivery", 1, f"{who} is not told of this; the task itself can be read as before.")]

    def act(self, form: ConsoleForm) -> str:
        calling_off.stop(actor=self.actor, delivery=self.delivery, reason=form.cleaned_data["reason"])
        messages.success(self.request, f"{self.what()} is called off.")
        return self.url("hub")


class Disable(Verb):
    verb, rest, form_class, danger, leave = "Disable", "disable", WhyForm, True, "Keep it"

    def what(self) -> str:
        return f"the URL at {deliveries_cells.endpoint(self.delivery)}"

    def impossible(self) -> str:
        if not calling_off.is_disabled(self.delivery):
            return ""
        return f"Nothing of {self.delivery.owner_name} goes to this URL already, until one is redelivered."

    def effects(self) -> list[Effect]:
        row = self.delivery
        waiting = calling_off.beside(row).count()
        return [
            Effect("later", 1, f"Later callbacks of {row.owner_name} are not sent to {row.url}"),
            counted("waiting", waiting, "Calls off {} delivery that waits for it", "Calls off {} that wait for it"),
            Effect("again", 1, "Redelivering any of them lets callbacks go there again"),
        ]

    def act(self, form: ConsoleForm) -> str:
        calling_off.disable(actor=self.actor, delivery=self.delivery, reason=form.cleaned_data["reason"])
        said = f"Nothing of {self.delivery.owner_name} goes to this URL until one is redelivered."
        messages.success(self.request, said)
        return self.url("hub")


URLS = [
    path("<uuid:pk>/redeliver/", Redeliver.as_view(), name="a2a_delivery_redeliver"),
    path("<uuid:pk>/stop/", Stop.as_view(), name="a2a_delivery_stop"),
    path("<uuid:pk>/disable/", Disable.as_view(), name="a2a_delivery_disable"),
]
