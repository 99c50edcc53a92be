"""Who plays in the tests of the domain: people, agents, tools, made by the verbs themselves."""

from datetime import datetime, timedelta
from typing import Any

from common.db import clock
from nhi import actors
from nhi.access import grants
from nhi.actors import SYSTEM, Actor
from nhi.choices import Kind
from nhi.identities import identities
from nhi.models import AuditEvent, Identity, NhiPermission, ToolPermission, User, UserPermission
from nhi.people import people


def user(name: str, *roles: str) -> User:
    return User.objects.filter(username=name).first() or people.create(actor=SYSTEM, username=name, roles=roles).user


def acting(name: str, *roles: str) -> Actor:
    return actors.person(user(name, *roles))


def admin(name: str = "mara") -> Actor:
    return acting(name, "security-admin")


def agent(name: str = "bot", **described: Any) -> Identity:
    return _identity(Kind.AGENT, name, **described)


def service(name: str = "nightly", **described: Any) -> Identity:
    return _identity(Kind.SERVICE_ACCOUNT, name, **described)


def tool(name: str = "github__read", **described: Any) -> Identity:
    return _identity(Kind.TOOL, name, **described)


def _identity(kind: Kind, name: str, **described: Any) -> Identity:
    owner = described.pop("owner", None) or user("olga", "operator")
    return identities.create(actor=SYSTEM, kind=kind, name=name, owner=owner, **described)


def tool_grant(of: Identity, on: Identity, **limits: Any) -> ToolPermission:
    return grants.give_tool(actor=SYSTEM, agent=of, tool=on, reason="For the test", **limits)


def nhi_grant(of: Identity, on: Identity, permission_type: str = "call", **limits: Any) -> NhiPermission:
    return grants.give_nhi(
        actor=SYSTEM, source=of, target=on, permission_type=permission_type, reason="For the test", **limits
    )


def user_grant(on: Identity, to: User, level: str = "use", **limits: Any) -> UserPermission:
    return grants.give_user(actor=SYSTEM, nhi=on, user=to, level=level, reason="For the test", **limits)


def past(**ago: float) -> datetime:
    return clock.database_now() - timedelta(**ago)


def future(**ahead: float) -> datetime:
    return clock.database_now() + timedelta(**ahead)


def events(subject: Any = None, **wanted: Any) -> list[str]:
    """The codes of what was recorded, the oldest first."""
    rows = AuditEvent.objects.filter(**wanted)
    rows = rows.filter(subject_id=subject.pk) if subject is not None else rows
    return list(rows.order_by("at", "writer_seq").values_list("event", flat=True))
