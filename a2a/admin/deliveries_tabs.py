"""The tabs of one delivery, each a page with its own queries."""

import json
from typing import Any

from django.urls import path

from a2a import posting, webhooks
from a2a.admin.deliveries_hub import Hub
from a2a.models import WebhookSecret
from common.console.pages import link
from nhi.console import event_sentences

SEES_ALL = "a2a.view_delivery"
#: Characters of the body that a page shows; attempts that it lists.
SHOWN, ATTEMPTS = 20_000, 100
VERIFY = """import base64, hashlib, hmac, time

def is_genuine(headers, body: bytes, secret: str) -> bool:
    sent_at = headers["webhook-timestamp"]
    if abs(time.time() - int(sent_at)) > 300:
        return False
    signed = f"{headers['webhook-id']}.{sent_at}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return any(hmac.compare_digest(expected, one) for one in headers["webhook-signature"].split())"""


class Attempts(Hub):
    tab = "hub"
    template = "admin/a2a/deliveries/attempts.html"

    def context(self) -> dict[str, Any]:
        return {
            **super().context(),
            "log": list(self.delivery.log.order_by("-number")[:ATTEMPTS]),
            # Else who names a URL could read what stands there, as over the API.
            "reads_answers": self.actor.may(SEES_ALL),
            "most_shown": ATTEMPTS,
            "seconds": posting.SECONDS,
        }


class Sent(Hub):
    tab = "sent"
    template = "admin/a2a/deliveries/sent.html"

    def context(self) -> dict[str, Any]:
        return {
            **super().context(),
            "body": _laid_out(self.delivery.body),
            "most": SHOWN,
            "verify": VERIFY,
            "secret": self._secret(),
            "secrets_url": link("a2a_webhooksecret_changelist"),
        }

    def _secret(self) -> WebhookSecret | None:
        """What signs it, as far as the person may know: the longest prefix that fits the URL as it is shown."""
        own = WebhookSecret.objects.visible_to(self.actor).filter(owner_id=self.delivery.owner_id)
        fitting = [
            row for row in own.defer("sealed", "sealed_previous") if webhooks.fits(self.delivery.url, row.url_prefix)
        ]
        return max(fitting, key=lambda row: len(row.url_prefix), default=None)


class Changes(Hub):
    tab = "changes"
    template = "admin/a2a/deliveries/changes.html"

    def context(self) -> dict[str, Any]:
        return {**super().context(), **event_sentences.changes_page(self.actor, self.delivery.pk, self.request.GET)}


def _laid_out(body: str) -> str:
    """One member a line; what is sent has none of the blanks."""
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except ValueError:
        return body


URLS = [
    path("<uuid:pk>/", Attempts.as_view(), name="a2a_delivery_hub"),
    path("<uuid:pk>/sent/", Sent.as_view(), name="a2a_delivery_sent"),
    path("<uuid:pk>/changes/", Changes.as_view(), name="a2a_delivery_changes"),
]
