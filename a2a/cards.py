"""Agent cards as they are served: made of what is known of an agent, signed, for who may read them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings as installation
from django.db.models import Exists, OuterRef, QuerySet

from a2a import card_keys, endpoints
from a2a.choices import Authentication, CardForm, Transport
from a2a.endpoints import Settings
from a2a.models import AgentCard, Skill
from a2a.wire import card_checks, cards, media, methods
from a2a.wire.card_checks import Objection
from a2a.wire.cards import Card, Facts, Interface, Security
from common import canonical_json
from common.errors import NotFound
from nhi.actors import Actor
from nhi.choices import Kind
from nhi.models import Identity, NhiPermission
from nhi.validation import SLUG_PATTERN

BINDINGS = {Transport.JSON_RPC: cards.JSON_RPC, Transport.HTTP_JSON: cards.HTTP_JSON, Transport.GRPC: cards.GRPC}
FORMS = {
    CardForm.MERGED: cards.merged,
    CardForm.STRICT_1_0: cards.strict_1_0,
    CardForm.STRICT_0_3: cards.strict_0_3,
}
#: Of agents whose endpoint takes anything.
ANY = (media.TEXT, media.JSON, media.BYTES)
#: The extension in which a caller's card says what its grant lets it ask for.
GRANT = "urn:gatehouse:grant"


@dataclass(frozen=True)
class Described:
    """What an agent's card is made of, read once."""

    identity: Identity
    card: AgentCard
    endpoint: Settings
    skills: Sequence[Skill]

    @property
    def url(self) -> str:
        return f"{installation.PUBLIC_URL}/agents/{self.identity.name}"

    @property
    def modified(self) -> datetime:
        known = (self.identity.updated_at, self.card.updated_at if self.card.pk else None, self.endpoint.updated_at)
        return max(moment for moment in known if moment is not None)


@dataclass(frozen=True)
class Served:
    card: Card
    #: Weak, and of the card without its signatures, which differ each time.
    etag: str
    modified: datetime
    #: Whether strangers are given the same.
    is_public: bool


@dataclass(frozen=True)
class Preview:
    merged: Card
    strict_1_0: Card
    strict_0_3: Card
    objections: Sequence[Objection]


def served(name: str, version: str = "", caller: Any = None) -> Served:
    """The card of the agent of this name, signed. `NotFound` alike for who is hidden from `caller` and who is not.

    `caller` is anything with an `actor`; None for who shows nothing.
    """
    if not SLUG_PATTERN.fullmatch(name):
        raise NotFound
    identity = find(Identity.objects.filter(name=name), caller)
    told = describe(identity)
    facts = facts_of(told)
    card = _form(told, version, facts)
    mark = hashlib.sha256(canonical_json.encode(card)).hexdigest()[:32]
    return Served(signed(card, facts), f'W/"{mark}"', told.modified, identity.shown)  # type: ignore[attr-defined]  # annotated by `find`


def extended(caller: Any, identity: Identity, version: str = "") -> Card:
    """What a known caller is told beyond the public card: all the skills it may ask for, and by which grant."""
    actor: Actor = caller.actor
    found = find(Identity.objects.filter(pk=identity.pk), caller)
    told = describe(found)
    grants = [] if actor.is_person else list(_between(actor, found).live())
    skills = [skill for skill in told.skills if skill.public or _may_ask_for(actor, grants, skill)]
    facts = facts_of(told, skills=skills, extensions=[_grant(grants)] if grants else [])
    return signed(_form(told, version, facts), facts)


def of_contract(identity_id: UUID, caller: Any = None) -> Card:
    """The card of the REST contract."""
    told = describe(find(Identity.objects.filter(pk=identity_id), caller))
    said = told.card.description or told.identity.description
    return cards.of_contract(facts_of(told), url=told.url, described=said)


def preview(told: Described) -> Preview:
    """Every form as it is served, without signatures, and what strict clients object to."""
    facts = facts_of(told)
    forms = {form: make(facts) for form, make in FORMS.items()}
    strict = forms[CardForm.STRICT_1_0]
    objections = card_checks.of(strict, served=forms[CardForm(told.card.form)])
    return Preview(forms[CardForm.MERGED], strict, forms[CardForm.STRICT_0_3], objections)


def find(rows: QuerySet[Identity], caller: Any) -> Identity:
    """The one agent, where its card may be read: by anyone if it is discoverable and may act, else by who knows it."""
    open_to_all = Identity.objects.usable().filter(pk=OuterRef("pk"), discoverable=True)
    found = rows.filter(kind=Kind.AGENT).annotate(shown=Exists(open_to_all)).first()
    if found is None or not (found.shown or _knows(caller, found)):
        raise NotFound
    return found


def describe(identity: Identity) -> Described:
    card = AgentCard.objects.filter(pk=identity.pk).first() or AgentCard()
    skills = list(Skill.objects.filter(identity=identity).order_by("position"))
    return Described(identity, card, endpoints.of(identity), skills)


def loaded(identity: Identity) -> Described:
    """The same of a row that was read with `agent_card`, `endpoint` and its `card_skills`."""
    card = getattr(identity, "agent_card", None) or AgentCard()
    endpoint = endpoints.read(identity, getattr(identity, "endpoint", None))
    skills = sorted(identity.card_skills.all(), key=lambda skill: skill.position)
    return Described(identity, card, endpoint, skills)


def facts_of(
    told: Described, *, skills: Sequence[Skill] | None = None, extensions: Sequence[dict[str, Any]] = ()
) -> Facts:
    """What strangers are told, unless `skills` and `extensions` say more."""
    shown = [skill for skill in told.skills if skill.public] if skills is None else skills
    card, endpoint = told.card, told.endpoint
    return Facts(
        name=told.identity.name,
        description=card.description or told.identity.description or f"The agent {told.identity.name}.",
        version=card.version,
        interfaces=[_interface(told, way) for way in endpoint.transports],
        input_modes=_taken(endpoint, card.default_input_modes) or endpoint.content_types or ANY,
        output_modes=card.default_output_modes or endpoint.content_types or ANY,
        skills=[_skill(skill, endpoint) for skill in shown] or [_usual_skill(told)],
        streaming=endpoint.streaming and methods.STREAM in endpoint.methods,
        push=methods.PUSH_CREATE in endpoint.methods,
        extended=methods.EXTENDED_CARD in endpoint.methods,
        security=_security(endpoint),
        provider=(card.provider_organization, card.provider_url) if card.provider_url else None,
        documentation_url=card.documentation_url,
        icon_url=card.icon_url,
        extensions=extensions,
        secure=installation.PUBLIC_URL.startswith("https:"),
    )


def signed(card: Card, facts: Facts) -> Card:
    made = card_keys.signatures(card, read_as=card if "supportedInterfaces" not in card else cards.strict_1_0(facts))
    return {**card, "signatures": made} if made else card


def _form(told: Described, version: str, facts: Facts) -> Card:
    """A version that there is no form of gets what is served to who asks for none: there it says which there are."""
    wanted = cards.version_of(version)
    form = CardForm(wanted) if wanted in (cards.V1_0, cards.V0_3) else CardForm(told.card.form)
    return FORMS[form](facts)


def _knows(caller: Any, identity: Identity) -> bool:
    """Whether the caller sees the agent, or holds or once held a grant to it."""
    if caller is None:
        return False
    actor: Actor = caller.actor
    if Identity.objects.visible_to(actor).filter(pk=identity.pk).exists():
        return True
    return not actor.is_person and _between(actor, identity).exists()


def _between(actor: Actor, identity: Identity) -> Any:
    return NhiPermission.objects.filter(source_id=actor.id, target=identity)


def _may_ask_for(actor: Actor, grants: Sequence[NhiPermission], skill: Skill) -> bool:
    """What is not public is for people who are let in here, and for identities whose grant covers it."""
    if actor.is_person or actor.id == skill.identity_id:
        return True
    allowed = [grant.allowed_actions for grant in grants]
    return any(globs is None or any(fnmatchcase(skill.skill_id, glob) for glob in globs) for globs in allowed)


def _grant(grants: Sequence[NhiPermission]) -> dict[str, Any]:
    """What several grants allow together; nothing is said of what they do not limit."""
    globs = [grant.allowed_actions for grant in grants]
    limits = [grant.max_calls_per_hour for grant in grants]
    ends = [grant.expires_at for grant in grants]
    params: dict[str, Any] = {}
    if None not in globs:
        params["allowedActions"] = sorted({glob for some in globs for glob in some or ()})
    if None not in limits:
        params["maxTasksPerHour"] = max(most for most in limits if most is not None)
    if None not in ends:
        params["endsAt"] = max(end for end in ends if end is not None).isoformat().replace("+00:00", "Z")
    said = {"uri": GRANT, "description": "What your grant lets you ask of this agent."}
    return {**said, "params": params} if params else said


def _interface(told: Described, way: Transport) -> Interface:
    if way != Transport.GRPC:
        return Interface(BINDINGS[way], told.url)
    host = urlsplit(installation.PUBLIC_URL).hostname or ""
    place = f"[{host}]" if ":" in host else host
    return Interface(BINDINGS[way], f"{place}:{installation.GRPC_PORT}", tenant=told.identity.name)


def _security(endpoint: Settings) -> Security | None:
    if endpoint.is_open:
        return None
    return Security(endpoint.api_key_header if endpoint.authentication == Authentication.API_KEY else "")


def _taken(endpoint: Settings, modes: Sequence[str]) -> list[str]:
    """Without what the endpoint does not take any more."""
    return [mode for mode in modes if media.takes(endpoint.content_types, mode)]


def _skill(skill: Skill, endpoint: Settings) -> cards.Skill:
    return cards.Skill(
        id=skill.skill_id,
        name=skill.name,
        description=skill.description or skill.name,
        # A card needs one.
        tags=skill.tags or [skill.skill_id],
        examples=skill.examples,
        input_modes=_taken(endpoint, skill.input_modes),
        output_modes=skill.output_modes,
    )


def _usual_skill(told: Described) -> cards.Skill:
    """Of an agent that names none: a card without any is refused."""
    name = told.identity.name
    said = told.card.description or told.identity.description or f"Whatever {name} is asked to do."
    return cards.Skill(id=name, name=name, description=said, tags=told.identity.tags or ["agent"])
