"""Who may change what an agent tells of itself, and how it is reached."""

from common.errors import NotAllowed
from nhi.access import rights
from nhi.actors import Actor
from nhi.models import Identity

CARD, ENDPOINT = "a2a.change_agentcard", "a2a.change_endpoint"


def may_change(actor: Actor, identity: Identity, right: str) -> bool:
    """By console role, or for editing the identity itself."""
    return actor.may(right) or rights.may_edit(actor, identity)


def require_to_change(actor: Actor, identity: Identity, right: str) -> None:
    if not may_change(actor, identity, right):
        what = "card" if right == CARD else "endpoint"
        raise NotAllowed(f"You may not change the {what} of {identity.name}.", details={"needs": right})
