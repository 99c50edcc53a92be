"""Failures that a person has not seen yet: what the sidebar counts, until they say that they have."""

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import path
from django.utils.dateparse import parse_datetime
from django.utils.http import urlencode

from common.admin.forms import ConsoleForm
from common.admin.lists import Listing
from common.admin.pages import Control, link
from common.errors import Conflict, NotAllowed, NotFound
from nhi import looks
from nhi.actors import Actor
from nhi.admin import counts
from nhi.admin.acting import actor_of
from nhi.admin.audit_filters import SPANS
from nhi.admin.base import ActingDialog
from supervisor.admin.executions_filters import FILTERS, WRONG, by_seen, list_url
from supervisor.models import Execution

PAGE, DAY = "supervisor_execution_changelist", timedelta(hours=24)
#: What the count in the sidebar leaves out anyway: a list narrowed by no more than these hides nothing that is marked.
HIDES_NOTHING = {
    ("state", WRONG),
    ("seen", "no"),
    *(("span", span) for span, (_, time) in SPANS.items() if time >= DAY),
}


def with_look(actor: Actor, rows: QuerySet[Execution]) -> QuerySet[Any]:
    """For the filter `seen`, which knows nobody; where it is not used it costs nothing."""
    return rows.alias(looked_at=looks.last(actor, PAGE))


def unseen(actor: Actor, rows: QuerySet[Execution]) -> QuerySet[Any]:
    return by_seen(with_look(actor, rows), "no")


def note_rows(request: HttpRequest, rows: list[Execution]) -> None:
    """Until when somebody has seen all who looks at these.

    One that ended before the last of these and was committed after they were read would be marked unseen by anybody: a
    gap as short as the transaction that ends a run.
    """
    ended = [run.end_time for run in rows if run.end_time is not None]
    request._seen_until = max(ended, default=None)  # type: ignore[attr-defined]  # kept on the request for the button


def _narrowing(request: HttpRequest) -> list[tuple[str, str]]:
    return Listing(request, Execution.objects.none(), (), FILTERS).kept


def controls(request: HttpRequest) -> list[Control]:
    """On a list of all that went wrong, for who has not seen all of it."""
    until, narrowing = getattr(request, "_seen_until", None), _narrowing(request)
    if until is None or ("state", WRONG) not in narrowing or actor_of(request).only_reads:
        return []
    if not HIDES_NOTHING.issuperset(narrowing):
        return []
    if ("seen", "no") not in narrowing and not counts.for_request(request).get("runs_failed"):
        return []
    url = f"{link('supervisor_execution_seen')}?{urlencode([*narrowing, ('moment', until.isoformat())])}"
    return [Control("Mark all as seen", url, "done_all", posts=True)]


class Seen(ActingDialog):
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
        looks.note(actor=actor_of(self.request), page=PAGE, until=until)
        counts.forget(self.actor)
        messages.success(self.request, "What went wrong until then is marked as seen by you.")
        return self.back()


def _moment(said: str) -> Any:
    try:
        found = parse_datetime(said)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise NotFound
    return found


URLS = [path("seen/", Seen.as_view(), name="supervisor_execution_seen")]
