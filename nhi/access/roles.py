"""Creates and changes roles, approves wildcards, assigns roles to identities."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import Permission
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from common.errors import Conflict, Duplicate, FieldError, NotAllowed
from nhi.access import grants
from nhi.actors import Actor
from nhi.audit import events
from nhi.choices import ActorKind, Kind, State
from nhi.decisions import capabilities
from nhi.models import Identity, Role, RoleAssignment, RoleCapability, User
from nhi.models.identities import IdentityQuerySet
from nhi.validation import SLUG_PATTERN, Problems


class AlreadyApproved(Conflict):
    """The wildcard does not wait for approval: it was approved or removed before."""

    code = "already_approved"


class ApproverIsRequester(NotAllowed):
    """The approval needs a second person, and this one made the request."""

    code = "own_request"


@dataclass(frozen=True)
class PatternChangeEffect:
    """The effect of a change of patterns: numbers of tools gained and lost, and of identities affected."""

    added: int
    removed: int
    identities: int


def create(*, actor: Actor, name: str, patterns: Iterable[str] = (), description: str = "") -> Role:
    actor.require("nhi.add_role", "add roles")
    unique_patterns = list(dict.fromkeys(patterns))
    problems = Problems()
    problems.unless(
        SLUG_PATTERN.fullmatch(name), "name", "Use 1 to 63 lower-case letters, digits, dots, underscores and hyphens."
    )
    problems.check_line("description", description, max_length=1000)
    _check_patterns(problems, unique_patterns)
    problems.raise_if_any()
    _require_person_for_wildcard(actor, unique_patterns)
    role = Role(name=name, description=description, created_by_id=actor.id, created_by_name=actor.name)
    try:
        with transaction.atomic():
            role.save(force_insert=True)
            for pattern in unique_patterns:
                _add_capability(role, pattern, actor)
            events.write("role.created", actor=actor, subject=role, after={"capabilities": unique_patterns})
    except IntegrityError as error:
        raise Duplicate(
            f"There is already a role {name}.", fields=[FieldError("name", "This name is taken.")]
        ) from error
    return role


def change(*, actor: Actor, role: Role, patterns: Iterable[str] | None = None, description: str | None = None) -> Role:
    """Change patterns and description. Unchanged patterns stay approved; a new `*.*` waits for a second admin."""
    actor.require("nhi.change_role", "change roles")
    problems = Problems()
    new_patterns = None if patterns is None else list(dict.fromkeys(patterns))
    _check_patterns(problems, new_patterns or [])
    problems.check_line("description", description or "", max_length=1000)
    problems.raise_if_any()
    with transaction.atomic():
        locked = Role.objects.select_for_update().get(pk=role.pk)
        before: dict[str, Any] = {}
        after: dict[str, Any] = {}
        if description is not None and description != locked.description:
            before["description"], after["description"] = locked.description, description
            locked.description = description
            locked.save(update_fields=["description"])
        if new_patterns is not None and (old_patterns := _swap_patterns(locked, new_patterns, actor)) != sorted(
            new_patterns
        ):
            _require_person_for_wildcard(actor, set(new_patterns) - set(old_patterns))
            before["capabilities"], after["capabilities"] = old_patterns, sorted(new_patterns)
        if after:
            events.write("role.changed", actor=actor, subject=locked, before=before, after=after)
    return locked


def approve_capability(*, actor: Actor, capability: RoleCapability, reason: str) -> RoleCapability:
    """Approve a `*.*` pattern. The person who added it may not approve it."""
    actor.require("nhi.change_role", "approve wildcards")
    problems = Problems()
    problems.check_reason(reason)
    problems.raise_if_any()
    if not actor.is_person:
        raise NotAllowed("Only people approve wildcards.")
    if actor.id == capability.added_by_id:
        raise ApproverIsRequester("You added this wildcard, so someone else must approve it.")
    with transaction.atomic():
        waiting = RoleCapability.objects.current().filter(pk=capability.pk, approved_at=None)
        if not waiting.update(approved_at=Now(), approved_by_name=actor.name):
            raise AlreadyApproved("This wildcard waits for nobody any more. Nothing was changed.")
        approved = RoleCapability.objects.select_related("role").get(pk=capability.pk)
        events.write(
            "role.capability_approved",
            actor=actor,
            subject=approved.role,
            after={"approved": approved.pattern},
            details={"added_by": approved.added_by_name},
            reason=reason,
        )
    return approved


def assign(
    *, actor: Actor, role: Role, identity: Identity, expires_at: datetime | None = None, reason: str = ""
) -> RoleAssignment:
    actor.require("nhi.add_roleassignment", "assign roles")
    problems = Problems()
    takes_roles = identity.kind != Kind.TOOL
    problems.unless(takes_roles, "identity_id", "A tool is called; it holds no roles.")
    grants.check_usable(problems, "identity_id", identity)
    problems.check_future("expires_at", expires_at)
    problems.check_reason(reason, required=False)
    problems.raise_if_any()
    assignment = RoleAssignment(role=role, identity=identity, expires_at=expires_at, reason=reason)
    assignment.granted_by_id, assignment.granted_by_name = actor.id, actor.name
    pair = {"role": role, "identity": identity}
    return grants.open_grant(
        grant=assignment, actor=actor, pair=pair, event="role.assigned", after=grants.audit_fields(assignment)
    )


def unassign(*, actor: Actor, assignment: RoleAssignment, reason: str) -> RoleAssignment:
    actor.require("nhi.revoke_roleassignment", "revoke role assignments")
    return grants.close(actor=actor, grant=assignment, reason=reason, event="role.assignment_revoked")


def preview_patterns(role: Role, patterns: Iterable[str]) -> PatternChangeEffect:
    """Return the effect of setting these patterns.

    A wildcard that waits for approval allows nothing, so neither an existing nor a new one counts.
    """
    old_patterns = list(role.capabilities.effective().values_list("pattern", flat=True))
    new_patterns = [
        pattern for pattern in patterns if pattern in old_patterns or pattern != capabilities.ALL_CAPABILITIES
    ]
    before, after = covered_tools(old_patterns), covered_tools(new_patterns)
    return PatternChangeEffect(
        added=after.exclude(pk__in=before.values("pk")).count(),
        removed=before.exclude(pk__in=after.values("pk")).count(),
        identities=RoleAssignment.objects.live().filter(role=role).values("identity").distinct().count(),
    )


def covered_tools(patterns: Iterable[str]) -> IdentityQuerySet:
    """Return the tools that any of the patterns matches, except archived ones: archiving is final."""
    rows = Identity.objects.filter(kind=Kind.TOOL).exclude(state=State.ARCHIVED)
    match = Q(pk__in=[])
    for pattern in patterns:
        prefix = capabilities.prefix(pattern)
        match |= Q(capability=pattern) if prefix is None else Q(capability__startswith=prefix)
    return rows.filter(match)


def approvers(capability: RoleCapability) -> QuerySet[User]:
    """Return the people who may approve it: all who may change roles, except read-only people and the requester."""
    nhi_permissions = Permission.objects.filter(content_type__app_label="nhi")
    users: QuerySet[User] = User.objects.active().filter(
        Q(is_superuser=True) | _holds_any(nhi_permissions.filter(codename="change_role"))
    )
    users = users.filter(Q(is_superuser=True) | ~_holds_any(nhi_permissions.filter(codename="read_only"))).order_by(
        "username"
    )
    return users.exclude(pk__in=[capability.added_by_id]) if capability.added_by_id else users


def _holds_any(rights: QuerySet[Permission]) -> Q:
    """Return the condition as a subquery, so that a person in two groups appears once."""
    users = User.objects.filter(Q(groups__permissions__in=rights) | Q(user_permissions__in=rights))
    return Q(pk__in=users.values("pk"))


def _require_person_for_wildcard(actor: Actor, added: Iterable[str]) -> None:
    """Only a person adds `*.*`: the person behind a service account could add it and then approve it."""
    if capabilities.ALL_CAPABILITIES in added and actor.kind == ActorKind.IDENTITY:
        raise NotAllowed("Only people add *.* to a role.")


def _swap_patterns(role: Role, new_patterns: list[str], actor: Actor) -> list[str]:
    current = {row.pattern: row for row in role.capabilities.current()}
    removed_ids = [row.pk for pattern, row in current.items() if pattern not in new_patterns]
    RoleCapability.objects.filter(pk__in=removed_ids).update(removed_at=Now(), removed_by_name=actor.name)
    for pattern in new_patterns:
        if pattern not in current:
            _add_capability(role, pattern, actor)
    return sorted(current)


def _add_capability(role: Role, pattern: str, actor: Actor) -> RoleCapability:
    waits = pattern == capabilities.ALL_CAPABILITIES
    return RoleCapability.objects.create(
        role=role,
        pattern=pattern,
        prefix=capabilities.prefix(pattern),
        added_by_id=actor.id,
        added_by_name=actor.name,
        approved_at=None if waits else Now(),
        approved_by_name="" if waits else actor.name,
    )


def _check_patterns(problems: Problems, patterns: list[str]) -> None:
    problems.unless(len(patterns) <= 200, "capabilities", "A role has at most 200 patterns.")
    for pattern in patterns:
        is_valid = capabilities.is_pattern(pattern)
        problems.unless(
            is_valid,
            "capabilities",
            f"{pattern[:80]!r} is no pattern; write github.read, github.commits.*, github.* or *.*.",
        )
