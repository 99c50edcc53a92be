"""Gives one agent many tools at once: by list, by server or by pattern. Every item has its own result."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from common.errors import InvalidInput
from nhi.access import grants
from nhi.access.access import ItemResult, attempt_item
from nhi.actors import Actor
from nhi.choices import Kind, State
from nhi.decisions import capabilities
from nhi.models import Identity, ToolPermission
from nhi.models.identities import IdentityQuerySet

MAX_TOOLS = 100


@dataclass(frozen=True)
class ToolSelection:
    """Selects tools by exactly one of: a list of ids, a server's name, a capability pattern."""

    tool_ids: tuple[UUID, ...] | None = None
    server: str | None = None
    pattern: str | None = None


@dataclass(frozen=True)
class BulkGrantPreview:
    """The predicted results of `give_tools` for one agent."""

    items: list[ItemResult]

    def count(self, result: str) -> int:
        return sum(item.result == result for item in self.items)

    @property
    def sentence(self) -> str:
        refused = [item for item in self.items if item.result == "refused"]
        reason = f": {refused[0].message}" if refused else ""
        adds, exist = self.count("created"), self.count("exists")
        return (
            f"Adds {adds} {'grant' if adds == 1 else 'grants'}, {exist} exist already, {len(refused)} refused{reason}"
        )


def give_tools(
    *,
    actor: Actor,
    agent: Identity,
    selection: ToolSelection,
    reason: str,
    expires_at: datetime | None = None,
    limits: dict[str, Any] | None = None,
) -> list[ItemResult]:
    """Give each selected tool in its own transaction. `limits` are keyword arguments of `grants.give_tool`."""
    actor.require("nhi.add_toolpermission", "give agents access to tools")
    tools, unknown = select_tools(actor, selection)
    results = [
        attempt_item(
            "tool",
            tool.name,
            tool.pk,
            lambda tool=tool: grants.give_tool(
                actor=actor, agent=agent, tool=tool, reason=reason, expires_at=expires_at, **(limits or {})
            ),
        )
        for tool in tools
    ]
    return results + [_unknown_tool_result(tool_id) for tool_id in unknown]


def preview_agent(*, actor: Actor, agent: Identity, selection: ToolSelection) -> BulkGrantPreview:
    """Return what `give_tools` would do now, without doing it."""
    return preview_agents(actor=actor, agents=[agent], selection=selection)[0]


def preview_agents(*, actor: Actor, agents: Sequence[Identity], selection: ToolSelection) -> list[BulkGrantPreview]:
    """Return a preview for each agent. The number of queries does not depend on the number of agents."""
    tools, unknown = select_tools(actor, selection)
    rows = ToolPermission.objects.live().filter(agent__in=agents, tool__in=tools).values_list("agent_id", "tool_id")
    pairs = set(rows)
    identity_ids = [identity.pk for identity in (*agents, *tools)]
    usable = set(Identity.objects.usable().filter(pk__in=identity_ids).values_list("pk", flat=True))
    return [
        BulkGrantPreview(
            [_predicted_result(agent, tool, pairs, usable) for tool in tools]
            + [_unknown_tool_result(tool_id) for tool_id in unknown]
        )
        for agent in agents
    ]


def select_tools(actor: Actor, selection: ToolSelection) -> tuple[list[Identity], list[UUID]]:
    """Return the selected tools, and the ids that match no tool visible to the actor."""
    rows = Identity.objects.visible_to(actor).filter(kind=Kind.TOOL)
    chosen = [name for name in ("tool_ids", "server", "pattern") if getattr(selection, name) is not None]
    if len(chosen) != 1:
        raise InvalidInput.for_field(
            chosen[1] if chosen else "tool_ids", "Choose tools by exactly one of tool_ids, server and pattern."
        )
    if selection.tool_ids is not None:
        return _tools_by_id(rows, selection.tool_ids)
    if selection.server is not None:
        return _matching_tools(rows.filter(name__startswith=f"{selection.server}__"), "server"), []
    assert selection.pattern is not None  # the last of the three fields
    if selection.pattern == capabilities.ALL_CAPABILITIES:
        raise InvalidInput.for_field(
            "pattern", "Everything at once takes two people: give a role *.* and have it approved."
        )
    if not capabilities.is_pattern(selection.pattern):
        raise InvalidInput.for_field(
            "pattern", "This is no pattern; write github.read, github.commits.*, github.* or *.*."
        )
    return _matching_tools(rows.covered_by(selection.pattern), "pattern"), []


def _tools_by_id(rows: IdentityQuerySet, tool_ids: Iterable[UUID]) -> tuple[list[Identity], list[UUID]]:
    unique_ids = list(dict.fromkeys(tool_ids))
    if not 1 <= len(unique_ids) <= MAX_TOOLS:
        raise InvalidInput.for_field("tool_ids", f"Name 1 to {MAX_TOOLS} tools.")
    tools = {tool.pk: tool for tool in rows.filter(pk__in=unique_ids)}
    return [tools[pk] for pk in unique_ids if pk in tools], [pk for pk in unique_ids if pk not in tools]


def _matching_tools(rows: IdentityQuerySet, field: str) -> list[Identity]:
    tools = list(rows.order_by("name")[: MAX_TOOLS + 1])
    if not tools:
        raise InvalidInput.for_field(field, "No tool matches this.")
    if len(tools) > MAX_TOOLS:
        raise InvalidInput.for_field(
            field, f"More than {MAX_TOOLS} tools match this. Choose fewer, or assign a role with this pattern."
        )
    return tools


def _predicted_result(
    agent: Identity, tool: Identity, granted_pairs: set[tuple[UUID, UUID]], usable: set[UUID]
) -> ItemResult:
    unusable = next((identity for identity in (agent, tool) if identity.pk not in usable), None)
    if unusable is not None:
        message = f"is {unusable.state}" if unusable.state != State.ACTIVE else "has expired"
        message = f"{unusable.name} {message}."
        return ItemResult("refused", "tool", tool.name, tool.pk, error_code="invalid", message=message)
    if (agent.pk, tool.pk) in granted_pairs:
        return ItemResult("exists", "tool", tool.name, tool.pk, error_code="duplicate", message="Given already.")
    return ItemResult("created", "tool", tool.name, tool.pk)


def _unknown_tool_result(tool_id: UUID) -> ItemResult:
    message = "There is no such tool that you can see."
    return ItemResult("refused", "tool", str(tool_id), tool_id, error_code="not_found", message=message)
