"""Registers identities and changes their descriptions. `nhi.identities.lifecycle` changes their state."""

import re
from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

from common.errors import Duplicate, FieldError, InvalidInput, NotAllowed
from nhi import hooks
from nhi.access import rights
from nhi.actors import Actor
from nhi.audit import events
from nhi.choices import Kind
from nhi.credentials import credentials
from nhi.decisions.capabilities import SEGMENT_PATTERN
from nhi.identities import lifecycle
from nhi.models import Identity, User
from nhi.validation import SLUG_PATTERN, TOOL_NAME_PATTERN, Problems

#: Fields that a PATCH may change. Audit events show them before and after.
DESCRIPTIVE_FIELDS = (
    "description", "purpose", "environment", "team", "tags", "owner", "backup_owner", "expires_at",
    "inactivity_days", "discoverable", "capability",
)  # fmt: skip
MAX_LENGTHS = {"description": 1000, "purpose": 1000, "environment": 100, "team": 100}


def create(*, actor: Actor, kind: Kind, name: str, owner: User, activate: bool = True, **fields: Any) -> Identity:
    """Register an identity, active by default."""
    actor.require("nhi.add_identity", "add identities")
    identity = Identity(kind=kind, name=name, owner=owner, created_by_id=actor.id, created_by_name=actor.name)
    lifecycle.set_initial_state(identity, active=activate, actor=actor)
    _apply_description(identity, fields)
    if kind == Kind.TOOL and not identity.capability:
        identity.capability = default_capability(name)
    _check_identity(identity, set(fields) | {"owner"}, naming=True)
    try:
        with transaction.atomic():
            identity.save(force_insert=True)
            events.write("identity.created", actor=actor, subject=identity, after=_creation_audit_fields(identity))
    except IntegrityError as error:
        message = (
            f"There is already {kind.label.lower()} {name}."
            if kind != Kind.AGENT
            else f"There is already an agent {name}."
        )
        raise Duplicate(message, fields=[FieldError("name", "This name is taken for this kind.")]) from error
    return identity


def change(*, actor: Actor, identity: Identity, **fields: Any) -> Identity:
    """Change the description of an identity. Only fields that differ are written and recorded."""
    rights.require_to_edit(actor, identity)
    with transaction.atomic():
        current = (
            Identity.objects.select_for_update(of=("self",)).select_related("owner", "backup_owner").get(pk=identity.pk)
        )
        before, old_expires_at = audit_fields(current), current.expires_at
        _apply_description(current, fields)
        if current.capability != before["capability"]:
            # Roles match the capability: changing it can give other agents access to the tool.
            actor.require("nhi.change_identity", "change what roles match this tool by")
        _require_right_to_hand_over(actor, before, old_expires_at, current)
        _check_identity(current, set(fields))
        after = audit_fields(current)
        changed = [name for name in before if before[name] != after[name]]
        if changed:
            current.save(update_fields=[*(name for name in DESCRIPTIVE_FIELDS if name in fields), "updated_at"])
            events.write(
                "identity.changed",
                actor=actor,
                subject=current,
                before={name: before[name] for name in changed},
                after={name: after[name] for name in changed},
            )
            hooks.notify_identity_changed(current, frozenset(changed), actor)
    return current


def set_console_roles(*, actor: Actor, identity: Identity, roles: list[str]) -> None:
    """Give a service account the rights of these console roles in the API.

    Its live credentials are revoked: their holders must not get rights that the account did not have at issue.
    """
    actor.require("nhi.change_user", "give console roles")
    if identity.kind != Kind.SERVICE_ACCOUNT:
        raise InvalidInput.for_field("identity", "Only service accounts may hold console roles.")
    groups = list(Group.objects.filter(name__in=roles))
    if len(groups) != len(set(roles)):
        raise InvalidInput.for_field("roles", "One of these console roles does not exist.")
    with transaction.atomic():
        Identity.objects.select_for_update(of=("self",)).get(pk=identity.pk)
        before = sorted(identity.console_roles.values_list("name", flat=True))
        if before == sorted(set(roles)):
            return
        rights.require_to_change_roles(actor, frozenset(before), frozenset(roles))
        identity.console_roles.set(groups)
        credentials.revoke_all(actor=actor, holder=identity, reason="Its console roles changed")
        events.write(
            "identity.console_roles_changed",
            actor=actor,
            subject=identity,
            before={"roles": before},
            after={"roles": sorted(roles)},
        )


def _require_right_to_hand_over(
    actor: Actor, before: dict[str, Any], old_expires_at: datetime | None, current: Identity
) -> None:
    """Refuse changes of owner and end that the right to edit the identity does not include."""
    if actor.may("nhi.change_identity"):
        return
    after, owners = audit_fields(current), {before["owner"], before["backup_owner"]}
    changes_owner = any(before[side] != after[side] for side in ("owner", "backup_owner"))
    if changes_owner and actor.name not in owners:
        raise NotAllowed(f"Only an owner of {current.name} or a security admin hands it over.")
    if old_expires_at is not None and (current.expires_at is None or current.expires_at > old_expires_at):
        raise NotAllowed(f"You may bring the end of {current.name} forward; a security admin moves it back.")


def default_capability(tool_name: str) -> str:
    """Return the capability for a tool name: `github.commits.list` for `github__Commits/List`."""
    server, _, tool = tool_name.partition("__")
    path = re.sub(r"[/:]", ".", tool.lower())
    segments = [re.sub(r"[^a-z0-9_-]", "-", segment) for segment in path.split(".") if segment]
    return ".".join([server, *(segments or ["tool"])])


def audit_fields(identity: Identity) -> dict[str, Any]:
    """Return the description of an identity as audit events show it."""
    return {
        "description": identity.description,
        "purpose": identity.purpose,
        "environment": identity.environment,
        "team": identity.team,
        "tags": list(identity.tags),
        "owner": identity.owner.username,
        "backup_owner": identity.backup_owner.username if identity.backup_owner else None,
        "expires_at": _iso(identity.expires_at),
        "inactivity_days": identity.inactivity_days,
        "discoverable": identity.discoverable,
        "capability": identity.capability,
    }


def _creation_audit_fields(identity: Identity) -> dict[str, Any]:
    return {"kind": identity.kind, "state": identity.state, **audit_fields(identity)}


def _apply_description(identity: Identity, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if name not in DESCRIPTIVE_FIELDS:
            raise TypeError(f"{name} does not describe an identity")
        setattr(identity, name, value)


def _check_identity(identity: Identity, field_names: set[str], *, naming: bool = False) -> None:
    problems = Problems()
    if naming:
        _check_name(problems, identity)
    for field, max_length in MAX_LENGTHS.items():
        problems.check_line(field, getattr(identity, field), max_length=max_length)
    _check_owners(problems, identity, field_names)
    _check_tags(problems, identity.tags)
    if "expires_at" in field_names:
        problems.check_future("expires_at", identity.expires_at)
    days = identity.inactivity_days
    problems.unless(1 <= days <= 3650, "inactivity_days", "Use a whole number of days from 1 to 3650.")
    _check_capability(problems, identity)
    problems.raise_if_any()


def _check_name(problems: Problems, identity: Identity) -> None:
    if identity.kind == Kind.TOOL:
        match = TOOL_NAME_PATTERN.fullmatch(identity.name)
        problems.unless(
            match, "name", "A tool's name is <server>__<tool>, the server in lower case, digits and hyphens."
        )
    else:
        match = SLUG_PATTERN.fullmatch(identity.name)
        problems.unless(
            match,
            "name",
            "Use 1 to 63 lower-case letters, digits, dots, underscores and hyphens, beginning with a letter or digit.",
        )


def _check_owners(problems: Problems, identity: Identity, field_names: set[str]) -> None:
    differs = identity.backup_owner_id is None or identity.backup_owner_id != identity.owner_id
    problems.unless(differs, "backup_owner_id", "The backup owner is another person than the owner.")
    for field, person in (("owner", identity.owner), ("backup_owner", identity.backup_owner)):
        if field in field_names and person is not None:
            problems.unless(
                person.is_active, f"{field}_id", f"{person.username} is deactivated; choose someone who is here."
            )


def _check_tags(problems: Problems, tags: list[str]) -> None:
    problems.unless(len(tags) <= 20, "tags", "Use at most 20 tags.")
    is_valid = all(re.fullmatch(r"[a-z0-9][a-z0-9._:-]{0,49}", tag) for tag in tags)
    problems.unless(
        is_valid, "tags", "A tag is 1 to 50 lower-case letters, digits, dots, underscores, colons and hyphens."
    )
    problems.unless(len(set(tags)) == len(tags), "tags", "A tag stands twice.")


def _check_capability(problems: Problems, identity: Identity) -> None:
    capability = identity.capability
    if identity.kind != Kind.TOOL:
        problems.unless(capability is None, "capability", "Only tools have a capability.")
        return
    segments = (capability or "").split(".")
    is_valid = len(segments) >= 2 and all(SEGMENT_PATTERN.fullmatch(segment) for segment in segments)
    problems.unless(
        is_valid and len(capability or "") <= 200,
        "capability",
        "A capability is <server>.<verb>, segments of a-z, 0-9, _ and - joined by dots.",
    )


def _iso(value: datetime | None) -> str | None:
    return value.isoformat() if value else None
