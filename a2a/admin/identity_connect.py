"""How an agent is reached over A2A: a part of the tab that says how its identity connects."""

from typing import Any

from django.conf import settings

from a2a import runtimes
from a2a.choices import RuntimeKind
from nhi.actors import Actor
from nhi.admin.identities import hub
from nhi.admin.identities.hub import Part
from nhi.choices import Kind
from nhi.models import Identity


def reached(_actor: Actor, identity: Identity) -> dict[str, Any]:
    """Of an agent, its addresses; of who only sends, the agent stands for one it may call."""
    is_agent = identity.kind == Kind.AGENT
    name = identity.name if is_agent else "AGENT"
    base = f"{settings.PUBLIC_URL}/agents/{name}/"
    return {
        "is_agent": is_agent,
        "base": base,
        "card": f"{base}.well-known/agent-card.json",
        "rest": f"{settings.PUBLIC_URL}/api/nhi/a2a/tasks",
        "inbox": _inbox(identity) if is_agent else "",
        "target": identity.pk if is_agent else "…",
    }


def _inbox(identity: Identity) -> str:
    """Where its own workers take its tasks; empty where something else does them."""
    by_workers = runtimes.of(identity).kind == RuntimeKind.INBOX
    return f"{settings.PUBLIC_URL}/api/nhi/a2a/inbox" if by_workers else ""


hub.add_part(Part("connect", "admin/a2a/connect.html", reached))
