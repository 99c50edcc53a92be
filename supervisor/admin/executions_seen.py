"""Failures that a person has not seen yet: what the sidebar counts, until they say that they have."""

from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import path
from django.utils.dateparse import parse_datetime
from django.utils.http import urlencode

from common.admin.forms import ConsoleForm
from common.admin.pages import Control, link
from common.errors import NotAllowed, NotFound
from nhi import looks
from nhi.actors import Actor
from nhi.admin import counts
from nhi.admin.acting import actor_of
from nhi.admin.base import ActingDialog
from supervisor.admin.executions_filters import WRONG, by_seen, list_url
from supervisor.models import Execution

PAGE = "supervisor_execution_changelist"


def with_look(actor: Actor, rows: QuerySet[Execution]) -> QuerySet[Any]:
    """For the filter `seen`, which knows nobody; where it is not used it costs nothing."""
    return rows.alias(looked_at=looks.last(actor, PAGE))


def unseen(actor: Actor, rows: QuerySet[Execution]) -> QuerySet[Any]:
    return by_seen(with_look(actor, rows), "no")


def note_rows(request: HttpRequest, rows: list[Execution]) -> None:
    """Until when somebody has seen all who looks at these."""
    ended = [run.end_time for run in rows if run.end_time is not None]
    request._seen_until = max(ended, default=None)  # type: ignore[attr-defined]  # kept on the request for the button


def controls(request: HttpRequest) -> list[Control]:
    """On a list of what went wrong, for who has not seen all of it."""
    until, query = getattr(request, "_seen_until", None), request.GET
    if until is None or query.get("state") != WRONG or actor_of(request).only_reads:
        return []
    if query.get("seen") != "no" and not counts.for_request(request).get("runs_failed"):
        return []
    url = f"{link('supervisor_execution_seen')}?{urlencode({'until': until.isoformat()})}"
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
        until = _moment(self.request.GET.get("until", ""))
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
