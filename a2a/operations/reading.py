"""Operations that change nothing."""

import time
from bisect import bisect_right
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from itertools import accumulate
from typing import Any
from uuid import UUID

from django.db.models import Q

from a2a import cards, showing, tallies
from a2a.models import Task
from a2a.models.whose import WhoseQuerySet
from a2a.operations import visits
from a2a.operations.answers import Began
from a2a.operations.visits import Visit
from a2a.wire.faults import invalid
from common import crypto
from common.api.signed_cursors import SignedCursors

PAGE = 50
#: Of a page with what was said and made.
MOST_BYTES = 16 * 1024 * 1024
#: What no tally tells apart is counted, and no further: a number that nobody reads to the end is not worth a walk over
#: a million rows.
MOST_COUNTED = 10_000
sign = partial(crypto.sign, "a2a-cursor")


def get(visit: Visit, params: Mapping[str, Any]) -> dict[str, Any]:
    return showing.task(visits.task(visit, params["id"]), history=params.get("historyLength"))


def extended_card(visit: Visit, params: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - it takes none
    """The card as this caller may read it, in the form of the version that it speaks."""
    return dict(cards.extended(visit.caller, visit.agent, visit.version))


def listing(visit: Visit, params: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's own, the latest change first."""
    rows, size = _among(_narrowed(visit, params, Task.objects.all()), params), params.get("pageSize", PAGE)
    page = list(_behind(visit, rows, params).order_by("-state_at", "-id")[: size + 1])
    history, artifacts = params.get("historyLength", 0), params.get("includeArtifacts", False)
    kept = _within(page[:size], MOST_BYTES) if history != 0 or artifacts else page[:size]
    more, page = len(page) > len(kept), kept
    return {
        "tasks": showing.tasks(page, history=history, artifacts=artifacts),
        "nextPageToken": _token(visit, page[-1]) if more else "",
        "pageSize": size,
        "totalSize": _number(visit, params, rows),
    }


def _within(page: list[Task], most: int) -> list[Task]:
    """As many of the first as are no larger together, and one at least: the token of the page leads to the rest."""
    sums = list(accumulate(task.size for task in page))
    return page[: max(bisect_right(sums, most), 1)]


def subscribe(visit: Visit, params: Mapping[str, Any]) -> Began:
    found = visits.task(visit, params["id"])
    return Began(found, visit.caller_id)


def _narrowed(visit: Visit, params: Mapping[str, Any], tasks: WhoseQuerySet[Any]) -> WhoseQuerySet[Any]:
    """By what tallies know too."""
    rows = tasks.filter(agent_id=visit.agent.pk).held_by(visit.actor)
    if "status" in params:
        rows = rows.filter(state=params["status"].removeprefix("TASK_STATE_").lower())
    return rows


def _among(rows: WhoseQuerySet[Any], params: Mapping[str, Any]) -> WhoseQuerySet[Any]:
    """By what only tasks themselves know."""
    if "contextId" in params:
        rows = rows.filter(context_id=params["contextId"])
    if "statusTimestampAfter" in params:
        rows = rows.filter(state_at__gte=datetime.fromisoformat(params["statusTimestampAfter"]))
    return rows


def _number(visit: Visit, params: Mapping[str, Any], rows: WhoseQuerySet[Any]) -> int:
    if params.keys() & {"contextId", "statusTimestampAfter"}:
        return rows[:MOST_COUNTED].count()
    return tallies.total(partial(_narrowed, visit, params), run_id=visit.actor.run_id)


def _behind(visit: Visit, rows: Any, params: Mapping[str, Any]) -> Any:
    token = params.get("pageToken")
    if not token:
        return rows
    said = _cursors(visit).decode_cursor(token, now=time.time())
    if said is None:
        raise invalid(("pageToken", "This is not one that a list gave you here, or too old. Begin again without one."))
    at, _, pk = said.partition(" ")
    moment = datetime.fromisoformat(at)
    return rows.filter(Q(state_at__lt=moment) | Q(state_at=moment, pk__lt=UUID(pk)))


def _token(visit: Visit, last: Task) -> str:
    return _cursors(visit).encode_cursor(f"{last.state_at.isoformat()} {last.pk}", now=time.time())


def _cursors(visit: Visit) -> SignedCursors:
    return SignedCursors(sign, str(visit.caller_id), visit.agent.name)
