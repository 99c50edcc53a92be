"""Who may approve a changed definition: everybody with the right who has no part in the change.

Three are barred: whoever last set how the server is reached, whoever set a part of that which differs from what was
approved, and whoever changed the capability since the last approval. Nobody else is. `PendingChange` holds these parts,
one row for a person and a place; an approval removes them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import Permission
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from common import canonical_json
from mcp.models import PendingChange, Server, Tool
from nhi.actors import READ_ONLY, Actor
from nhi.models import Identity, User
from nhi.models.people import PersonQuerySet

#: The place of a pending change that is no part of how the server is reached.
CAPABILITY = "capability"
MAX_NAMES = 5
MAX_PLACE_CHARS = 300
LABELS = {
    "transport": "the transport",
    "command": "the command",
    "args": "the arguments",
    "base_url": "the server's address",
    "env": "the variable {}",
    "headers": "the header {}",
    "secrets": "the secret {}",
}


@dataclass(frozen=True)
class ChangePart:
    """What somebody did that bars them, and when; the time is not known of what an earlier version wrote."""

    action: str
    at: datetime | None
    #: The part of how the server is reached; empty for the capability, and for having set that at all.
    place: str = ""

    def __str__(self) -> str:
        return f"{self.action} on {self.at:%Y-%m-%d}" if self.at else self.action


@dataclass
class ReviewBar:
    """A person, or a service account, who may not approve what waits."""

    name: str
    parts: list[ChangePart] = field(default_factory=list)
    #: The service account whose parts these are, for a person who holds it in their hands.
    account: str = ""
    changed_capability: bool = False

    @property
    def reason(self) -> str:
        """What follows the person's name: "set the server's address on 2026-11-20"."""
        actions = join_words([str(part) for part in self.parts])
        return f"stood behind the service account {self.account}, which {actions}" if self.account else actions


@dataclass(frozen=True)
class ReviewRemedy:
    """What would let somebody approve, when nobody may."""

    sentence: str
    #: Who does it; empty when anybody may who has the right to.
    by: str = ""
    #: The parts of how the server is reached that they set; empty for any part.
    places: tuple[str, ...] = ()
    #: Whether the places, and the capability, are set back to what was approved.
    restores: bool = False
    #: Who may approve then.
    approvers: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReviewDeadEnd:
    """Everybody who holds the right is barred: why each of them is, and what would change that."""

    bars: tuple[ReviewBar, ...]
    remedies: tuple[ReviewRemedy, ...]

    def __str__(self) -> str:
        barred = join_words([bar.name for bar in self.bars])
        verb = "is" if len(self.bars) == 1 else "are both" if len(self.bars) == 2 else "are all"
        reasons = "; ".join(f"{bar.name} {bar.reason}" for bar in self.bars)
        return " ".join([f"{barred} {verb} barred: {reasons}.", *(remedy.sentence for remedy in self.remedies)])


def list_places(server_identity: Mapping[str, Any]) -> dict[str, str]:
    """How a server is reached, part by part: each variable, header and secret is one of its own."""
    places: dict[str, str] = {}
    for name, value in server_identity.items():
        if isinstance(value, dict):
            places |= {f"{name}.{key}": canonical_json.encode(item).decode() for key, item in value.items()}
        else:
            places[name] = canonical_json.encode(value).decode()
    return places


def find_changed_places(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    old, new = list_places(before), list_places(after)
    return [place for place in dict.fromkeys([*old, *new]) if old.get(place) != new.get(place)]


def record_changes(changes: Iterable[tuple[Tool, Sequence[str]]], actor_id: UUID | None, actor_name: str) -> None:
    """Take down who changed these places of these tools. What Gatehouse itself does is no person's part."""
    if actor_id is None:
        return
    now = timezone.now()
    rows = [
        PendingChange(
            tool=tool, place=place[:MAX_PLACE_CHARS], changed_by_id=actor_id, changed_by_name=actor_name, changed_at=now
        )
        for tool, places in changes
        for place in places
    ]
    _save_changes(rows)


def adopt_changes(
    new: Sequence[Tool], siblings: Iterable[Tool], changes: Iterable[PendingChange], server_identity: Mapping[str, Any]
) -> None:
    """New tools of a server that is reached in a way which nobody has approved yet: who set that has a part in them."""
    inherited = {(row.place, row.changed_by_id): row for row in changes if row.place != CAPABILITY}
    if not new or not inherited:
        return
    if any(one.approved is not None and one.approved.body.get("server") == server_identity for one in siblings):
        return
    _save_changes([
        PendingChange(
            tool=tool, place=row.place, changed_by_id=row.changed_by_id, changed_by_name=row.changed_by_name,
            changed_at=row.changed_at,
        )
        for tool in new
        for row in inherited.values()
    ])  # fmt: skip


def settle_changes(tool: Tool, changes: Sequence[PendingChange], server_identity: Mapping[str, Any]) -> None:
    """The server has listed the tool as it is reached now: parts that were set anew or set back are nobody's any more.

    Not before: until then, what waits was said by a server that was reached in another way.
    """
    approved = list_places(tool.approved.body.get("server") or {}) if tool.approved else None
    current = list_places(server_identity)
    rows = sorted((row for row in changes if row.place != CAPABILITY), key=lambda row: (row.changed_at, row.pk))
    latest = {row.place: row.pk for row in rows}
    outdated = [
        row.pk
        for row in rows
        if latest[row.place] != row.pk or (approved is not None and approved.get(row.place) == current.get(row.place))
    ]
    if outdated:
        PendingChange.objects.filter(pk__in=outdated).delete()


def remove_changes(tool: Tool) -> None:
    """Its definition was approved."""
    PendingChange.objects.filter(tool=tool).delete()


def find_barred(tool: Tool) -> dict[UUID, ReviewBar]:
    """Who may not approve what waits, and why. Nobody is barred from a definition that was approved before.

    Of a first definition, only those are barred who changed how the server is reached after it had listed its tools.
    """
    if tool.current_id is None or tool.approved_id == tool.current_id:
        return {}
    bars: dict[UUID, ReviewBar] = {}
    for row in PendingChange.objects.filter(tool=tool).order_by("changed_at", "pk"):
        is_capability = row.place == CAPABILITY
        if is_capability and tool.approved_id is None:
            continue
        bar = bars.setdefault(row.changed_by_id, ReviewBar(row.changed_by_name))
        bar.parts.append(ChangePart(_describe_action(row.place), row.changed_at, "" if is_capability else row.place))
        bar.changed_capability |= is_capability
    if tool.approved_id is not None:
        _bar_last_setter(bars, tool.server)
    return {**_bar_account_holders(bars), **bars}


def find_dead_end(tool: Tool, bars: Mapping[UUID, ReviewBar]) -> ReviewDeadEnd | None:
    """Why nobody may approve what waits, and what would change that; None when somebody may."""
    if not bars:
        return None
    people = {person.pk: person.username for person in find_right_holders()}
    if not people or people.keys() - bars.keys():
        return None
    barred = {person: bars[person] for person in sorted(people, key=lambda pk: people[pk])}
    remedies = [_restore_remedy(tool), _takeover_remedy(barred, bars), _superuser_remedy(barred)]
    return ReviewDeadEnd(tuple(barred.values()), tuple(remedy for remedy in remedies if remedy is not None))


def refusal_message(bar: ReviewBar, nobody: ReviewDeadEnd | None) -> str:
    """For somebody who is barred; with what would help, where nobody else could approve instead."""
    sentence = f"You {bar.reason}, so someone else must approve the change."
    return f"{sentence} {nobody}" if nobody else sentence


def find_right_holders(right: str = "approve_definition") -> PersonQuerySet:
    """The people who hold a right of this app and may use it."""
    app, name = READ_ONLY.split(".")
    reads = Permission.objects.filter(content_type__app_label=app, codename=name)
    held = Permission.objects.filter(content_type__app_label="mcp", codename=right)
    able = Q(is_superuser=True) | (_with_permission(held) & ~_with_permission(reads))
    people: PersonQuerySet = User.objects.active().filter(able).distinct().order_by("username")
    return people


def filter_not_barred(waiting: QuerySet[Tool], actor: Actor) -> QuerySet[Tool]:
    """Of tools that wait, those whose definition this person may approve: what `who_is_barred` says, as a query."""
    accounts = Identity.objects.filter(_in_hands_of(actor.id)).values("pk")
    mine = Q(changed_by_id=actor.id) | Q(changed_by_id__in=accounts)
    parts = PendingChange.objects.filter(mine, tool=OuterRef("pk"))
    reach = Exists(parts.exclude(place=CAPABILITY))
    set_last = Q(server__changed_by_id=actor.id) | Q(server__changed_by_id__in=accounts)
    barred = Q(approved=None) & Q(reach) | Q(approved__isnull=False) & (set_last | Q(Exists(parts)))
    # A null on either side bars nobody, which a NOT around these conditions would not say.
    free = waiting.exclude(pk__in=Tool.objects.filter(barred).exclude(approved=F("current")).values("pk"))
    return free.exclude(current=None)


def join_words(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _save_changes(rows: list[PendingChange]) -> None:
    PendingChange.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["tool", "place", "changed_by_id"],
        update_fields=["changed_by_name", "changed_at"], batch_size=500,
    )  # fmt: skip


def _describe_action(place: str) -> str:
    return "changed the capability" if place == CAPABILITY else f"set {_describe_place(place)}"


def _describe_place(place: str) -> str:
    name, _, key = place.partition(".")
    return LABELS.get(name, name).format(key)


def _bar_last_setter(bars: dict[UUID, ReviewBar], server: Server) -> None:
    if server.changed_by_id is None:
        return
    bar = bars.setdefault(server.changed_by_id, ReviewBar(server.changed_by_name))
    if any(part.place for part in bar.parts):
        return
    registered = server.changed_at is None and server.changed_by_id == server.created_by_id
    part = (
        ChangePart("registered this server", server.created_at)
        if registered
        else ChangePart("last set how the server is reached", server.changed_at)
    )
    bar.parts.insert(0, part)


def _in_hands_of(person: UUID | None) -> Q:
    """Service accounts that a person holds in their hands: their owners, and who has made their credentials."""
    return Q(owner_id=person) | Q(backup_owner_id=person) | Q(credentials__created_by_id=person)


def _bar_account_holders(bars: Mapping[UUID, ReviewBar]) -> dict[UUID, ReviewBar]:
    people: dict[UUID, ReviewBar] = {}
    if not bars:
        return people
    rows = Identity.objects.filter(pk__in=bars).values_list(
        "pk", "owner_id", "backup_owner_id", "credentials__created_by_id"
    )
    for account, *holder_ids in rows:
        bar = bars[account]
        for holder in filter(None, holder_ids):
            people[holder] = ReviewBar("", bar.parts, bar.name, bar.changed_capability)
    names = dict(User.objects.filter(pk__in=people).values_list("pk", "username")) if people else {}
    for holder, bar in people.items():
        bar.name = names.get(holder, "")
    return people


def _with_permission(permissions: QuerySet[Permission]) -> Q:
    return Q(pk__in=User.objects.filter(groups__permissions__in=permissions).values("pk")) | Q(
        pk__in=User.objects.filter(user_permissions__in=permissions).values("pk")
    )


def _restore_remedy(tool: Tool) -> ReviewRemedy | None:
    """Everything a person changed is set back: what is left was approved before. A secret cannot be set back."""
    approved, current = tool.approved, tool.current
    if approved is None or current is None:
        return None
    ours = ("server", "capability")
    if {**approved.body, **dict.fromkeys(ours)} != {**current.body, **dict.fromkeys(ours)}:
        return None
    places = find_changed_places(approved.body.get("server") or {}, current.body.get("server") or {})
    if any(place.startswith("secrets.") for place in places):
        return None
    changed = current.body.get("capability") != approved.body.get("capability")
    labels = [_describe_place(place) for place in places] + (["the capability"] if changed else [])
    verb = "is" if len(labels) == 1 else "are"
    sentence = (
        f"If {join_words(labels)} {verb} set back to what was approved, and the server lists the same definition, "
        "everybody with the right may approve it."
    )
    approvers = tuple(find_right_holders().values_list("username", flat=True))
    return ReviewRemedy(sentence, places=tuple(places), restores=True, approvers=approvers)


def _takeover_remedy(barred: Mapping[UUID, ReviewBar], bars: Mapping[UUID, ReviewBar]) -> ReviewRemedy | None:
    """Somebody sets anew what another person had set: that person has no part in what waits then."""
    setters = {person.pk: person.username for person in find_right_holders("change_server")}
    behind: dict[UUID, set[UUID]] = defaultdict(set)
    for account, *people in Identity.objects.filter(pk__in=bars).values_list(
        "pk", "owner_id", "backup_owner_id", "credentials__created_by_id"
    ):
        for person in filter(None, people):
            behind[person].add(account)
    for person, bar in barred.items():
        others = [name for pk, name in setters.items() if pk != person]
        if bar.changed_capability or behind[person] or not others:
            continue
        places = tuple(part.place for part in bar.parts if part.place)
        # Of those who are barred anyway, one is named before others.
        known = [one.name for pk, one in barred.items() if pk != person and one.name in others]
        name = (known or others)[0]
        what = (
            f"sets {join_words([_describe_place(place) for place in places])} again"
            if places
            else "sets how the server is reached"
        )
        sentence = (
            f"If {name} {what} (to another value, or back to what was approved), and the server answers, "
            f"{bar.name} may approve what waits then."
        )
        return ReviewRemedy(sentence, by=name, places=places, approvers=(bar.name,))
    return None


def _superuser_remedy(barred: Mapping[UUID, ReviewBar]) -> ReviewRemedy:
    superusers = tuple(User.objects.active().filter(is_superuser=True).values_list("username", flat=True))
    named = tuple(name for name in superusers if name in {bar.name for bar in barred.values()})
    glass = f"{join_words(named)} may approve it as superuser, on record as breaking glass. " if named else ""
    return ReviewRemedy(
        f"{glass}A superuser can give another person a role that may approve definitions.", approvers=named
    )
