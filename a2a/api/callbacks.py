"""Callbacks: the secrets that sign them, what became of them, and delivering one again."""

from typing import Any
from uuid import UUID

from a2a import calling_off, deliveries, webhook_ends, webhooks
from a2a.api.base import TasksView
from a2a.api.shapes import callbacks as shapes
from a2a.models import Delivery, WebhookSecret
from a2a.webhooks import Shown
from common.api.operations import listing, operation
from nhi.models import Identity


class WebhookSecrets(TasksView):
    @listing(gives=shapes.WebhookSecretShape)
    def get(self, asked: dict[str, Any]) -> Any:  # noqa: ARG002 - a list without filters of its own
        """List webhook secrets

        Never the secrets themselves. Your own and those of identities that you manage; all of them for console
        roles."""
        return WebhookSecret.objects.visible_to(self.actor)

    @operation(takes=shapes.NewWebhookSecret, gives=shapes.SecretMadeShape, status=201, refusals=(404, 409))
    def post(self, given: dict[str, Any]) -> Shown:
        """Make a webhook secret

        It signs the callbacks of the tasks that you send, or that an identity which you manage sends, to URLs that
        begin with `url_prefix`. The secret is in this answer and nowhere else. Where callbacks to these URLs were
        signed by a shorter prefix's, that signs them too until `previous_valid_until`. 409 where there is one for this
        prefix: rotate that; and where three such sign there already."""
        owner = given.get("owner_id")
        holder = self.visible(Identity.objects.all(), owner) if owner and owner != self.actor.id else None
        return webhooks.make(actor=self.actor, url_prefix=given["url_prefix"], holder=holder)


class OfSecret(TasksView):
    secret: WebhookSecret

    def find(self, **path: UUID) -> None:
        self.secret = self.visible(WebhookSecret.objects.all(), path["secret_id"])


class OneSecret(OfSecret):
    @operation(filters=shapes.WhySecretRemoved, gives=shapes.WebhookSecretShape, refusals=(400,))
    def delete(self, asked: dict[str, Any]) -> WebhookSecret:
        """Remove a webhook secret

        It signs nothing more, and neither does what signed beside it. Callbacks to its URLs are signed by the secret of
        the next shorter prefix; where there is none, by one for any URL that is made anew and that only rotating shows.
        The answer is the secret as it was last. For whoever may rotate it."""
        return webhook_ends.remove(actor=self.actor, secret=self.secret, reason=asked["reason"])


class RevokePrevious(OfSecret):
    @operation(takes=shapes.WhyRevoked, gives=shapes.WebhookSecretShape, refusals=(409,))
    def post(self, given: dict[str, Any]) -> WebhookSecret:
        """Revoke what signs beside a webhook secret

        From here on it signs alone, as is wanted after a leak; an attempt that is under way may carry both still. 409
        where it signs alone already. For whoever may rotate it."""
        return webhook_ends.revoke_previous(actor=self.actor, secret=self.secret, reason=given["reason"])


class RotateSecret(OfSecret):
    @operation(takes=shapes.NoBody, gives=shapes.SecretRotatedShape, refusals=(409,))
    def post(self, _given: dict[str, Any]) -> Shown:
        """Rotate a webhook secret

        Makes a successor, shown here only. Until `previous_valid_until` callbacks are signed by both; then by the new
        one alone. For who it belongs to, and for people who manage that identity."""
        return webhooks.rotate(actor=self.actor, secret=self.secret)


class Deliveries(TasksView):
    @listing(gives=shapes.DeliveryItem, filters=shapes.DeliveryFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List deliveries of callbacks

        Newest first: those of tasks that you sent, or that identities you manage sent; all of them for console
        roles."""
        return Delivery.objects.visible_to(self.actor).filter(**asked).defer("body")


class OfDelivery(TasksView):
    delivery: Delivery

    def find(self, **path: UUID) -> None:
        self.delivery = self.visible(Delivery.objects.select_related("task"), path["delivery_id"])


class OneDelivery(OfDelivery):
    @operation(gives=shapes.DeliveryShape)
    def get(self) -> Delivery:
        """Read a delivery

        With every attempt at it, but not what its receiver said: else whoever names a URL could read what stands
        there. The console shows that to who may see all deliveries."""
        return self.delivery


class Redeliver(OfDelivery):
    @operation(takes=shapes.NoBody, gives=shapes.DeliveryItem, refusals=(409,))
    def post(self, _given: dict[str, Any]) -> Delivery:
        """Deliver a callback again

        At once and then in the rhythm of a new one, under the same `webhook_id`; a URL that its receiver had disabled
        is called again. One that waits for its next attempt is attempted at once. For who sent the task, people who
        manage that identity, and the right to redeliver any. 409 while an attempt is due or under way, and
        `receiver_gone` where who asked for it took its receiver away."""
        return deliveries.redeliver(actor=self.actor, delivery=self.delivery)


class Stop(OfDelivery):
    @operation(takes=shapes.WhyCalledOff, gives=shapes.DeliveryItem, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Delivery:
        """Call off a delivery

        It is not tried again, and is no dead letter any more. An attempt under way goes on. For who sent the task,
        people who manage that identity, and the right to call off any. 409 where it was delivered or called off."""
        return calling_off.stop(actor=self.actor, delivery=self.delivery, reason=given["reason"])


class Disable(OfDelivery):
    @operation(takes=shapes.WhyCalledOff, gives=shapes.DeliveryItem, refusals=(409,))
    def post(self, given: dict[str, Any]) -> Delivery:
        """Disable the URL of a delivery

        As if its receiver had answered 410: what waits for this exact URL of this owner is called off, and later
        callbacks are not sent there, until one is redelivered. 409 where that is so already."""
        return calling_off.disable(actor=self.actor, delivery=self.delivery, reason=given["reason"])
