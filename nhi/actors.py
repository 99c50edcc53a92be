"""The actor of an operation: a person, an identity or Gatehouse itself, with the actor's rights."""

import getpass
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from django.contrib.auth.models import Permission

from common.errors import NotAllowed
from nhi.choices import ActorKind, Kind
from nhi.models.identities import Identity
from nhi.models.people import User

READ_ONLY = "nhi.read_only"


@dataclass(frozen=True)
class Actor:
    """Who performs an operation, with the console rights that apply to it. An actor is not stored."""

    kind: ActorKind
    id: UUID | None
    name: str
    rights: frozenset[str] = frozenset()
    is_superuser: bool = False
    #: The credential of the request; empty for people at the console.
    credential_id: UUID | None = field(default=None, compare=False)
    #: Whether the request may issue and rotate credentials of identities; false for personal tokens that were issued
    #: without this right.
    issues_credentials: bool = field(default=True, compare=False)
    #: The run whose token was sent. It restricts `visible_to` to the run's own rows (decision 0032).
    run_id: UUID | None = None

    def may(self, right: str) -> bool:
        return self.is_superuser or right in self.rights

    def require(self, right: str, action: str) -> None:
        """Raise NotAllowed with a sentence such as "You may not add agents." unless the actor has the right."""
        if not self.may(right):
            raise NotAllowed(f"You may not {action}.", details={"needs": right})

    @property
    def is_person(self) -> bool:
        return self.kind == ActorKind.USER

    def refuse_run(self, action: str) -> None:
        """Raise NotAllowed with a sentence such as "A run's token may not add agents." for run tokens."""
        if self.run_id is not None:
            message = f"A run's token may not {action}: it serves its own run. Use a credential of {self.name}."
            raise NotAllowed(message, details={"reason": "run_token"})

    @property
    def by_personal_token(self) -> bool:
        """Whether a person uses a personal token instead of a console session."""
        return self.is_person and self.credential_id is not None

    @property
    def reads_operator_text(self) -> bool:
        """Whether the actor may see paths, setting names and hosts: people, and automation that reads the log."""
        return self.kind != ActorKind.IDENTITY or self.may("nhi.view_invocationlog")

    @property
    def only_reads(self) -> bool:
        """Whether the actor is an auditor, who reads everything and changes nothing regardless of other rights."""
        return not self.is_superuser and READ_ONLY in self.rights


SYSTEM = Actor(ActorKind.SYSTEM, None, "Gatehouse", is_superuser=True)
ANONYMOUS = Actor(ActorKind.ANONYMOUS, None, "unknown")


def terminal() -> Actor:
    """Return the actor of a management command, with all rights and the name of the operating system's user."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = f"uid {os.getuid()}"
    return Actor(ActorKind.SYSTEM, None, f"{name} at the terminal", is_superuser=True)


def person(user: User, *, credential_id: UUID | None = None, issues_credentials: bool = True) -> Actor:
    rights = _limit_auditor_rights(user.get_all_permissions()) if not user.is_superuser else frozenset()
    return Actor(ActorKind.USER, user.pk, user.username, rights, user.is_superuser, credential_id, issues_credentials)


def identity(
    row: Identity, *, credential_id: UUID | None = None, is_narrowed: bool = False, run_id: UUID | None = None
) -> Actor:
    """Return an identity as actor. Only service accounts with an unrestricted token have console roles."""
    rights: frozenset[str] = frozenset()
    if row.kind == Kind.SERVICE_ACCOUNT and not is_narrowed:
        permissions = Permission.objects.filter(group__service_accounts=row).select_related("content_type")
        rights = _limit_auditor_rights(f"{right.content_type.app_label}.{right.codename}" for right in permissions)
    return Actor(ActorKind.IDENTITY, row.pk, row.name, rights, credential_id=credential_id, run_id=run_id)


def _limit_auditor_rights(all_rights: Iterable[str]) -> frozenset[str]:
    """Reduce an auditor's rights to reading, whatever other groups the auditor belongs to."""
    rights = frozenset(all_rights)
    if READ_ONLY not in rights:
        return rights
    reads = {right for right in rights if right.partition(".")[2].startswith("view_")}
    return rights & (reads | {READ_ONLY, "nhi.export_data"})
