"""What an agent tells of itself and how it is reached: a tab of its page, in four parts."""

import json
from typing import Any

from a2a import card_rights, cards
from a2a.admin import cards_cells
from a2a.cards import Described
from a2a.choices import CardForm
from common.console import navigation
from common.console.pages import Control, Tab
from nhi.access import rights
from nhi.admin.identities import hub
from nhi.admin.identities.hub import Added, Hub
from nhi.choices import Kind
from nhi.models import Identity

PARTS = (
    ("card", "Edit skills"), ("card_preview", "Preview"), ("card_checks", "Checks"), ("card_endpoint", "Endpoint"),
)  # fmt: skip
FORMS = (("merged", "Merged"), ("1.0", "1.0"), ("0.3", "0.3"))


class Card(Hub):
    """The frame of the four parts."""

    tab = "card"
    part = "card"
    told: Described

    def context(self) -> dict[str, Any]:
        self.told = cards.describe(self.identity)
        words = dict(PARTS)[self.part].lower() if self.part != self.tab else ""
        return {
            **super().context(),
            "title": f"{self.identity.name}: Card{words and f', {words}'}",
            "sides": [Tab(label, self.url(name), current=name == self.part) for name, label in PARTS],
            "told": self.told,
            "reading": cards_cells.reading(self.identity),
            "well_known": f"{self.told.url}/.well-known/agent-card.json",
            "api": f"/api/nhi/a2a/{'endpoints' if self.part == 'card_endpoint' else 'cards'}/{self.identity.pk}",
        }

    def may(self, right: str) -> bool:
        return not self.actor.only_reads and card_rights.may_change(self.actor, self.identity, right)


class Skills(Card):
    template = "admin/a2a/cards/skills.html"

    def context(self) -> dict[str, Any]:
        context = super().context()
        edits = self.may(card_rights.CARD)
        return {
            **context,
            "edits": edits,
            "edit": Control("Edit card", self.url("card_edit"), "edit"),
            "add": Control("Add skill", self.url("card_skill_add"), "add"),
            "switch": self._switch(),
            "usual": cards.facts_of(self.told).skills[0],
        }

    def _switch(self) -> Control | None:
        """Whoever changes the identity; the address is the same both ways."""
        if self.actor.only_reads or not rights.may_edit(self.actor, self.identity):
            return None
        words, icon = ("Hide it", "visibility_off") if self.identity.discoverable else ("Let anyone read it", "public")
        return Control(words, self.url("card_discoverable"), icon)


class Preview(Card):
    part = "card_preview"
    template = "admin/a2a/cards/preview.html"

    def context(self) -> dict[str, Any]:
        context = super().context()
        shown = cards.preview(self.told)
        by_form = {"merged": shown.merged, "1.0": shown.strict_1_0, "0.3": shown.strict_0_3}
        asked = self.request.GET.get("form", "")
        form = asked if asked in by_form else str(self.told.card.form)
        return {
            **context,
            "forms": [Tab(label, f"?form={name}", current=name == form) for name, label in FORMS],
            "card": json.dumps(by_form[form], indent=2, ensure_ascii=False),
            "form": form,
            "usual_form": CardForm(self.told.card.form).label,
        }


class Checks(Card):
    part = "card_checks"
    template = "admin/a2a/cards/checks.html"

    def context(self) -> dict[str, Any]:
        context = super().context()
        return {**context, "objections": cards.preview(self.told).objections}


class Endpoint(Card):
    part = "card_endpoint"
    template = "admin/a2a/cards/endpoint.html"

    def context(self) -> dict[str, Any]:
        context = super().context()
        endpoint = self.told.endpoint
        opened = Identity.objects.filter(pk__in=[endpoint.open_as_id]).first() if endpoint.is_open else None
        return {
            **context,
            "endpoint": endpoint,
            "ways": cards_cells.ways(endpoint),
            "limits": cards_cells.limits(endpoint),
            "authentication": cards_cells.authentication(endpoint),
            "open_as": opened,
            "edit": Control("Edit endpoint", self.url("card_endpoint_edit"), "edit")
            if self.may(card_rights.ENDPOINT)
            else None,
        }


PAGES = (("card", Skills), ("card_preview", Preview), ("card_checks", Checks), ("card_endpoint", Endpoint))
for _name, _page in PAGES:
    _path = _name.replace("_", "/")
    navigation.add_site_page(f"nhi/identity/<uuid:pk>/{_path}/", _page.as_view(), f"nhi_identity_{_name}")
hub.add_tab(Added("card", "Card", frozenset({Kind.AGENT}), place=1))
