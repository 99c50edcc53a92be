"""Bulk changes of access: revoke all, copy to another identity, give many tools; a result for each item."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from common.errors import GatehouseError, InvalidInput, RecordUnavailable
from nhi.access import grants, roles
from nhi.actors import Actor
from nhi.audit import events
from nhi.choices import Kind, State
from nhi.decisions import capabilities
from nhi.models import Credential, Identity, NhiPermission, RoleAssignment, ToolPermission, UserPermission
from nhi.models.identities import IdentityQuerySet


@dataclass(frozen=True)
class ItemResult:
    """The result for one item of a bulk operation."""

    result: str
    kind: str
    name: str
    target_id: UUID
    id: UUID | None = None
    error_code: str | None = None
    message: str = ""


def revoke_all_access(*, actor: Actor, identity: Identity, reason: str) -> None:
    """Revoke all access of the identity and all access to it. Call this in the transaction of the state change."""
    for model, condition in (
        (Credential, Q(identity=identity)),
        (ToolPermission, Q(agent=identity) | Q(tool=identity)),
        (NhiPermission, Q(source=identity) | Q(target=identity)),
        (UserPermission, Q(nhi=identity)),
        (RoleAssignment, Q(identity=identity)),
    ):
        _revoke_rows(model, condition, actor=actor, reason=reason[:500])


def _revoke_rows(model: Any, condition: Q, *, actor: Actor, reason: str) -> None:
    event = {Credential: "credential.revoked", RoleAssignment: "role.assignment_revoked"}.get(model, "grant.revoked")
    relations = [field.name for field in model._meta.fields if field.is_relation]
    rows = list(model.objects.live().filter(condition).select_related(*relations).select_for_update(of=("self",)))
    model.objects.filter(pk__in=[row.pk for row in rows]).update(
        revoked_at=Now(), revoked_by_id=actor.id, revoked_by_name=actor.name, revoke_reason=reason
    )
    for row in rows:
        events.write(event, actor=actor, subject=row, after={"state": "revoked"}, reason=reason)


def copy_access(*, actor: Actor, source: Identity, target: Identity) -> list[ItemResult]:
    """Give `target` the live grants of `source`, with their limits and expiry, and its roles."""
    actor.require("nhi.add_toolpermission", "give access")
    reason = f"Copied from {source.name}"
    results = [
        *(
            _copy_tool_grant(actor, grant, target, reason)
            for grant in _live_grants(ToolPermission, "tool", agent=source)
        ),
        *(
            _copy_nhi_grant(actor, grant, target, reason)
            for grant in _live_grants(NhiPermission, "target", source=source)
        ),
        *(
            _copy_role_assignment(actor, assignment, target, reason)
            for assignment in _live_grants(RoleAssignment, "role", identity=source)
        ),
    ]
    with transaction.atomic():
        counts = {result: sum(item.result == result for item in results) for result in ("created", "exists", "refused")}
        events.write("access.copied", actor=actor, subject=source, details={"to": target.name, **counts})
    return results


def _live_grants(model: Any, related: str, **filters: Identity) -> Any:
    return model.objects.live().filter(**filters).select_related(related).order_by("created_at")


def _copy_tool_grant(actor: Actor, grant: ToolPermission, target: Identity, reason: str) -> ItemResult:
    return attempt_item(
        "tool", grant.tool.name, grant.tool_id,
        lambda: grants.give_tool(
            actor=actor, agent=target, tool=grant.tool, reason=reason, expires_at=grant.expires_at,
            allowed_parameters=grant.allowed_parameters, max_calls_per_hour=grant.max_calls_per_hour,
            requires_approval=grant.requires_approval,
        ),
    )  # fmt: skip


def _copy_nhi_grant(actor: Actor, grant: NhiPermission, target: Identity, reason: str) -> ItemResult:
    return attempt_item(
        "nhi", grant.target.name, grant.target_id,
        lambda: grants.give_nhi(
            actor=actor, source=target, target=grant.target, permission_type=grant.permission_type, reason=reason,
            expires_at=grant.expires_at, allowed_actions=grant.allowed_actions,
            max_calls_per_hour=grant.max_calls_per_hour,
        ),
    )  # fmt: skip


def _copy_role_assignment(actor: Actor, row: RoleAssignment, target: Identity, reason: str) -> ItemResult:
    return attempt_item(
        "role", row.role.name, row.role_id,
        lambda: roles.assign(actor=actor, role=row.role, identity=target, expires_at=row.expires_at, reason=reason),
    )  # fmt: skip


def attempt_item(
    kind: str, name: str, target_id: UUID, operation: Any, *, success_result: str = "created"
) -> ItemResult:
    """Run the operation for one item, in its own transaction, and return its result."""
    try:
        return ItemResult(success_result, kind, name, target_id, id=operation().pk)
    except RecordUnavailable:
        raise
    except GatehouseError as error:
        result = "exists" if error.code == "duplicate" else "refused"
        message = error.fields[0].message if error.fields else error.message
        return ItemResult(result, kind, name, target_id, error_code=error.code, message=message)


MAX_TOOLS = 100


@dataclass(frozen=True)
class ToolSelector:
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
    selection: ToolSelector,
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


def preview_agent(*, actor: Actor, agent: Identity, selection: ToolSelector) -> BulkGrantPreview:
    """Return what `give_tools` would do now, without doing it."""
    return preview_agents(actor=actor, agents=[agent], selection=selection)[0]


def preview_agents(*, actor: Actor, agents: Sequence[Identity], selection: ToolSelector) -> list[BulkGrantPreview]:
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


def select_tools(actor: Actor, selection: ToolSelector) -> tuple[list[Identity], list[UUID]]:
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
