"""How many tasks an agent takes: exact over all processes, since who sends beside us waits for the endpoint's row."""

from datetime import timedelta
from math import ceil
from typing import Any
from uuid import UUID

from a2a.models import Endpoint, Task
from common import canonical_json
from common.db import clock
from common.errors import PayloadTooLarge, RateLimited
from common.fastsql.compiled_queries import PreparedQuery
from nhi.models import Identity

#: Bytes of what one artifact may be.
USUAL = Endpoint().max_output_size
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
_OF_AGENT = PreparedQuery(lambda agent: Endpoint.objects.filter(pk=agent), agent=UUID)
#: Seconds. Nobody knows when an open task ends.
BUSY_FOR = 5


class EndpointLimited(RateLimited):
    """As many tasks were sent to the agent lately as its endpoint takes."""

    code = "endpoint_rate_limited"


class EndpointBusy(RateLimited):
    """The agent has as many tasks as it works on at a time."""

    code = "endpoint_busy"


class InputTooLarge(PayloadTooLarge):
    code = "input_too_large"


class OutputTooLarge(PayloadTooLarge):
    code = "output_too_large"


def require(identity: Identity, given: Any = None) -> None:
    """Call it in the transaction that writes a new task for `identity`, of which `given` is the input."""
    row = _of(identity)
    if row is None:
        return
    if len(canonical_json.encode(given)) > row.max_input_size:
        raise InputTooLarge(row.max_input_size)
    if row.is_limited:
        _require_room(Endpoint.objects.select_for_update(of=("self",)).get(pk=row.pk), identity)


def _of(identity: Identity) -> Endpoint | None:
    """As it was read with the identity, if it was; what it counts is counted under the lock of the row as it is."""
    if Identity._meta.get_field("endpoint").is_cached(identity):
        return getattr(identity, "endpoint", None)
    found: Endpoint | None = _OF_AGENT.fetch_first(agent=identity.pk)
    return found


def require_output(most: int | None, made: Any) -> None:
    """Of one artifact, by its JSON; `most` is None for an agent whose endpoint nobody has set."""
    require_size(most, len(canonical_json.encode(made)))


def require_size(most: int | None, size: int) -> None:
    most = USUAL if most is None else most
    if size > most:
        raise OutputTooLarge(most)


def require_said(identity: Identity, said: Any) -> None:
    """Of what an agent says in place of making something."""
    row = _of(identity)
    require_output(row.max_output_size if row else None, said)


def _require_room(row: Endpoint, identity: Identity) -> None:
    most = row.max_concurrent_tasks
    if most is not None and Task.objects.open().filter(agent=identity).count() >= most:
        words = "one task" if most == 1 else f"{most} tasks"
        raise EndpointBusy(f"{identity.name} works on {words} at a time, and has as many.", retry_after=BUSY_FOR)
    for limit, window, word in ((row.tasks_per_minute, MINUTE, "minute"), (row.tasks_per_hour, HOUR, "hour")):
        if limit is not None:
            _require_lately(identity, limit, window, word)


def _require_lately(identity: Identity, limit: int, window: timedelta, word: str) -> None:
    """The `limit`th newest of the window says whether it is full, and when there is room again."""
    now = clock.database_now()
    lately = Task.objects.filter(agent=identity, created_at__gt=now - window).order_by("-created_at", "-id")
    filling = lately.values_list("created_at", flat=True)[limit - 1 : limit].first()
    if filling is not None:
        said = f"{identity.name} takes {limit} {'task' if limit == 1 else 'tasks'} a {word}, and was sent as many."
        raise EndpointLimited(said, retry_after=ceil((filling + window - now).total_seconds()))
