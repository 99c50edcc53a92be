"""Who stands behind a piece of work: everybody who led to a run or a task, over all hops.

A run and a task name what they came from: the person or the identity that asked, the schedule, the session, the parent.
The rows are never removed, so following them gives the same answer whenever it is asked, and includes who spoke in a
session or changed a schedule since. The chain of a token does not: it was written when the run began.
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
    """People with their first role, member identities, and the work that was passed on the way."""

    people: Mapping[UUID, OriginRole]
    members: frozenset[UUID]
    work: WorkIds


def trace_origins(*, work: WorkIds, parties: Collection[UUID]) -> OriginTrace:
    """Everybody behind this work and these parties, with the people who handle the identities among them."""
    roles, seen = _follow_work(work)
    roles = {**dict.fromkeys(parties, OriginRole.MEMBER), **roles}
    members, handling = _expand_credential_makers(roles)
    asking = User.objects.filter(pk__in=roles.keys() - members).values_list("pk", flat=True)
    people = {person: roles[person] for person in asking}
    return OriginTrace({**handling, **people}, members, seen)


def _expand_credential_makers(candidates: Collection[UUID]) -> tuple[frozenset[UUID], dict[UUID, OriginRole]]:
    """The identities among these and who handles them. A service account that made a credential is one of them."""
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
    """Who owns these identities, stands in for an owner, or made one of their credentials."""
    made = Credential.objects.filter(identity_id__in=identities, created_by_id__isnull=False)
    roles = dict.fromkeys(made.values_list("created_by_id", flat=True).distinct().order_by(), OriginRole.CREDENTIAL)
    owners = Identity.objects.filter(pk__in=identities).values_list("owner_id", "backup_owner_id")
    for owner, backup in owners:
        roles |= {backup: OriginRole.BACKUP_OWNER, owner: OriginRole.OWNER}
    return {person: role for person, role in roles.items() if person is not None}


def _follow_work(work: WorkIds) -> tuple[dict[UUID, OriginRole], WorkIds]:
    """One round of queries for each hop. Work that was seen is not asked for again, so this ends."""
    roles, seen, ahead = dict[UUID, OriginRole](), WorkIds(), work
    while ahead:
        origins = hooks.load_work_origins(ahead)
        roles = {**origins.parties, **roles}
        seen |= ahead
        ahead = origins.work - seen
    return roles, seen
