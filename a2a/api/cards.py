"""Cards: as people keep them, in every form, and as the REST contract shows them."""

from typing import Any
from uuid import UUID

from a2a import card_changes, cards
from a2a.api.shapes import cards as shapes
from a2a.cards import Described
from common.api.operations import listing, operation
from nhi.api.views import ApiView
from nhi.choices import Kind
from nhi.models import Identity


class ContractCard(ApiView):
    def find(self, **path: UUID) -> None:
        self.card = cards.of_contract(path["identity_id"], self.caller)

    @operation(gives=shapes.ContractCardShape)
    def get(self) -> Any:
        """Read an agent's card

        Of a discoverable agent, which is the same as `/.well-known/agents/{id}` shows to everybody; and of one that
        you may see, or have or had a grant to call."""
        return self.card


class Cards(ApiView):
    @listing(gives=shapes.CardItem, filters=shapes.CardFilters)
    def get(self, asked: dict[str, Any]) -> Any:
        """List cards

        Of every agent that you may see, whether or not somebody has written one."""
        wanted = {name: value for name, value in asked.items() if value is not None}
        rows = Identity.objects.of_kind(Kind.AGENT).visible_to(self.actor).filter(**wanted)
        return rows.select_related("agent_card", "endpoint").prefetch_related("card_skills").order_by("name", "id")


class OfAgent(ApiView):
    """A path of one agent that the caller sees."""

    identity: Identity

    def find(self, **path: UUID) -> None:
        self.identity = self.visible(Identity.objects.of_kind(Kind.AGENT), path["identity_id"])


class OneCard(OfAgent):
    @operation(gives=shapes.CardShape)
    def get(self) -> Described:
        """Read a card as it is kept"""
        return cards.describe(self.identity)

    @operation(takes=shapes.CardChange, partial=True, gives=shapes.CardShape, refusals=(409,))
    def patch(self, given: dict[str, Any]) -> Described:
        """Change a card

        For who may change the identity, and the right to change cards. Its transports, capabilities and security follow
        from the endpoint; `discoverable` is the identity's."""
        if "provider" in given:
            given |= given.pop("provider") or {"provider_organization": "", "provider_url": ""}
        card_changes.change(actor=self.actor, identity=self.identity, **given)
        return cards.describe(self.identity)


class Preview(OfAgent):
    @operation(gives=shapes.PreviewShape)
    def get(self) -> cards.Preview:
        """Read every form of a card

        As it is served, without signatures, and what a strict client would object to."""
        return cards.preview(cards.describe(self.identity))
