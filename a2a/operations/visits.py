"""Who asks, at which agent's door: the same for every operation, before it looks at what it was given."""

from dataclasses import dataclass
from uuid import UUID

from a2a.models import Task
from a2a.operations import faults
from common.errors import NotAllowed, NotFound
from common.ids import parse_uuid
from nhi import authentication, oauth, tokens
from nhi.actors import Actor
from nhi.choices import Kind
from nhi.models import Identity, NhiPermission
from supervisor.access import Caller


@dataclass(frozen=True)
class Visit:
    caller: Caller
    agent: Identity
    version: str
    idempotency_key: str | None = None

    @property
    def actor(self) -> Actor:
        return self.caller.actor

    @property
    def caller_id(self) -> UUID:
        assert self.actor.id is not None  # whoever asks at a door is somebody
        return self.actor.id


def begin(*, agent: str, bearer: str, version: str, idempotency_key: str | None = None) -> Visit:
    """Refuse strangers first, and then those who may not know that there is such an agent."""
    actor = authentication.authenticate(bearer, audience=oauth.rest_resource()).actor
    if actor.only_reads:
        said = "An auditor reads in the console and over REST, where that is on record."
        raise NotAllowed(said, details={"reason": "only_reads"})
    found = Identity.objects.of_kind(Kind.AGENT).filter(name=agent).first()
    if found is None or not _is_known(actor, found):
        raise NotFound
    caller = Caller(actor, tokens.parse(bearer), oauth.rest_resource())
    return Visit(caller, found, version, idempotency_key)


def task(visit: Visit, task_id: str) -> Task:
    """The agent's task with this id, for those who may see it."""
    pk = parse_uuid(task_id.lower())
    rows = Task.objects.filter(agent=visit.agent).visible_to(visit.actor)
    found = rows.filter(pk=pk).first() if pk else None
    if found is None:
        raise faults.task_not_found()
    return found


def _is_known(actor: Actor, agent: Identity) -> bool:
    """Whether the agent is public, or this caller could ever call it."""
    if agent.discoverable or Identity.objects.visible_to(actor).filter(pk=agent.pk).exists():
        return True
    if NhiPermission.objects.filter(source_id=actor.id, target=agent).exists():
        return True
    return Task.objects.filter(agent=agent).held_by(actor).exists()
