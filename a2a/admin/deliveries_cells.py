"""How one delivery is written in a line: the same in the list and on its task's page."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from a2a.admin import tasks_cells
from a2a.choices import DeliveryState, TaskState, Trouble
from a2a.models import Delivery
from a2a.retrying import ATTEMPTS
from common.console import badges, times
from common.console.badges import Badge
from common.console.lists import Column
from common.console.pages import link
from common.templatetags.console import badge, outside
from nhi.console import columns

#: By a person, or by its caller, who took the push configuration away.
CALLED_OFF = (Trouble.STOPPED, Trouble.WITHDRAWN)
PLAIN_PORTS = (":443", ":80")


def for_lines(rows: QuerySet[Any]) -> QuerySet[Any]:
    unread = (f"task__{name}" for name in tasks_cells.NOT_SHOWN)
    return rows.select_related("task").defer("body", *unread)


def standing(row: Delivery) -> Badge:
    if row.state == DeliveryState.DISABLED and row.reason in CALLED_OFF:
        return _word("stopped")
    if row.state != DeliveryState.PENDING or row.next_at is None:
        return _word(row.state)
    now, made = timezone.now(), row.attempts - row.attempts_before
    if row.lease_until is not None and row.lease_until > now:
        return _word("under_way").saying(f"Attempt {made} of {ATTEMPTS} under way")
    if made < 1:
        return _word(row.state)
    return _word("retrying").saying(f"Retry {made + 1} of {ATTEMPTS} {_at(row.next_at, now)}")


def _word(state: str) -> Badge:
    return badges.find("a2a.DeliveryState", state)


def _at(moment: datetime, now: datetime) -> str:
    """`at 14:05`, and on another day with its date."""
    zone = timezone.get_current_timezone()
    here = moment.astimezone(zone)
    return f"at {here:%H:%M}" if here.date() == now.astimezone(zone).date() else f"on {times.absolute(moment, now)}"


def event(row: Delivery) -> str:
    """What it tells of: an end to a callback, else an event to who asked for each."""
    if row.event_seq is not None:
        return f"{row.task.short_id} event {row.event_seq}"
    return f"{row.task.short_id} {TaskState(row.task.state).label.lower()}"


def endpoint(row: Delivery) -> str:
    """The host, and a port that is not the usual one."""
    return short(row.place)


def short(place: str) -> str:
    return place.removesuffix(PLAIN_PORTS[0]).removesuffix(PLAIN_PORTS[1])


def answer(row: Delivery) -> str:
    """What the last attempt came to: the status, else why there is none."""
    if row.last_status is not None:
        return str(row.last_status)
    said = row.reason and row.reason not in (Trouble.GONE, Trouble.EGRESS_BLOCKED, *CALLED_OFF)
    return badges.find("a2a.Trouble", row.reason).label if said else ""


def name(row: Delivery) -> str:
    """`T-8f3a21 to hooks.example.com`; of one among the many of a task, which event."""
    what = row.task.short_id if row.event_seq is None else event(row)
    return f"{what} to {endpoint(row)}"


def _endpoint(row: Delivery) -> SafeString:
    return format_html('<span class="gh-endpoint">{}</span>', outside(endpoint(row), 60))


def _state(row: Delivery) -> SafeString:
    return badge(standing(row))


def _next(row: Delivery) -> datetime | None:
    return row.next_at


COLUMNS = (
    Column("Event", lambda row: format_html('<span class="gh-nowrap">{}</span>', event(row)), event, narrow=True),
    Column("Endpoint", _endpoint, endpoint, narrow=True),
    Column("State", _state, lambda row: standing(row).label, narrow=True),
    columns.plain("Attempts", lambda row: row.attempts),
    columns.plain("Last answer", answer),
    columns.moment("Next try", _next, missing="none"),
    columns.moment("Happened", lambda row: row.created_at, narrow=True),
    Column("Asked by", lambda row: outside(row.owner_name, 80), lambda row: row.owner_name),
)
HEADINGS = [{"label": column.label, "narrow": column.narrow} for column in COLUMNS]


def drawn(row: Delivery) -> dict[str, Any]:
    """A row of a table that stands on another page."""
    cells = [{"html": column.cell(row), "narrow": column.narrow} for column in COLUMNS]
    return {"id": str(row.pk), "name": str(row), "url": link("a2a_delivery_hub", row.pk), "cells": cells}
