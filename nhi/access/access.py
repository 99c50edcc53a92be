"""Revokes or copies all access of one identity. Every item of a copy has its own result."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from common.errors import GatehouseError, RecordUnavailable
from nhi.access import grants, roles
from nhi.actors import Actor
from nhi.audit import events
from nhi.models import Credential, Identity, NhiPermission, RoleAssignment, ToolPermission, UserPermission


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
