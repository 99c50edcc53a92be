"""Who asks, at which agent's door: the same for every operation, before it looks at what it was given."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef

from a2a import endpoints
from a2a.endpoints import Settings
from a2a.models import Task
from a2a.operations import faults
from common.errors import NotAllowed, NotFound
from common.fastsql.compiled_queries import PreparedQuery
from common.ids import parse_uuid
from nhi.actors import Actor
from nhi.authorization import authentication, oauth
from nhi.authorization.authentication import Unauthenticated
from nhi.choices import Kind
from nhi.credentials import tokens
from nhi.models import Identity, NhiPermission
from supervisor.access import Caller

#: Whose grants are looked for where nobody says who they are.
NOBODY = UUID(int=0)


def _agents(caller: UUID) -> Any:
    """With their endpoints, and whether the caller holds a grant for each, or once did."""
    grants = NhiPermission.objects.filter(source_id=caller, target_id=OuterRef("pk"))
    return (
        Identity.objects.of_kind(Kind.AGENT).select_related("endpoint").annotate(is_granted=Exists(grants)).order_by()
    )


_BY_NAME = PreparedQuery(lambda name, caller: _agents(caller).filter(name=name), name=str, caller=UUID)
_BY_ID = PreparedQuery(lambda pk, caller: _agents(caller).filter(pk=pk), pk=UUID, caller=UUID)
_THEIRS = PreparedQuery(
    lambda task, agent, identity: Task.objects.filter(pk=task, agent_id=agent).about(identity).order_by(),
    task=UUID, agent=UUID, identity=UUID,
)  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """What a caller shows for itself: its headers, or what stands for them, with their names in lower case."""

    headers: Mapping[str, str] = field(repr=False)

    @property
    def token(self) -> str:
        """The one that may be ours, wherever it stands; which agent wants it where is not known yet."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        if scheme:
            return token.strip() if scheme.lower() == "bearer" else ""
        return next((value for value in self.headers.values() if tokens.parse(value) is not None), "")


@dataclass(frozen=True)
class Visit:
    caller: Caller
    agent: Identity
    endpoint: Settings
    version: str
    idempotency_key: str | None = None

    @property
    def actor(self) -> Actor:
        return self.caller.actor

    @property
    def caller_id(self) -> UUID:
        assert self.actor.id is not None  # whoever asks at a door is somebody
        return self.actor.id


def begin(*, agent: str, shown: Shown, version: str, idempotency_key: str | None = None) -> Visit:
    """Refuse strangers first, and then those who may not know that there is such an agent."""
    caller = known(shown) if shown.token else None
    found: Identity | None = _BY_NAME.fetch_first(name=agent, caller=_id_of(caller))
    settings = endpoints.read(found, getattr(found, "endpoint", None)) if found is not None else None
    open_to = endpoints.stand_in(settings) if settings is not None and caller is None else None
    caller = caller or open_to or known(shown)
    _refuse_reader(caller.actor)
    if found is None or settings is None or not (open_to or _is_known(caller.actor, found)):
        raise NotFound
    if open_to is None and endpoints.bearer_of(settings, shown.headers) != shown.token:
        said = f"{found.name} takes a token in the header {settings.header_name}."
        raise Unauthenticated("wrong_header", said)
    return Visit(caller, found, settings, version, idempotency_key)


def require_whole(caller: Caller) -> None:
    """A token that was narrowed to some tools asks for what its scope covers, and looks at nothing else."""
    if isinstance(caller.shown, tokens.ShortTokenClaims) and caller.shown.scope:
        said = "This token is narrowed to some tools: tasks are not read or changed with it."
        raise NotAllowed(said, details={"reason": "scope_not_allowed"})


def enter(*, caller: Caller, agent: str, version: str, idempotency_key: str | None = None) -> Visit:
    """The same for whom another door let in, which asks for tokens in its own way; an id names an agent there too."""
    _refuse_reader(caller.actor)
    pk, me = parse_uuid(agent.lower()), _id_of(caller)
    found: Identity | None = _BY_ID.fetch_first(pk=pk, caller=me) if pk else _BY_NAME.fetch_first(name=agent, caller=me)
    if found is None or not _is_known(caller.actor, found):
        raise NotFound
    settings = endpoints.read(found, getattr(found, "endpoint", None))
    return Visit(caller, found, settings, version, idempotency_key)


def _refuse_reader(actor: Actor) -> None:
    if actor.only_reads:
        said = "An auditor reads in the console and over REST, where that is on record."
        raise NotAllowed(said, details={"reason": "only_reads"})


def known(shown: Shown) -> Caller:
    found = authentication.authenticate(shown.token, audience=oauth.rest_resource())
    return Caller(found.actor, tokens.parse(shown.token), oauth.rest_resource(), found.loaded_facts.identity)


def _id_of(caller: Caller | None) -> UUID:
    return NOBODY if caller is None or caller.actor.id is None else caller.actor.id


def task(visit: Visit, task_id: str) -> Task:
    """The agent's task with this id, for those who may see it."""
    pk = parse_uuid(task_id.lower())
    found = _task(visit, pk) if pk else None
    if found is None:
        raise faults.task_not_found()
    return found


def _task(visit: Visit, pk: UUID) -> Task | None:
    actor, agent = visit.actor, visit.agent
    if actor.is_person or actor.run_id is not None or actor.may("a2a.view_task"):
        return Task.objects.filter(agent=agent).visible_to(actor).filter(pk=pk).first()
    found: Task | None = _THEIRS.fetch_first(task=pk, agent=agent.pk, identity=actor.id)
    return found


def _is_known(actor: Actor, agent: Identity) -> bool:
    """Whether the agent is public, or this caller could ever call it."""
    if agent.discoverable or agent.is_granted:  # type: ignore[attr-defined]  # annotated by `_agents`
        return True
    if Identity.objects.visible_to(actor).filter(pk=agent.pk).exists():
        return True
    return Task.objects.filter(agent=agent).held_by(actor).exists()
