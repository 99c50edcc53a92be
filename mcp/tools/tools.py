"""Changes the attributes of a tool that people set: owner, required approval, deprecation."""

from typing import Any

from django.db import transaction

from mcp.models import Tool
from nhi.actors import Actor
from nhi.audit import events
from nhi.identities import identities
from nhi.models import User


def change_tool(
    *,
    actor: Actor,
    tool: Tool,
    requires_approval: bool | None = None,
    deprecated: bool | None = None,
    owner: User | None = None,
) -> Tool:
    """Change a tool; arguments that are None change nothing. A deprecated tool still works but shows a notice."""
    actor.require("mcp.change_tool", "change tools")
    values = {"requires_approval": requires_approval, "deprecated": deprecated}
    with transaction.atomic():
        current = Tool.objects.select_for_update(of=("self",)).select_related("identity", "server").get(pk=tool.pk)
        _save_attributes(actor, current, {name: value for name, value in values.items() if value is not None})
        if owner is not None and owner.pk != current.identity.owner_id:
            current.identity = identities.change(actor=actor, identity=current.identity, owner=owner)
    return current


def _save_attributes(actor: Actor, tool: Tool, values: dict[str, Any]) -> None:
    before = {name: getattr(tool, name) for name, value in values.items() if getattr(tool, name) != value}
    if not before:
        return
    after = {name: values[name] for name in before}
    for name, value in after.items():
        setattr(tool, name, value)
    tool.save(update_fields=list(after))
    events.write("tool.changed", actor=actor, subject=tool.identity, before=before, after=after)
