"""What the palette makes of the id that a receiver was given, or of a delivery's own."""

from collections.abc import Iterable

from django.db.models import Q
from django.http import HttpRequest

from a2a.admin import deliveries_cells
from a2a.models import Delivery
from common.console import command_palette
from common.console.command_palette import PER_GROUP, Group, Hit
from common.console.pages import link
from common.ids import parse_uuid
from nhi.console.request_actor import actor_of


def find(request: HttpRequest, term: str) -> Iterable[Group]:
    known = parse_uuid(term.lower())
    if known is None:
        return
    seen = Delivery.objects.visible_to(actor_of(request)).filter(Q(webhook_id=known) | Q(pk=known))
    yield Group("Deliveries", [_hit(row) for row in deliveries_cells.for_lines(seen)[:PER_GROUP]])


def _hit(row: Delivery) -> Hit:
    said = deliveries_cells.standing(row).label
    return Hit(
        deliveries_cells.name(row), link("a2a_delivery_hub", row.pk), "outgoing_mail",
        f"Delivery, {said[:1].lower()}{said[1:]}",
    )  # fmt: skip


command_palette.add_palette_providers(find)
