"""Failures that a person has not seen yet: what the sidebar counts, until they say that they have."""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import path
from django.utils.dateparse import parse_datetime
from django.utils.http import urlencode

from common.console.forms import ConsoleForm
from common.console.lists import ListQuery
from common.console.pages import Control, link
from common.errors import Conflict, NotAllowed, NotFound
from nhi.actors import Actor
from nhi.console import attention_counts
from nhi.console.base import ActorDialog
from nhi.console.log_filters import SPANS
from nhi.console.request_actor import actor_of
from nhi.people import read_markers
from supervisor.admin.executions_filters import FILTERS, WENT_WRONG, WRONG, by_seen, list_url
from supervisor.models import Execution

PAGE, DAY, WEEK = "supervisor_execution_changelist", timedelta(hours=24), timedelta(days=7)
#: What the count in the sidebar leaves out anyway: a list narrowed by no more than these hides nothing that is marked.
HIDES_NOTHING = {
    ("state", WRONG),
    ("seen", "no"),
    *(("span", span) for span, (_, time) in SPANS.items() if time >= DAY),
}


def with_look(actor: Actor, rows: QuerySet[Execution]) -> QuerySet[Any]:
    """For the filter `seen`, which knows nobody; where it is not used it costs nothing."""
    return read_markers.annotate_read_marker(actor, PAGE, rows)


def unseen(actor: Actor, rows: QuerySet[Execution]) -> QuerySet[Any]:
    return by_seen(with_look(actor, rows), "no")


def note_rows(request: HttpRequest, rows: list[Execution]) -> None:
    """When the last of them ended: until then somebody has seen all who looks at these."""
    ended = [run.end_time for run in rows if run.end_time is not None]
    request._seen_until = max(ended, default=None)  # type: ignore[attr-defined]  # kept on the request for the button


def _late(actor: Actor, until: datetime) -> list[UUID]:
    """Those that ended so shortly before that others, which ended sooner, may not be there yet."""
    rows = Execution.objects.visible_to(actor).filter(status__in=WENT_WRONG, created_at__gt=until - WEEK)
    late = rows.filter(end_time__gt=read_markers.individual_rows_start(until), end_time__lte=until)
    return sorted(late.values_list("pk", flat=True))


def _mark(late: list[UUID]) -> str:
    return sha256(b"".join(pk.bytes for pk in late)).hexdigest()[:16]


def _narrowing(request: HttpRequest) -> list[tuple[str, str]]:
    return ListQuery(request, Execution.objects.none(), (), FILTERS).kept


def controls(request: HttpRequest) -> list[Control]:
    """On a list of all that went wrong, for who has not seen all of it."""
    until, narrowing = getattr(request, "_seen_until", None), _narrowing(request)
    if until is None or ("state", WRONG) not in narrowing or actor_of(request).only_reads:
        return []
    if not HIDES_NOTHING.issuperset(narrowing):
        return []
    if ("seen", "no") not in narrowing and not attention_counts.counts_for_request(request).get("runs_failed"):
        return []
    seen = [("moment", until.isoformat()), ("mark", _mark(_late(actor_of(request), until)))]
    url = f"{link('supervisor_execution_seen')}?{urlencode([*narrowing, *seen])}"
    return [Control("Mark all as seen", url, "done_all", posts=True)]


class Seen(ActorDialog):
    title = "Mark failed runs as seen"
    button = "Mark all as seen"
    lead = "The sidebar and Home count for you what goes wrong from now on. For others nothing changes."

    def check(self) -> None:
        if self.actor.only_reads:
            raise NotAllowed("You may not mark what you have seen.")

    def back(self) -> str:
        return list_url(state=WRONG, span="24h")

    def act(self, form: ConsoleForm) -> str:
        until = _moment(self.request.GET.get("moment", ""))
        if not HIDES_NOTHING.issuperset(_narrowing(self.request)):
            raise Conflict(
                "The list hides failures that would be marked too: clear its other filters. Nothing was marked."
            )
        late = _late(self.actor, until)
        if self.request.GET.get("mark") != _mark(late):
            raise Conflict("More has failed that you have not seen yet. Nothing was marked: look at the list again.")
        read_markers.mark_seen(actor=self.actor, page=PAGE, until=until, individual_ids=late)
        attention_counts.clear_cache(self.actor)
        messages.success(self.request, "What went wrong until then is marked as seen by you.")
        return self.back()


def _moment(said: str) -> datetime:
    try:
        found = parse_datetime(said)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None or found < read_markers.EPOCH + WEEK:
        raise NotFound
    return found


URLS = [path("seen/", Seen.as_view(), name="supervisor_execution_seen")]
