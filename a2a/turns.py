"""Whose delivery is taken next: owners take turns, and so do the places that each of them tells something.

Neither an owner with many that are due nor a receiver that hangs holds up anybody else.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from a2a.models import Delivery
from common.db import clock

#: Of one process at a time.
MOST_TO_ONE_PLACE, MOST_OF_ONE_OWNER = 8, 32
#: Looked at in the order in which they are due; where there are more, every lane is.
WINDOW = 500
#: Of which something is read by one statement, which is longer the more they are.
LANES = 16
_READ = ("pk", "owner_id", "place", "next_at")


class Lane(NamedTuple):
    owner: UUID
    place: str


class Due(NamedTuple):
    key: UUID
    lane: Lane


@dataclass
class Turns:
    """Of one round of deliveries."""

    #: How many are under way.
    busy: Mapping[Lane, int] = field(default_factory=dict)
    #: When each owner last had one taken, counted in turns.
    _last: dict[UUID, int] = field(default_factory=dict)
    _turn: int = 0

    def next(self, most: int) -> list[UUID]:
        """The deliveries to take now."""
        found = _read(Delivery.objects.due().order_by("next_at", "id").values_list(*_READ)[:WINDOW])
        taken = self._of_lanes(most) if len(found) == WINDOW else self._in_turn(found, most)
        for one in taken:
            self._turn += 1
            self._last[one.lane.owner] = self._turn
        return [one.key for one in taken]

    def _of_lanes(self, most: int) -> list[Due]:
        """One whose time has come may have nothing that can go yet: the next are asked until there is enough."""
        lanes, found, taken = _lanes(), list[Due](), list[Due]()
        while len(taken) < most and (asked := self._in_turn(lanes, LANES)):
            found += _heads([one.lane for one in asked])
            taken = self._in_turn(found, most)
            lanes = [one for one in lanes if one not in asked]
        return taken

    def _in_turn(self, found: Iterable[Due], most: int) -> list[Due]:
        """Who has the fewest under way comes first, then who has waited for a turn the longest; with each of them the
        place that hears the least, then what is due the longest."""
        waiting, room = defaultdict[UUID, list[Due]](list), _Room(self.busy)
        for one in found:
            if room.has(one.lane):
                waiting[one.lane.owner].append(one)
        taken: list[Due] = []
        while waiting and len(taken) < most:
            owner = min(waiting, key=lambda who: (room.owners[who], self._last.get(who, 0)))
            fitting = [one for one in waiting[owner] if room.has(one.lane)]
            if not fitting:
                del waiting[owner]
                continue
            one = min(fitting, key=lambda one: room.lanes[one.lane])
            waiting[owner].remove(one)
            room.fill(one.lane)
            taken.append(one)
        return taken


class _Room:
    def __init__(self, busy: Mapping[Lane, int]) -> None:
        self.lanes, self.places, self.owners = Counter(busy), Counter[str](), Counter[UUID]()
        for lane, many in busy.items():
            self.places[lane.place] += many
            self.owners[lane.owner] += many

    def has(self, lane: Lane) -> bool:
        return self.places[lane.place] < MOST_TO_ONE_PLACE and self.owners[lane.owner] < MOST_OF_ONE_OWNER

    def fill(self, lane: Lane) -> None:
        self.lanes[lane] += 1
        self.places[lane.place] += 1
        self.owners[lane.owner] += 1


#: From each lane to the next by the index, whatever stands in it. What is pending has a time, and nothing else does.
_TABLE = Delivery._meta.db_table
_WALK = f"""
WITH RECURSIVE heads(id) AS (
    SELECT id FROM (
        SELECT id FROM {_TABLE} WHERE next_at IS NOT NULL ORDER BY owner_id, place, next_at LIMIT 1
    ) AS first
    UNION ALL
    SELECT (
        SELECT later.id FROM {_TABLE} later WHERE later.next_at IS NOT NULL
        AND (later.owner_id, later.place) > (head.owner_id, head.place)
        ORDER BY later.owner_id, later.place, later.next_at LIMIT 1
    ) FROM heads JOIN {_TABLE} head ON head.id = heads.id
)
SELECT delivery.id, delivery.owner_id, delivery.place, delivery.next_at, delivery.lease_until
FROM heads JOIN {_TABLE} delivery ON delivery.id = heads.id ORDER BY delivery.next_at
"""  # noqa: S608 - the name of a model


def _lanes() -> list[Due]:
    """The first of each that has something due; last those of which another process is about that, and maybe all."""
    now = clock.database_now()
    rows = [row for row in Delivery.objects.raw(_WALK) if row.next_at and row.next_at <= now]
    rows.sort(key=lambda row: row.lease_until is not None and row.lease_until > now)
    return [Due(row.pk, Lane(row.owner_id, row.place)) for row in rows]


def _heads(lanes: list[Lane]) -> list[Due]:
    """As many of each as may be under way; SQLite limits no part of a union, so that is done within each."""
    parts = [Delivery.objects.filter(pk__in=_first(lane).values("pk")).order_by().values_list(*_READ) for lane in lanes]
    return _read(parts[0].union(*parts[1:], all=True).order_by("next_at")) if parts else []


def _first(lane: Lane) -> QuerySet[Delivery]:
    rows = Delivery.objects.due().filter(owner_id=lane.owner, place=lane.place)
    return rows.order_by("next_at", "id")[:MOST_TO_ONE_PLACE]


def _read(rows: Any) -> list[Due]:
    return [Due(key, Lane(owner, place)) for key, owner, place, _ in rows]
