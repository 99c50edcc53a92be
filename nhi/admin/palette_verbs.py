"""What one can do, as the palette finds it: a verb for an object, or a page that begins something new."""

from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from common.console.command_palette import PER_GROUP, Hit
from common.console.pages import link
from nhi.actors import Actor
from nhi.choices import TRANSITIONS, Kind, State
from nhi.models import Identity

#: Words that begin a verb, and the verb.
VERBS = {
    "stop": "stop", "suspend": "stop", "kill": "stop", "block": "stop",
    "give": "give", "grant": "give", "allow": "give",
    "issue": "issue", "token": "issue",
    "rotate": "rotate", "renew": "rotate", "replace": "rotate",
    "revoke": "revoke", "withdraw": "revoke",
    "assign": "assign",
    "activate": "activate", "reactivate": "activate",
    "why": "why", "explain": "why",
    "add": "new", "create": "new", "new": "new", "register": "new", "invite": "new",
}  # fmt: skip
#: Said around a name, and no part of it.
AROUND = {
    "a", "an", "the", "to", "for", "of", "on", "from", "may", "can", "call", "now", "access", "role", "roles", "agent",
    "identity", "tool", "credential", "credentials", "token", "tokens", "key", "grant", "grants",
}  # fmt: skip
CREDENTIALS = ("issue", "rotate", "revoke")


@dataclass(frozen=True)
class PaletteQuery:
    """What was typed: a verb, the name it is for, and what else was said."""

    verb: str | None
    name: str
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class Start:
    """A page that begins something, with the verb and the words that lead to it."""

    verb: str
    words: str
    title: str
    icon: str
    page: str
    right: str
    query: str = ""


STARTS = (
    Start("new", "agent identity bot caller", "Add an agent…", "smart_toy", "nhi_identity_add", "nhi.add_identity"),
    Start(
        "new", "tool capability identity", "Add a tool…", "build", "nhi_identity_add", "nhi.add_identity", "?kind=tool"
    ),
    Start(
        "new", "service account identity", "Add a service account…", "dns", "nhi_identity_add", "nhi.add_identity",
        "?kind=service_account",
    ),
    Start("new", "person user people human", "Add a person…", "person_add", "nhi_user_add", "nhi.add_user"),
    Start("new", "role roles", "Add a role…", "badge", "nhi_role_add", "nhi.add_role"),
    Start("new", "grant access permission", "Give access…", "add", "nhi_toolpermission_give", "nhi.add_toolpermission"),
    Start("give", "access tool grant", "Give access…", "add", "nhi_toolpermission_give", "nhi.add_toolpermission"),
    Start("assign", "role roles", "Assign a role…", "badge", "nhi_roleassignment_give", "nhi.add_roleassignment"),
)  # fmt: skip


def read(term: str) -> PaletteQuery:
    """A verb leads, or stands behind a name; without one, all of it is a name."""
    words = term.split()
    lead = VERBS.get(words[0].lower()) if words else None
    if lead:
        rest = words[1:]
        named = [word for word in rest if word.lower() not in AROUND] or rest[:0]
        return PaletteQuery(lead, named[0] if named else "", tuple(named[1:]))
    last = VERBS.get(words[-1].lower()) if len(words) > 1 else None
    return PaletteQuery(last, words[0]) if last else PaletteQuery(None, term)


def starts(actor: Actor, wish: PaletteQuery, term: str) -> list[Hit]:
    """Pages that begin something new: those that most of the words speak of."""
    if actor.only_reads or wish.verb is None:
        return []
    said = [word.lower() for word in term.split()[1:]]
    scored = [(_score(start, said), start) for start in STARTS if start.verb == wish.verb and actor.may(start.right)]
    best = max((score for score, _ in scored), default=0)
    if said and not best:
        return []
    return [Hit(one.title, link(one.page) + one.query, one.icon) for score, one in scored if score == best]


def _score(start: Start, said: list[str]) -> int:
    return sum(any(known.startswith(word) for known in start.words.split()) for word in said)


def verbs(actor: Actor, identities: list[Identity], wish: PaletteQuery) -> list[Hit]:
    if actor.only_reads or not identities:
        return []
    ids = [one.pk for one in identities]
    moved, issued = (_reached(actor, ids, right) for right in ("nhi.move_identity", "nhi.issue_credential"))
    found = [
        (verb, one.pk, hit)
        for one in identities
        for verb, hit in _verbs_of(actor, one, one.pk in moved, one.pk in issued, wish)
    ]
    # Typed as a verb: for all of them. Typed as a name: the usual ones of the best match.
    if wish.verb:
        return [hit for verb, _, hit in found if verb == wish.verb][:PER_GROUP]
    return [hit for verb, pk, hit in found if pk == ids[0] and verb not in ("rotate", "revoke", "assign")]


def _reached(actor: Actor, ids: list[UUID], right: str) -> set[UUID]:
    if actor.may(right):
        return set(ids)
    return set(Identity.objects.managed_by(actor).filter(pk__in=ids).values_list("pk", flat=True))


def _verbs_of(actor: Actor, one: Identity, moved: bool, issued: bool, wish: PaletteQuery) -> list[tuple[str, Hit]]:
    state, offered = State(one.state), []
    if moved and State.SUSPENDED in TRANSITIONS[state]:
        offered.append(("stop", f"Stop {one.name} now…", "stop_circle", _page(one, "stop")))
    if moved and State.ACTIVE in TRANSITIONS[state]:
        offered.append(("activate", f"Activate {one.name}…", "play_arrow", _page(one, "activate")))
    if one.kind == Kind.AGENT and state == State.ACTIVE and actor.may("nhi.add_toolpermission"):
        offered.append(("give", f"Give {one.name} access…", "add", f"{_page(one, 'give')}{_pattern(wish)}"))
    if one.kind == Kind.TOOL:
        return [(verb, Hit(words, url, icon)) for verb, words, icon, url in offered]
    if issued and state not in (State.DEPRECATED, State.ARCHIVED):
        offered.append(("issue", f"Issue a credential for {one.name}…", "key", _page(one, "issue")))
        offered.append(("rotate", f"Rotate a credential of {one.name}…", "key", _page(one, "credentials")))
    if issued:
        offered.append(("revoke", f"Revoke a credential of {one.name}…", "key_off", _page(one, "credentials")))
    if actor.may("nhi.revoke_toolpermission"):
        offered.append(("revoke", f"Revoke access of {one.name}…", "handshake", _page(one, "access")))
    if state != State.ARCHIVED and actor.may("nhi.add_roleassignment"):
        asked = urlencode({"identity": one.pk, "role": " ".join(wish.more[:1])})
        where = f"{link('nhi_roleassignment_give')}?{asked}"
        offered.append(("assign", f"Assign a role to {one.name}…", "badge", where))
    offered.append(("why", f"Why may {one.name} call…", "rule", f"{link('explain')}?caller={one.pk}"))
    return [(verb, Hit(words, url, icon)) for verb, words, icon, url in offered]


def _pattern(wish: PaletteQuery) -> str:
    """`give deploy-bot github.read` begins with that pattern."""
    said = next((word for word in wish.more if "." in word), "")
    return f"?{urlencode({'pattern': said})}" if said else ""


def _page(one: Identity, page: str) -> str:
    return link(f"nhi_identity_{page}", one.pk)
