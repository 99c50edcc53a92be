"""The list of cards and endpoints: what each agent tells of itself, and how it is reached."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from a2a import cards
from a2a.admin import cards_cells
from a2a.models import AgentCard
from common.console.lists import Bulk, Preset, choice_filter
from common.console.pages import link
from common.templatetags.console import as_curl
from nhi.choices import Kind, State
from nhi.console.base import VisibleRowsAdmin
from nhi.console.request_actor import actor_of
from nhi.models import Identity


@admin.register(AgentCard)
class AgentCardAdmin(VisibleRowsAdmin):
    title = "Cards and endpoints"
    lead = "What each agent tells of itself to other agents, how they reach it, and how much it takes."
    view_right = "nhi.view_identity"
    columns = cards_cells.COLUMNS
    filters = (
        choice_filter("card", "Card", "discoverable", (("True", "Anyone can read it"), ("False", "Callers only"))),
        choice_filter("state", "State", "state", State.choices),
    )
    search = ("name__icontains", "description__icontains", "card_skills__name__icontains")
    search_words = "Agent, description or skill"
    order = ("-discoverable", "name")
    bulk: tuple[Bulk, ...] = ()
    presets = (Preset("All"), Preset("Anyone can read", "card=True"))
    empty_title = "No agent yet"
    empty_words = "Every agent has a card and an endpoint from the start; here they stand once there is an agent."
    empty_command = as_curl("POST", "/api/nhi/identities", {"kind": "agent", "name": "writer"})
    empty_icon = "badge"
    api_path = "/api/nhi/a2a/cards"

    def visible(self, request: HttpRequest) -> QuerySet[Any]:
        """The agents: most cards have no row."""
        return Identity.objects.of_kind(Kind.AGENT).visible_to(actor_of(request)).distinct()

    def related(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.select_related("agent_card", "endpoint").prefetch_related("card_skills")

    def prepare(self, request: HttpRequest, rows: list[Any]) -> None:
        for row in rows:
            row.told = cards.loaded(row)
            row.objections = cards.preview(row.told).objections

    def row_url(self, row: Any) -> str:
        return link("nhi_identity_card", row.pk)
