"""Gives, renews, changes and revokes the three kinds of grant."""

from datetime import datetime
from typing import Any, TypeVar

from django.db import IntegrityError, transaction
from django.db.models import Model
from django.db.models.functions import Now
from django.utils import timezone

from common.errors import Conflict, Duplicate, InvalidInput
from nhi import hooks
from nhi.actors import Actor
from nhi.audit import events
from nhi.choices import Kind, Level, PermissionType, State
from nhi.models import Identity, NhiPermission, ToolPermission, User, UserPermission
from nhi.models.grants import Grant
from nhi.validation import Problems, is_plain

G = TypeVar("G", bound=Grant)
#: Fields that limit a grant. Each kind of grant has some of them.
LIMIT_FIELDS = ("allowed_parameters", "allowed_actions", "max_calls_per_hour", "requires_approval")
#: Revocation reason of a replaced row, by the event of its replacement.
REPLACEMENT_REASONS = {"grant.renewed": "Renewed", "grant.changed": "Limits changed"}
#: Fields that identify the two sides of a grant. At most one row per pair is not revoked.
PAIR_FIELDS: dict[str, tuple[str, ...]] = {
    "toolpermission": ("agent", "tool"),
    "nhipermission": ("source", "target", "permission_type"),
    "userpermission": ("nhi", "user"),
    "roleassignment": ("role", "identity"),
}


class AlreadyRevoked(Conflict):
    """The grant or role assignment was revoked before, or is no longer live and cannot be changed."""

    code = "already_revoked"


def give_tool(
    *,
    actor: Actor,
    agent: Identity,
    tool: Identity,
    reason: str,
    expires_at: datetime | None = None,
    allowed_parameters: dict[str, Any] | None = None,
    max_calls_per_hour: int | None = None,
    requires_approval: bool = False,
) -> ToolPermission:
    """Let an agent call a tool."""
    actor.require("nhi.add_toolpermission", "give agents access to tools")
    problems = Problems()
    _check_kind(problems, "agent_id", agent, Kind.AGENT)
    _check_kind(problems, "tool_id", tool, Kind.TOOL)
    _check_common(problems, reason, expires_at, max_calls_per_hour)
    _check_arguments(problems, tool, allowed_parameters)
    problems.raise_if_any()
    grant = ToolPermission(
        agent=agent,
        tool=tool,
        # An empty schema limits nothing, so it is stored as no limit.
        allowed_parameters=allowed_parameters or None,
        max_calls_per_hour=max_calls_per_hour,
        requires_approval=requires_approval,
    )
    return _give_grant(grant, actor, reason, expires_at, pair={"agent": agent, "tool": tool})


def give_nhi(
    *,
    actor: Actor,
    source: Identity,
    target: Identity,
    permission_type: str,
    reason: str,
    expires_at: datetime | None = None,
    allowed_actions: list[str] | None = None,
    max_calls_per_hour: int | None = None,
) -> NhiPermission:
    """Let an identity call another, or delegate to it."""
    actor.require("nhi.add_nhipermission", "give identities access to each other")
    problems = Problems()
    problems.unless(permission_type in PermissionType.values, "permission_type", "Choose call or delegate.")
    _check_kind(problems, "source_id", source, Kind.AGENT, Kind.SERVICE_ACCOUNT)
    _check_kind(problems, "target_id", target, Kind.AGENT, Kind.SERVICE_ACCOUNT)
    problems.unless(source.pk != target.pk, "target_id", "An identity needs no grant to itself.")
    _check_actions(problems, allowed_actions)
    _check_common(problems, reason, expires_at, max_calls_per_hour)
    problems.raise_if_any()
    grant = NhiPermission(
        source=source,
        target=target,
        permission_type=permission_type,
        allowed_actions=allowed_actions,
        max_calls_per_hour=max_calls_per_hour,
    )
    pair = {"source": source, "target": target, "permission_type": permission_type}
    return _give_grant(grant, actor, reason, expires_at, pair=pair)


def give_user(
    *, actor: Actor, nhi: Identity, user: User, level: str, reason: str, expires_at: datetime | None = None
) -> UserPermission:
    """Let a person use, manage or administer an identity."""
    actor.require("nhi.add_userpermission", "give people access to identities")
    problems = Problems()
    problems.unless(level in Level.values, "level", "Choose use, manage or admin.")
    problems.unless(user.is_active, "user_id", f"{user.username} is deactivated.")
    check_usable(problems, "nhi_id", nhi)
    _check_common(problems, reason, expires_at, None)
    problems.raise_if_any()
    grant = UserPermission(nhi=nhi, user=user, level=level)
    return _give_grant(grant, actor, reason, expires_at, pair={"nhi": nhi, "user": user})


def revoke(*, actor: Actor, grant: G, reason: str) -> G:
    """Revoke a grant. Calls that arrive after the response are refused."""
    name = grant._meta.model_name
    actor.require(f"nhi.revoke_{name}", "revoke this grant")
    return close(actor=actor, grant=grant, reason=reason, event="grant.revoked")


def renew(*, actor: Actor, grant: G, expires_at: datetime | None, reason: str) -> G:
    """Replace a grant by a row with the same terms and another expiry. The old row is closed in the transaction."""
    _require_right_to_replace(actor, grant)
    problems = Problems()
    _check_common(problems, reason, expires_at, None)
    if isinstance(grant, ToolPermission):
        # Check the limit again: the grant may be older than this check, or the tool may have changed since.
        _check_arguments(problems, grant.tool, grant.allowed_parameters)
    problems.raise_if_any()
    replacement = _copy_terms(grant)
    replacement.expires_at = expires_at
    return _replace_grant(actor, grant, replacement, reason, "grant.renewed")


def change_limits(*, actor: Actor, grant: G, limits: dict[str, Any], reason: str) -> G:
    """Replace a grant by a row with other limits and the same expiry.

    Calls that arrive after the response are checked against the new limits.
    """
    _require_right_to_replace(actor, grant)
    problems = Problems()
    for name in limits.keys() - _limit_fields_of(grant):
        problems.add(name, "This kind of grant has no such limit.")
    if isinstance(grant, ToolPermission):
        limits = {"allowed_parameters": grant.allowed_parameters, **limits}
        limits["allowed_parameters"] = limits["allowed_parameters"] or None
        _check_arguments(problems, grant.tool, limits["allowed_parameters"])
    _check_actions(problems, limits.get("allowed_actions"))
    _check_common(problems, reason, grant.expires_at, limits.get("max_calls_per_hour"))
    problems.raise_if_any()
    replacement = _copy_terms(grant)
    replacement.expires_at = grant.expires_at
    for name, value in limits.items():
        setattr(replacement, name, value)
    return _replace_grant(actor, grant, replacement, reason, "grant.changed")


def _replace_grant(actor: Actor, grant: G, replacement: G, reason: str, event: str) -> G:
    pair = {field: getattr(grant, field) for field in PAIR_FIELDS[str(grant._meta.model_name)]}
    user = pair.get("user")
    if user is not None and not user.is_active:
        raise InvalidInput.for_field("user_id", f"{user} is deactivated.")
    replacement.reason = reason
    replacement.granted_by_id, replacement.granted_by_name = actor.id, actor.name
    after = {**audit_fields(replacement), "replaces": str(grant.pk)}
    return open_grant(grant=replacement, actor=actor, pair=pair, event=event, after=after, replaces=grant)


def _require_right_to_replace(actor: Actor, grant: Grant) -> None:
    for right in ("add", "revoke"):
        actor.require(f"nhi.{right}_{grant._meta.model_name}", "change this grant")


def _limit_fields_of(grant: Grant) -> set[str]:
    return {name for name in LIMIT_FIELDS if hasattr(grant, name)}


def close(*, actor: Actor, grant: G, reason: str, event: str) -> G:
    problems = Problems()
    problems.check_reason(reason)
    problems.raise_if_any()
    with transaction.atomic():
        closed = _close_row(grant, actor, reason)
        events.write(
            event, actor=actor, subject=closed, before={"state": grant.state}, after={"state": "revoked"}, reason=reason
        )
    return closed


def _close_row(grant: G, actor: Actor, reason: str) -> G:
    """Close the row by compare-and-swap: of two concurrent requests, the second gets `AlreadyRevoked`."""
    rows = _manager_of(grant).filter(pk=grant.pk)
    values = {"revoked_by_id": actor.id, "revoked_by_name": actor.name, "revoke_reason": reason}
    closed = rows.filter(revoked_at=None).update(revoked_at=Now(), **values)
    row: G = rows.get()
    if not closed:
        # The message tells the actor if the grant was renewed instead of revoked.
        message = f"{grant} was closed before by {row.revoked_by_name}: “{row.revoke_reason}”."
        raise AlreadyRevoked(f"{message} Nothing was changed.")
    return row


def open_grant(
    *, grant: G, actor: Actor, pair: dict[str, Any], event: str, after: dict[str, Any], replaces: G | None = None
) -> G:
    """Insert the grant. First close an expired row of the same pair; refuse if a live one exists."""
    before = audit_fields(replaces) if replaces else None
    try:
        with transaction.atomic():
            # Lock the identities of the pair before the replaced row: archiving locks them in this order.
            _check_still_usable(pair)
            if replaces is not None:
                _close_row(replaces, actor, f"{REPLACEMENT_REASONS[event]}: {grant.reason}"[:500])
            _close_expired(grant, actor, pair)
            grant.save(force_insert=True)
            events.write(event, actor=actor, subject=grant, before=before, after=after, reason=grant.reason)
            if replaces is not None:
                hooks.notify_grant_replaced(replaces.pk, grant.pk)
    except IntegrityError as error:
        raise Duplicate(f"{grant} is given already and has not ended. Revoke it first.") from error
    return grant


def _give_grant(grant: G, actor: Actor, reason: str, expires_at: datetime | None, *, pair: dict[str, Any]) -> G:
    grant.reason, grant.expires_at = reason, expires_at
    grant.granted_by_id, grant.granted_by_name = actor.id, actor.name
    return open_grant(grant=grant, actor=actor, pair=pair, event="grant.given", after=audit_fields(grant))


def _copy_terms(grant: G) -> G:
    """Return an unsaved copy with the columns specific to its kind, without creator, reason and times."""
    shared = {field.attname for field in Grant._meta.concrete_fields}
    own = [name for field in grant._meta.concrete_fields if (name := field.attname) not in shared | {"limits_nothing"}]
    return type(grant)(**{name: getattr(grant, name) for name in own})


def audit_fields(grant: Model) -> dict[str, Any]:
    """Return the terms of a grant as audit events show them."""
    fields = {
        name: getattr(grant, name) for name in ("permission_type", "level", *LIMIT_FIELDS) if hasattr(grant, name)
    }
    expires_at: datetime | None = getattr(grant, "expires_at", None)
    return {**fields, "expires_at": expires_at.isoformat() if expires_at else None}


def _check_still_usable(pair: dict[str, Any]) -> None:
    """Lock the identities and check that they are usable.

    The lock conflicts with the one that archiving takes. An archive that runs later therefore revokes this grant too.
    """
    fields = {side.pk: f"{name}_id" for name, side in pair.items() if isinstance(side, Identity)}
    problems = Problems()
    for identity in Identity.objects.filter(pk__in=fields).order_by("pk").select_for_update(no_key=True):
        check_usable(problems, fields[identity.pk], identity)
    problems.raise_if_any()


def _close_expired(grant: Grant, actor: Actor, pair: dict[str, Any]) -> None:
    expired = _manager_of(grant).filter(**pair, revoked_at=None, expires_at__lte=Now())
    for row in expired.select_for_update(of=("self",)):
        _manager_of(grant).filter(pk=row.pk).update(
            revoked_at=Now(), revoked_by_id=actor.id, revoked_by_name=actor.name, revoke_reason="Ended"
        )
        events.write("grant.expired", actor=actor, subject=row, before={"state": "expired"})


def _manager_of(grant: G) -> Any:
    return type(grant)._default_manager


def _check_kind(problems: Problems, field: str, identity: Identity, *kinds: Kind) -> None:
    kind_labels = " or ".join(kind.label.lower() for kind in kinds)
    problems.unless(identity.kind in kinds, field, f"{identity.name} is not of the kind {kind_labels}.")
    check_usable(problems, field, identity)


def check_usable(problems: Problems, field: str, identity: Identity) -> None:
    problems.unless(
        identity.state == State.ACTIVE,
        field,
        f"{identity.name} is {State(identity.state).label.lower()}; activate it first.",
    )
    if identity.expires_at is not None:
        has_expired = identity.expires_at <= timezone.now()
        problems.unless(not has_expired, field, f"{identity.name} has expired.")


def _check_common(problems: Problems, reason: str, expires_at: datetime | None, per_hour: int | None) -> None:
    problems.check_reason(reason)
    problems.check_future("expires_at", expires_at)
    problems.check_positive("max_calls_per_hour", per_hour)


def _check_arguments(problems: Problems, tool: Identity, limit: dict[str, Any] | None) -> None:
    """Check the limit against the tool's schemas. A tool without a definition may take any arguments."""
    if limit != {}:
        problems.check_argument_limit("allowed_parameters", limit, hooks.load_argument_schemas(tool.pk), tool=tool.name)


def _check_actions(problems: Problems, actions: list[str] | None) -> None:
    if actions is None:
        return
    problems.unless(len(actions) <= 100, "allowed_actions", "Name at most 100 actions.")
    is_valid = all(isinstance(action, str) and 1 <= len(action) <= 200 and is_plain(action) for action in actions)
    problems.unless(is_valid, "allowed_actions", "Each action is a name or a glob of 1 to 200 visible characters.")
