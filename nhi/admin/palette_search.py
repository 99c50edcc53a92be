"""What the palette finds: objects by name, ids exactly, and verbs for an object."""

from collections.abc import Iterable
from uuid import UUID

from django.http import HttpRequest

from common.console import badges
from common.console.command_palette import PER_GROUP, Group, Hit
from common.console.pages import link, link_if_any
from common.ids import parse_uuid
from nhi.actors import Actor
from nhi.admin import palette_verbs
from nhi.admin.palette_verbs import PaletteQuery
from nhi.choices import State
from nhi.console.request_actor import actor_of
from nhi.credentials import tokens
from nhi.models import AuditEvent, Credential, Identity, Role, User


def find(request: HttpRequest, term: str) -> Iterable[Group]:
    """Objects, Verbs and Ids that this person may open; a verb that was typed comes first, else the thing named."""
    actor, wish = actor_of(request), palette_verbs.read(term)
    identities = _identities(actor, wish.name)
    starts = palette_verbs.starts(actor, wish, term)
    verbs = Group("Verbs", _wanted(palette_verbs.verbs(actor, identities, wish), wish, starts))
    named = [_object(one) for one in identities] if wish.name else []
    objects = Group("Objects", named + _roles(actor, wish.name or term) + _people(actor, wish.name or term))
    yield from (verbs, objects) if wish.verb else (objects, verbs)
    yield Group("Ids", _ids(actor, term))


def _wanted(verbs: list[Hit], wish: PaletteQuery, starts: list[Hit]) -> list[Hit]:
    """For what was named; a verb alone offers the page that begins it, then its first objects."""
    if wish.name and wish.verb and verbs:
        return verbs
    return [*starts, *verbs][:PER_GROUP]


def _identities(actor: Actor, term: str) -> list[Identity]:
    """Those whose name begins with it before those that hold it; six of each at most."""
    if _is_id(term):
        return []
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
    if _is_id(term):
        return []
    rows = Role.objects.visible_to(actor).filter(name__icontains=term).order_by("name")[:PER_GROUP]
    found = [(role.name, link_if_any("nhi_role_hub", role.pk)) for role in rows]
    return [Hit(name, url, "badge", "Role") for name, url in found if url]


def _people(actor: Actor, term: str) -> list[Hit]:
    """By their name; only for who may open their pages."""
    if _is_id(term) or not actor.may("nhi.view_user"):
        return []
    rows = User.objects.visible_to(actor).filter(username__icontains=term).order_by("username")[:PER_GROUP]
    return [Hit(one.username, link("nhi_user_hub", one.pk), "person", "Person") for one in rows]


def _is_id(term: str) -> bool:
    """An id is no part of a name: what goes by that is not asked for, since the palette may ask few questions."""
    return parse_uuid(term.lower()) is not None


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
