"""Who may approve a changed definition: every holder of the permission who did not contribute to the change.

Three kinds of people are barred: the last person who changed the connection settings, people who set a connection
setting that differs from the approved one, and people who changed the capability since the last approval.
`PendingChange` has one row per person and place; an approval removes the rows.
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

#: The only place of a pending change that is not a connection setting.
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
class BarringAction:
    """An action that bars a person, and its time; rows of earlier versions have no time."""

    action: str
    at: datetime | None
    #: The connection setting; empty for the capability and for actions that concern all settings.
    place: str = ""

    def __str__(self) -> str:
        return f"{self.action} on {self.at:%Y-%m-%d}" if self.at else self.action


@dataclass
class BarredReviewer:
    """A person or service account that may not approve the pending definition, and the actions that bar them."""

    name: str
    parts: list[BarringAction] = field(default_factory=list)
    #: The service account that acted, if the person controls it.
    account: str = ""
    changed_capability: bool = False

    @property
    def reason(self) -> str:
        """A phrase to follow the person's name: "set the server's address on 2026-11-20"."""
        actions = join_words([str(part) for part in self.parts])
        return f"stood behind the service account {self.account}, which {actions}" if self.account else actions


@dataclass(frozen=True)
class ReviewRemedy:
    """A step after which somebody may approve, when nobody may now."""

    sentence: str
    #: The person who can take the step; empty if every holder of the permission can.
    by: str = ""
    #: The connection settings to set; empty for any setting.
    places: tuple[str, ...] = ()
    #: Whether the step restores the approved settings and capability.
    restores: bool = False
    #: The people who may approve afterwards.
    approvers: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReviewDeadEnd:
    """All holders of the permission are barred: the reason for each, and the possible remedies."""

    bars: tuple[BarredReviewer, ...]
    remedies: tuple[ReviewRemedy, ...]

    def __str__(self) -> str:
        barred_names = join_words([bar.name for bar in self.bars])
        verb = "is" if len(self.bars) == 1 else "are both" if len(self.bars) == 2 else "are all"
        reasons = "; ".join(f"{bar.name} {bar.reason}" for bar in self.bars)
        return " ".join([f"{barred_names} {verb} barred: {reasons}.", *(remedy.sentence for remedy in self.remedies)])


def list_places(server_identity: Mapping[str, Any]) -> dict[str, str]:
    """Return the connection settings by place. Each variable, header and secret is a place of its own."""
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
    """Record who changed these places of these tools. Changes by Gatehouse itself have no person and are skipped."""
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
    new_tools: Sequence[Tool],
    siblings: Iterable[Tool],
    changes: Iterable[PendingChange],
    server_identity: Mapping[str, Any],
) -> None:
    """Copy pending changes to new tools of a server whose connection settings were not approved for any tool yet."""
    inherited = {(row.place, row.changed_by_id): row for row in changes if row.place != CAPABILITY}
    if not new_tools or not inherited:
        return
    if any(
        sibling.approved is not None and sibling.approved.body.get("server") == server_identity for sibling in siblings
    ):
        return
    _save_changes([
        PendingChange(
            tool=tool, place=row.place, changed_by_id=row.changed_by_id, changed_by_name=row.changed_by_name,
            changed_at=row.changed_at,
        )
        for tool in new_tools
        for row in inherited.values()
    ])  # fmt: skip


def settle_changes(tool: Tool, changes: Sequence[PendingChange], server_identity: Mapping[str, Any]) -> None:
    """Delete pending changes that were overwritten or reverted, after the server listed the tool.

    Not before the listing: until then, the pending definition comes from the previous connection settings.
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
    """Delete the pending changes of a tool after an approval."""
    PendingChange.objects.filter(tool=tool).delete()


def find_barred(tool: Tool) -> dict[UUID, BarredReviewer]:
    """Return the bars of the pending definition by person. Nobody is barred if the current definition is approved.

    For a first definition, only changes of the connection settings after the first listing bar a person.
    """
    if tool.current_id is None or tool.approved_id == tool.current_id:
        return {}
    bars: dict[UUID, BarredReviewer] = {}
    for row in PendingChange.objects.filter(tool=tool).order_by("changed_at", "pk"):
        is_capability = row.place == CAPABILITY
        if is_capability and tool.approved_id is None:
            continue
        bar = bars.setdefault(row.changed_by_id, BarredReviewer(row.changed_by_name))
        bar.parts.append(BarringAction(_describe_action(row.place), row.changed_at, "" if is_capability else row.place))
        bar.changed_capability |= is_capability
    if tool.approved_id is not None:
        _bar_last_setter(bars, tool.server)
    return {**_bar_account_holders(bars), **bars}


def find_dead_end(tool: Tool, bars: Mapping[UUID, BarredReviewer]) -> ReviewDeadEnd | None:
    """Return why nobody may approve the pending definition, with remedies; None if somebody may."""
    if not bars:
        return None
    people = {person.pk: person.username for person in find_right_holders()}
    if not people or people.keys() - bars.keys():
        return None
    barred = {person: bars[person] for person in sorted(people, key=lambda pk: people[pk])}
    remedies = [_restore_remedy(tool), _takeover_remedy(barred, bars), _superuser_remedy(barred)]
    return ReviewDeadEnd(tuple(barred.values()), tuple(remedy for remedy in remedies if remedy is not None))


def refusal_message(bar: BarredReviewer, dead_end: ReviewDeadEnd | None) -> str:
    """Return the message for a barred person, with the remedies if nobody else may approve."""
    sentence = f"You {bar.reason}, so someone else must approve the change."
    return f"{sentence} {dead_end}" if dead_end else sentence


def find_right_holders(right: str = "approve_definition") -> PersonQuerySet:
    """Return the active people with a permission of this app, except read-only people."""
    app, name = READ_ONLY.split(".")
    read_only_permissions = Permission.objects.filter(content_type__app_label=app, codename=name)
    permissions = Permission.objects.filter(content_type__app_label="mcp", codename=right)
    is_holder = Q(is_superuser=True) | (_with_permission(permissions) & ~_with_permission(read_only_permissions))
    people: PersonQuerySet = User.objects.active().filter(is_holder).distinct().order_by("username")
    return people


def filter_not_barred(waiting: QuerySet[Tool], actor: Actor) -> QuerySet[Tool]:
    """Filter waiting tools to those that this person may approve. The query must agree with `find_barred`."""
    accounts = Identity.objects.filter(_in_hands_of(actor.id)).values("pk")
    changed_by_actor = Q(changed_by_id=actor.id) | Q(changed_by_id__in=accounts)
    own_changes = PendingChange.objects.filter(changed_by_actor, tool=OuterRef("pk"))
    changed_settings = Exists(own_changes.exclude(place=CAPABILITY))
    set_last = Q(server__changed_by_id=actor.id) | Q(server__changed_by_id__in=accounts)
    barred = Q(approved=None) & Q(changed_settings) | Q(approved__isnull=False) & (set_last | Q(Exists(own_changes)))
    # A null on either side bars nobody. A NOT around these conditions would exclude such rows.
    not_barred = waiting.exclude(pk__in=Tool.objects.filter(barred).exclude(approved=F("current")).values("pk"))
    return not_barred.exclude(current=None)


def join_words(words: Sequence[str]) -> str:
    """Join words with commas and a final "and"."""
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


def _bar_last_setter(bars: dict[UUID, BarredReviewer], server: Server) -> None:
    if server.changed_by_id is None:
        return
    bar = bars.setdefault(server.changed_by_id, BarredReviewer(server.changed_by_name))
    if any(part.place for part in bar.parts):
        return
    registered = server.changed_at is None and server.changed_by_id == server.created_by_id
    part = (
        BarringAction("registered this server", server.created_at)
        if registered
        else BarringAction("last set how the server is reached", server.changed_at)
    )
    bar.parts.insert(0, part)


def _in_hands_of(person: UUID | None) -> Q:
    """Service accounts that a person controls, as owner, as backup owner or as creator of a credential."""
    return Q(owner_id=person) | Q(backup_owner_id=person) | Q(credentials__created_by_id=person)


def _bar_account_holders(bars: Mapping[UUID, BarredReviewer]) -> dict[UUID, BarredReviewer]:
    people: dict[UUID, BarredReviewer] = {}
    if not bars:
        return people
    rows = Identity.objects.filter(pk__in=bars).values_list(
        "pk", "owner_id", "backup_owner_id", "credentials__created_by_id"
    )
    for account, *holder_ids in rows:
        bar = bars[account]
        for holder in filter(None, holder_ids):
            people[holder] = BarredReviewer("", bar.parts, bar.name, bar.changed_capability)
    names = dict(User.objects.filter(pk__in=people).values_list("pk", "username")) if people else {}
    for holder, bar in people.items():
        bar.name = names.get(holder, "")
    return people


def _with_permission(permissions: QuerySet[Permission]) -> Q:
    return Q(pk__in=User.objects.filter(groups__permissions__in=permissions).values("pk")) | Q(
        pk__in=User.objects.filter(user_permissions__in=permissions).values("pk")
    )


def _restore_remedy(tool: Tool) -> ReviewRemedy | None:
    """Suggest to restore all settings that people changed to their approved values. Secrets cannot be restored."""
    approved, current = tool.approved, tool.current
    if approved is None or current is None:
        return None
    own_fields = ("server", "capability")
    if {**approved.body, **dict.fromkeys(own_fields)} != {**current.body, **dict.fromkeys(own_fields)}:
        return None
    places = find_changed_places(approved.body.get("server") or {}, current.body.get("server") or {})
    if any(place.startswith("secrets.") for place in places):
        return None
    capability_changed = current.body.get("capability") != approved.body.get("capability")
    labels = [_describe_place(place) for place in places] + (["the capability"] if capability_changed else [])
    verb = "is" if len(labels) == 1 else "are"
    sentence = (
        f"If {join_words(labels)} {verb} set back to what was approved, and the server lists the same definition, "
        "everybody with the right may approve it."
    )
    approvers = tuple(find_right_holders().values_list("username", flat=True))
    return ReviewRemedy(sentence, places=tuple(places), restores=True, approvers=approvers)


def _takeover_remedy(barred: Mapping[UUID, BarredReviewer], bars: Mapping[UUID, BarredReviewer]) -> ReviewRemedy | None:
    """Suggest that somebody else sets a barred person's settings again, so that the person may approve afterwards."""
    setters = {person.pk: person.username for person in find_right_holders("change_server")}
    accounts_by_person: dict[UUID, set[UUID]] = defaultdict(set)
    for account, *people in Identity.objects.filter(pk__in=bars).values_list(
        "pk", "owner_id", "backup_owner_id", "credentials__created_by_id"
    ):
        for person in filter(None, people):
            accounts_by_person[person].add(account)
    for person, bar in barred.items():
        others = [name for pk, name in setters.items() if pk != person]
        if bar.changed_capability or accounts_by_person[person] or not others:
            continue
        places = tuple(part.place for part in bar.parts if part.place)
        # Prefer people who are barred anyway.
        barred_names = [other_bar.name for pk, other_bar in barred.items() if pk != person and other_bar.name in others]
        name = (barred_names or others)[0]
        action = (
            f"sets {join_words([_describe_place(place) for place in places])} again"
            if places
            else "sets how the server is reached"
        )
        sentence = (
            f"If {name} {action} (to another value, or back to what was approved), and the server answers, "
            f"{bar.name} may approve what waits then."
        )
        return ReviewRemedy(sentence, by=name, places=places, approvers=(bar.name,))
    return None


def _superuser_remedy(barred: Mapping[UUID, BarredReviewer]) -> ReviewRemedy:
    superusers = tuple(User.objects.active().filter(is_superuser=True).values_list("username", flat=True))
    barred_superusers = tuple(name for name in superusers if name in {bar.name for bar in barred.values()})
    prefix = (
        f"{join_words(barred_superusers)} may approve it as superuser, on record as breaking glass. "
        if barred_superusers
        else ""
    )
    return ReviewRemedy(
        f"{prefix}A superuser can give another person a role that may approve definitions.", approvers=barred_superusers
    )
