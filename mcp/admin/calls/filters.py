"""What the log of calls can be narrowed by, each part so that an index of the log answers it."""

import math
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from common.console import badges
from common.console.lists import Filter
from common.console.pages import link
from common.ids import parse_uuid
from common.templatetags.console import spell_invisible
from mcp.models import Server, Tool
from nhi.admin.audit.authentication_failures import REASONS as REFUSED_TOKENS
from nhi.choices import CallStatus, Kind
from nhi.console.log_filters import SPANS, time_filter
from nhi.decisions.reasons import REASONS, RESULT_REASONS
from nhi.models import Identity

Rows = QuerySet[Any]
LAST_DAY, EVER = timedelta(hours=24), "all"
OTHER_SPANS = {key: words for key, (words, span) in SPANS.items() if span != LAST_DAY} | {EVER: "Any time"}
#: A text that more names hold than this is looked for in the rows themselves, of which many will have it.
MOST_NAMES = 100
#: Who is refused for one of these has shown no token that holds: that is no call, and counted where tokens are.
AT_THE_DOOR = frozenset(REFUSED_TOKENS) - {"decision_failed"}


def log_url(**query: str) -> str:
    """The log narrowed by this; what is empty is left out."""
    return (
        f"{link('nhi_invocationlog_changelist')}?{urlencode({name: value for name, value in query.items() if value})}"
    )


def within_a_day(rows: Rows, query: Any) -> Rows:
    """Without a word about time the last day; an id is looked for everywhere."""
    said = query.get("span") in OTHER_SPANS or query.get("since") or query.get("until")
    return rows if said or parse_uuid(query.get("find", "")) else rows.filter(timestamp__gte=_ago(LAST_DAY))


def _ago(span: timedelta) -> Any:
    return timezone.now() - span


def by_span(rows: Rows, value: str) -> Rows:
    return rows if value == EVER else rows.filter(timestamp__gte=_ago(SPANS[value][1]))


def by_agent(rows: Rows, value: str) -> Rows:
    """By name or id; the column of names has no index."""
    known = parse_uuid(value)
    callers = Identity.objects.filter(name=value).exclude(kind=Kind.TOOL)
    return rows.filter(agent_id__in=[known] if known else list(callers.values_list("pk", flat=True)))


def by_owner(rows: Rows, value: str) -> Rows:
    """Calls of the identities that a person owns."""
    owned = Identity.objects.filter(owner__username__iexact=value).exclude(kind=Kind.TOOL)
    return rows.filter(agent_id__in=list(owned.values_list("pk", flat=True)))


def by_tool(rows: Rows, value: str) -> Rows:
    """`create_issue` on any server, `github__create_issue`, or as the log shows it, `github.create_issue`."""
    server, split, tool = value.partition("__")
    if split:
        return rows.filter(tool_name=server, method=tool)
    servers = list(Server.objects.values_list("name", flat=True))
    server, _, tool = value.partition(".")
    if server in servers:
        return rows.filter(tool_name=server, method=tool)
    return rows.filter(tool_name__in=servers, method=value)


def by_outcome(rows: Rows, value: str) -> Rows:
    """A status, or a status and its reason."""
    status, _, reason = value.partition(":")
    narrowed = rows.filter(status=status)
    return narrowed.filter(reason=reason) if reason else narrowed


def by_duration(rows: Rows, value: str) -> Rows:
    return rows.filter(duration__gt=float(value)) if _is_number(value) else rows.none()


def by_text(rows: Rows, value: str) -> Rows:
    """The id of a call, a request or a run; or a part of the name of an agent, a server or a tool."""
    if known := parse_uuid(value):
        return rows.filter(Q(pk=known) | Q(request_id=known) | Q(run_id=known))
    called = Identity.objects.filter(name__icontains=value)
    agents = list(called.exclude(kind=Kind.TOOL).values_list("pk", flat=True)[:MOST_NAMES])
    tools = list(Tool.objects.filter(name__icontains=value).values_list("server__name", "name")[:MOST_NAMES])
    servers = list(Server.objects.filter(name__icontains=value).values_list("name", flat=True)[:MOST_NAMES])
    if max(len(agents), len(tools), len(servers)) == MOST_NAMES:
        return rows.filter(Q(agent_name__icontains=value) | Q(tool_name__icontains=value) | Q(method__icontains=value))
    found = Q(agent_id__in=agents) | Q(tool_name__in=[*servers, value])
    for server, tool in tools:
        found |= Q(tool_name=server, method=tool)
    return rows.filter(found)


def misread(request: HttpRequest) -> list[str]:
    """Of each filter whose value says nothing, what became of it: a list that is silent looks as if it had obeyed."""
    given = {one: request.GET.get(one.name, "").strip() for one in FILTERS}
    return [said for one, value in given.items() if value and (said := _problem(one, value, request))]


def _problem(one: Filter, value: str, request: HttpRequest) -> str:
    if one.choices and value not in dict(one.choices(request)) and not (one.name == "span" and value in SPANS):
        return f"{one.label}: {spell_invisible(value[:60])} is not known here, so this filter is left out."
    if one.kind == "number" and not _is_number(value):
        return f"{one.label}: {spell_invisible(value[:60])} is no number, so nothing matches."
    if one.kind == "datetime-local" and not _is_moment(value):
        text = spell_invisible(value[:60])
        return f"{one.label}: {text} is no time, so nothing matches. Write it like 2026-11-18T14:00."
    return ""


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _is_moment(value: str) -> bool:
    try:
        return parse_datetime(value) is not None
    except ValueError:
        return False


def _outcomes(_request: HttpRequest) -> list[tuple[str, str]]:
    return [(value, words) for status in CallStatus for value, words in _of_status(status)]


def _of_status(status: CallStatus) -> list[tuple[str, str]]:
    said = badges.of(status).label
    return [(status.value, said), *((f"{status.value}:{reason}", f"{said}: {reason}") for reason in _reasons(status))]


def _reasons(status: CallStatus) -> list[str]:
    refused = [
        reason
        for reason, known in REASONS.items()
        if not known.allows and reason not in AT_THE_DOOR and known.outcome.log_status == status
    ]
    return sorted({*refused, *RESULT_REASONS} if status == CallStatus.ERROR else refused)


FILTERS = (
    Filter("span", "Time", by_span, lambda _request: list(OTHER_SPANS.items()), empty=SPANS["24h"][0]),
    Filter("since", "From", time_filter("timestamp__gte"), kind="datetime-local"),
    Filter("until", "Until", time_filter("timestamp__lt"), kind="datetime-local"),
    Filter("agent", "Agent", by_agent),
    Filter("server", "Server", lambda rows, value: rows.filter(tool_name=value)),
    Filter("tool", "Tool", by_tool),
    Filter("outcome", "Outcome", by_outcome, _outcomes),
    Filter("slower", "Slower than (ms)", by_duration, kind="number"),
    Filter("owner", "Owner", by_owner),
    Filter("find", "Id or name", by_text),
)
