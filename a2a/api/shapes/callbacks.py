"""Secrets of webhooks, and what became of callbacks."""

from a2a.api.shapes import tasks
from a2a.choices import DeliveryState, Trouble
from common.api.fields import Identifier, Moment, Text, Whole, Word
from common.api.fields import Word as OneOf
from common.api.shapes import Filters, Input, Shape
from nhi.api.shapes import examples as story

SECRET = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b10"  # noqa: S105 - an id in the documentation
DELIVERY = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b11"
EVENT = "01932f0a-7c11-7d2e-9a51-0c6f1f2b3b12"
URL = "https://hooks.example.com/gatehouse"
TEXT = "whsec_…"
TOMORROW = "2026-11-19T10:00:00.000000Z"


class WebhookSecretShape(Shape):
    id = Identifier()
    owner_id = Identifier(help_text="An identity or a person.")
    owner = Text(source="owner_name")
    url_prefix = Text(help_text="It signs for the URLs that begin so; the longest such prefix wins.")
    created_at = Moment()
    rotated_at = Moment(allow_null=True)
    previous_valid_until = Moment(allow_null=True, help_text="Until then the one before it signs too.")

    example = {
        "id": SECRET,
        "owner_id": story.DEPLOY_BOT,
        "owner": "deploy-bot",
        "url_prefix": "https://hooks.example.com/",
        "created_at": story.NOW,
        "rotated_at": None,
        "previous_valid_until": None,
    }


class NewWebhookSecret(Input):
    url_prefix = Text(help_text='The beginning of the URLs it signs for, at most 500 characters; "" is for any.')
    owner_id = Identifier(
        required=False, allow_null=True, help_text="An identity that you manage; it signs your own callbacks else."
    )  # fmt: skip

    example = {"url_prefix": "https://hooks.example.com/"}


class NoBody(Input):
    """No key at all."""


class WhyCalledOff(Input):
    reason = Text(help_text="Why, in at most 500 characters; it is kept on record.")

    example = {"reason": "Its receiver was taken down"}


class WhyRevoked(Input):
    reason = Text(help_text="Why, in at most 500 characters; it is kept on record.")

    example = {"reason": "It leaked"}


class WhySecretRemoved(Filters):
    reason = Text(help_text="Why, in at most 500 characters; it is kept on record.")


class SecretMadeShape(Shape):
    id = Identifier(source="row.id")
    secret = Text(help_text="`whsec_` and the key in base64. Shown here and never again.")
    url_prefix = Text(source="row.url_prefix")
    created_at = Moment(source="row.created_at")
    previous_valid_until = Moment(
        source="row.previous_valid_until", allow_null=True,
        help_text="Until then what signed these URLs before, by a shorter prefix, signs too; null where nothing did.",
    )  # fmt: skip

    example = {
        "id": SECRET,
        "secret": TEXT,
        "url_prefix": "https://hooks.example.com/",
        "created_at": story.NOW,
        "previous_valid_until": None,
    }


class SecretRotatedShape(SecretMadeShape):
    previous_valid_until = Moment(source="row.previous_valid_until", help_text="Until then both sign.")

    example = {**SecretMadeShape.example, "previous_valid_until": TOMORROW}


class DeliveryItem(Shape):
    id = Identifier()
    task_id = Identifier()
    webhook_id = Identifier(help_text="What the receiver is given as `webhook-id`, the same at every attempt.")
    url = Text(help_text="Without what looks like a secret.")
    state = OneOf(choices=DeliveryState.choices)
    attempts = Whole()
    next_at = Moment(allow_null=True, help_text="When it is attempted next; null when it is over.")
    reason = OneOf(choices=["", *Trouble.values], help_text="Why the last attempt was none.")
    last_status = Whole(allow_null=True, help_text="What the receiver last answered with.")
    created_at = Moment()
    delivered_at = Moment(allow_null=True)

    example = {
        "id": DELIVERY,
        "task_id": tasks.TASK,
        "webhook_id": EVENT,
        "url": URL,
        "state": "delivered",
        "attempts": 2,
        "next_at": None,
        "reason": "",
        "last_status": 204,
        "created_at": tasks.DONE,
        "delivered_at": tasks.DONE,
    }


class AttemptShape(Shape):
    number = Whole()
    at = Moment()
    status = Whole(allow_null=True)
    reason = OneOf(choices=["", *Trouble.values])
    took_ms = Whole(allow_null=True, help_text="Null while it is under way, and when nobody heard how it ended.")

    example = {"number": 1, "at": tasks.DONE, "status": 500, "reason": "http_error", "took_ms": 12}


class DeliveryShape(DeliveryItem):
    log = AttemptShape(many=True, help_text="Every attempt, the first one first.")

    example = {**DeliveryItem.example, "log": [AttemptShape.example]}


class DeliveryFilters(Filters):
    state = Word(choices=DeliveryState.choices, required=False)
    task_id = Identifier(required=False)
