"""What the palette finds: objects by name, ids exactly, and verbs for an object."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from common.admin import badges
from common.admin.pages import link, link_if_any
from common.admin.palette import PER_GROUP, Group, Hit
from common.ids import parse_uuid
from nhi import tokens
from nhi.actors import Actor
from nhi.admin.acting import actor_of
from nhi.choices import TRANSITIONS, Kind, State
from nhi.models import AuditEvent, Credential, Identity, Role

#: First words of a verb, and the verb that they begin.
VERBS = {
    "stop": "stop", "suspend": "stop", "kill": "stop",
    "give": "give", "grant": "give",
    "issue": "issue", "token": "issue",
    "activate": "activate", "reactivate": "activate",
    "why": "why", "explain": "why",
}  # fmt: skip
KINDS = {Kind.AGENT: 0, Kind.SERVICE_ACCOUNT: 1, Kind.TOOL: 2}


def find(request: HttpRequest, term: str) -> Iterable[Group]:
    """Objects, Ids and Verbs that this person may open."""
    actor = actor_of(request)
    first, _, rest = term.partition(" ")
    verb = VERBS.get(first.lower())
    # A verb alone offers its first objects; a name may also begin like a verb.
    identities = _identities(actor, rest.strip() if verb else term)
    yield Group("Verbs", _verbs(actor, identities, verb))
    named = [_object(one) for one in identities] if rest.strip() or not verb else []
    yield Group("Objects", named + _roles(actor, term))
    yield Group("Ids", _ids(actor, term))


def _identities(actor: Actor, term: str) -> list[Identity]:
    """Those whose name begins with it before those that hold it; six of each at most."""
    seen = Identity.objects.visible_to(actor)
    found = list(seen.filter(name__istartswith=term).order_by("name")[:PER_GROUP])
    if len(found) < PER_GROUP:
        more = seen.filter(name__icontains=term).exclude(pk__in=[one.pk for one in found])
        found += list(more.order_by("name")[: PER_GROUP - len(found)])
    return found


def _object(one: Identity) -> Hit:
    kind = badges.find("nhi.Kind", one.kind)
    return Hit(
        one.name, link("nhi_identity_hub", one.pk), kind.symbol, f"{kind.label}, {State(one.state).label.lower()}"
    )


def _roles(actor: Actor, term: str) -> list[Hit]:
    rows = Role.objects.visible_to(actor).filter(name__icontains=term).order_by("name")[:PER_GROUP]
    found = [(role.name, link_if_any("nhi_role_hub", role.pk)) for role in rows]
    return [Hit(name, url, "badge", "Role") for name, url in found if url]


def _verbs(actor: Actor, identities: list[Identity], verb: str | None) -> list[Hit]:
    if actor.only_reads:
        return []
    managed = _managed(actor, identities)
    hits = [hit for one in identities for hit in _verbs_of(actor, one, one.pk in managed) if not verb or hit[0] == verb]
    # Typed as a verb: all of them. Typed as a name: those of the best match.
    wanted = hits if verb else [hit for hit in hits if hit[1] == identities[0].pk]
    return [hit[2] for hit in wanted[:PER_GROUP]]


def _managed(actor: Actor, identities: list[Identity]) -> set[UUID]:
    ids = [one.pk for one in identities]
    if actor.may("nhi.move_identity"):
        return set(ids)
    return set(Identity.objects.managed_by(actor).filter(pk__in=ids).values_list("pk", flat=True))


def _verbs_of(actor: Actor, one: Identity, managed: bool) -> list[tuple[str, Any, Hit]]:
    state, offered = State(one.state), []
    if managed and State.SUSPENDED in TRANSITIONS[state]:
        offered.append(("stop", f"Stop {one.name} now…", "stop_circle", _page(one, "stop")))
    if managed and State.ACTIVE in TRANSITIONS[state]:
        offered.append(("activate", f"Activate {one.name}…", "play_arrow", _page(one, "activate")))
    if one.kind == Kind.AGENT and state == State.ACTIVE and actor.may("nhi.add_toolpermission"):
        offered.append(("give", f"Give {one.name} access…", "add", _page(one, "give")))
    if one.kind != Kind.TOOL and managed and state not in (State.DEPRECATED, State.ARCHIVED):
        offered.append(("issue", f"Issue a credential for {one.name}…", "key", _page(one, "issue")))
    if one.kind != Kind.TOOL:
        offered.append(("why", f"Why may {one.name} call…", "rule", f"{link('explain')}?caller={one.pk}"))
    return [(verb, one.pk, Hit(words, url, icon)) for verb, words, icon, url in offered]


def _page(one: Identity, page: str) -> str:
    return link(f"nhi_identity_{page}", one.pk)


def _ids(actor: Actor, term: str) -> list[Hit]:
    """An exact id: of an object, of a request, or the public id of a credential."""
    if known := parse_uuid(term.lower()):
        return _by_uuid(actor, known)
    if len(term) == tokens.PUBLIC_ID_LENGTH and term.isalnum():
        found = Credential.objects.visible_to(actor).select_related("identity").filter(public_id=term).first()
        if found is not None and found.identity is not None:
            url = link("nhi_identity_credentials", found.identity.pk)
            return [Hit(f"Credential …{term[-4:]} of {found.identity.name}", url, "key", found.state.label)]
    return []


def _by_uuid(actor: Actor, known: UUID) -> list[Hit]:
    one = Identity.objects.visible_to(actor).filter(pk=known).first()
    hits = [_object(one)] if one else []
    events = link_if_any("nhi_auditevent_changelist")
    if events and AuditEvent.objects.visible_to(actor).filter(request_id=known).exists():
        hits.append(Hit(f"Request {known}", f"{events}?request={known}", "history", "Audit events"))
    return hits
