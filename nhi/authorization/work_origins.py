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
    """People with their first role, member identities, and the runs and tasks on the way."""

    people: Mapping[UUID, OriginRole]
    members: frozenset[UUID]
    work: WorkIds


def trace_origins(*, work: WorkIds, parties: Collection[UUID]) -> OriginTrace:
    """Return all people and identities that led to the work, with the people who handle those identities."""
    roles, seen = _follow_work(work)
    roles = {**dict.fromkeys(parties, OriginRole.MEMBER), **roles}
    members, handling = _expand_credential_makers(roles)
    asking = User.objects.filter(pk__in=roles.keys() - members).values_list("pk", flat=True)
    people = {person: roles[person] for person in asking}
    return OriginTrace({**handling, **people}, members, seen)


def _expand_credential_makers(candidates: Collection[UUID]) -> tuple[frozenset[UUID], dict[UUID, OriginRole]]:
    """Return the identities among the candidates and their handlers.

    A service account that created a credential becomes a member, too.
    """
    members, handling = frozenset[UUID](), dict[UUID, OriginRole]()
    ahead = _identity_ids(candidates)
    while ahead:
        members |= ahead
        found = find_handlers(ahead)
        makers = _identity_ids(found)
        handling = {**{person: role for person, role in found.items() if person not in makers}, **handling}
        ahead = makers - members
    return members, handling


def _identity_ids(candidates: Collection[UUID]) -> frozenset[UUID]:
    return frozenset(Identity.objects.filter(pk__in=candidates).values_list("pk", flat=True))


def find_handlers(identities: Collection[UUID]) -> dict[UUID, OriginRole]:
    """Return the owners, the backup owners and the creators of credentials of these identities."""
    made = Credential.objects.filter(identity_id__in=identities, created_by_id__isnull=False)
    roles = dict.fromkeys(made.values_list("created_by_id", flat=True).distinct().order_by(), OriginRole.CREDENTIAL)
    owners = Identity.objects.filter(pk__in=identities).values_list("owner_id", "backup_owner_id")
    for owner, backup in owners:
        roles |= {backup: OriginRole.BACKUP_OWNER, owner: OriginRole.OWNER}
    return {person: role for person, role in roles.items() if person is not None}


def _follow_work(work: WorkIds) -> tuple[dict[UUID, OriginRole], WorkIds]:
    """Load the origins with one round of queries per hop. No work is loaded twice, so the loop terminates."""
    roles, seen, ahead = dict[UUID, OriginRole](), WorkIds(), work
    while ahead:
        origins = hooks.load_work_origins(ahead)
        roles = {**origins.parties, **roles}
        seen |= ahead
        ahead = origins.work - seen
    return roles, seen
