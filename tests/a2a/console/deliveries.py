"""Where the pages of deliveries are, and what they list."""

from django.test import Client

from a2a.choices import DeliveryState
from a2a.models import Delivery

LIST, SECRETS = "/admin/a2a/delivery/", "/admin/a2a/webhooksecret/"
TABS = ("", "sent/", "changes/")
VERBS = ("redeliver/", "stop/", "disable/")
D = DeliveryState


def page_of(row: Delivery, tab: str = "") -> str:
    return f"{LIST}{row.pk}/{tab}"


def listed(client: Client, query: str = "") -> list[str]:
    return [row["id"] for row in client.get(f"{LIST}?{query}").context["rows"]]
