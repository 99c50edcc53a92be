"""Finds the people and identities that led to a run or a task, over all hops.

Runs and tasks record their origin: a person, an identity, a schedule, a session or a parent. The rows are never
removed, so the trace stays complete, and it includes people who joined a session or changed a schedule later. The chain
of a token does not include them: it is written when the run starts.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from nhi import hooks
from nhi.choices import OriginRole
from nhi.hooks import WorkIds
from nhi.models import Credential, Identity, User


@dataclass(frozen=True)
class OriginTrace:
    """Who is behind some work: people with their first role, identities, and the runs and tasks on the way."""

    people: Mapping[UUID, OriginRole]
    members: frozenset[UUID]
    work: WorkIds


def trace_origins(*, work: WorkIds, parties: Collection[UUID]) -> OriginTrace:
    """Return all people and identities that led to the work, with the people who handle those identities."""
    roles, traced_work = _follow_work(work)
    roles = {**dict.fromkeys(parties, OriginRole.MEMBER), **roles}
    members, handlers = _expand_credential_makers(roles)
    user_ids = User.objects.filter(pk__in=roles.keys() - members).values_list("pk", flat=True)
    people = {person: roles[person] for person in user_ids}
    return OriginTrace({**handlers, **people}, members, traced_work)


def _expand_credential_makers(candidates: Collection[UUID]) -> tuple[frozenset[UUID], dict[UUID, OriginRole]]:
    """Return the identities among the candidates and their handlers.

    A service account that created a credential becomes a member, too.
    """
    members, handlers = frozenset[UUID](), dict[UUID, OriginRole]()
    pending = _identity_ids(candidates)
    while pending:
        members |= pending
        handler_roles = find_handlers(pending)
        makers = _identity_ids(handler_roles)
        handlers = {**{person: role for person, role in handler_roles.items() if person not in makers}, **handlers}
        pending = makers - members
    return members, handlers


def _identity_ids(candidates: Collection[UUID]) -> frozenset[UUID]:
    return frozenset(Identity.objects.filter(pk__in=candidates).values_list("pk", flat=True))


def find_handlers(identities: Collection[UUID]) -> dict[UUID, OriginRole]:
    """Return the owners, the backup owners and the creators of credentials of these identities."""
    credentials = Credential.objects.filter(identity_id__in=identities, created_by_id__isnull=False)
    roles = dict.fromkeys(
        credentials.values_list("created_by_id", flat=True).distinct().order_by(), OriginRole.CREDENTIAL
    )
    owners = Identity.objects.filter(pk__in=identities).values_list("owner_id", "backup_owner_id")
    for owner, backup in owners:
        roles |= {backup: OriginRole.BACKUP_OWNER, owner: OriginRole.OWNER}
    return {person: role for person, role in roles.items() if person is not None}


def _follow_work(work: WorkIds) -> tuple[dict[UUID, OriginRole], WorkIds]:
    """Load the origins with one round of queries per hop. No work is loaded twice, so the loop terminates."""
    roles, followed, pending = dict[UUID, OriginRole](), WorkIds(), work
    while pending:
        origins = hooks.load_work_origins(pending)
        roles = {**origins.parties, **roles}
        followed |= pending
        pending = origins.work - followed
    return roles, followed
