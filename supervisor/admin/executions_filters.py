"""What the list of runs can be narrowed by."""

from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.utils import timezone

from common.console.lists import Filter, choice_filter
from common.console.pages import link
from common.ids import parse_uuid
from nhi.console.log_filters import SPANS, time_filter
from nhi.people import read_markers
from supervisor.choices import ErrorCategory, ExecutionState, ExecutionStatus, Trigger

Rows = QuerySet[Any]
#: What people mean when they say that something went wrong.
WRONG, WRONG_WORDS = "wrong", "Failed or timed out"
WENT_WRONG = (ExecutionStatus.FAILURE, ExecutionStatus.TIMEOUT)
#: A run is in these for a moment after its outcome is known.
BETWEEN = (ExecutionState.IDLE, ExecutionState.CLEANUP)
STATES = [choice for choice in ExecutionState.choices if choice[0] not in BETWEEN]


def list_url(**query: str) -> str:
    """The list of runs narrowed by this; what is empty is left out."""
    said = urlencode({name: value for name, value in query.items() if value})
    return f"{link('supervisor_execution_changelist')}?{said}" if said else link("supervisor_execution_changelist")


def by_state(rows: Rows, value: str) -> Rows:
    if value == WRONG:
        return rows.filter(status__in=WENT_WRONG)
    if value == "open":
        return rows.filter(status=None)
    narrowed: Rows = rows.said_to_be(value)  # type: ignore[attr-defined]  # the rows are of our own queryset
    return narrowed


def by_agent(rows: Rows, value: str) -> Rows:
    known = parse_uuid(value)
    return rows.filter(agent_id=known) if known else rows.filter(agent__name=value)


def by_span(rows: Rows, value: str) -> Rows:
    return rows.filter(created_at__gte=timezone.now() - SPANS[value][1])


def by_starter(rows: Rows, value: str) -> Rows:
    return rows.filter(started_by_name__iexact=value)


def by_seen(rows: Rows, _value: str) -> Rows:
    return read_markers.filter_unseen(rows, time="end_time")


FILTERS = (
    Filter("agent", "Agent", by_agent),
    Filter(
        "state", "State", by_state, lambda _request: [("open", "Not done yet"), (WRONG, WRONG_WORDS), *STATES]
    ),
    choice_filter("category", "Category", "error_category", ErrorCategory.choices),
    choice_filter("trigger", "Started by", "trigger", Trigger.choices),
    Filter("by", "Who", by_starter),
    Filter("span", "Time", by_span, lambda _request: [(key, words) for key, (words, _) in SPANS.items()], empty="Any"),
    Filter("seen", "Seen", by_seen, lambda _request: [("no", "Not by me")]),
    Filter("since", "From", time_filter("created_at__gte"), kind="datetime-local"),
    Filter("until", "Until", time_filter("created_at__lt"), kind="datetime-local"),
)  # fmt: skip
