"""What the lists of grants show in their columns, and what they can be narrowed by."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast, Now
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from common.console import badges
from common.console.lists import Column, Filter
from common.templatetags.console import badge, outside
from nhi.choices import GrantState
from nhi.console import columns
from nhi.console import state_badges as states
from nhi.models import Identity
from nhi.models.grants import Grant
from nhi.templatetags.identities import grant_limits, kind_icon, state_of

REASON_SHOWN = 80
#: Ends that the list can be narrowed to: within so many days.
WITHIN = (("1", "Within 1 day"), ("7", "Within 7 days"), ("30", "Within 30 days"), ("90", "Within 90 days"))

Read = Callable[[Any], Any]


def pair(label: str, left: Read, right: Read, *, sort: str) -> Column:
    """`deploy-bot → github__create_issue`: the link of the row."""

    def drawn(row: Any) -> SafeString:
        arrow = SafeString('<span aria-hidden="true">→</span><span class="gh-hidden"> to </span>')
        return format_html("<span>{} {} {}</span>", _side(left(row)), arrow, _side(right(row)))

    return Column(label, drawn, str, sort, narrow=True)


def _side(row: Any) -> SafeString:
    """Not broken between the picture and the name."""
    kind = kind_icon(row) if isinstance(row, Identity) else ""
    return format_html('<span class="gh-kind">{}{}</span>', kind, row)


def worded(label: str, read: Read, sort: str) -> Column:
    """A word of a closed vocabulary as its badge."""
    return Column(label, lambda row: badge(badges.of(read(row))), lambda row: badges.of(read(row)).label, sort)


def _limits_drawn(row: Any) -> SafeString:
    said = grant_limits(row)
    if not said:
        return format_html('<span class="gh-subtle">{}</span>', "none")
    return format_html_join(" ", '<span class="gh-count gh-nowrap">{}</span>', ((one,) for one in said))


LIMITS = Column("Limits", _limits_drawn, lambda row: "; ".join(grant_limits(row)))


def _given(row: Grant) -> SafeString:
    why = outside(row.reason, REASON_SHOWN) if row.reason else ""
    return format_html('{}<br><span class="gh-subtle">{}</span>', row.granted_by_name, why)


GIVEN = Column("Given by, why", _given, lambda row: f"{row.granted_by_name}: {row.reason}", "granted_by_name")
GIVEN_AT = columns.moment("Given", lambda row: row.created_at, sort="created_at")
ENDS = columns.moment("Ends", lambda row: row.expires_at, sort="expires_at", form="both", missing="does not end")
STATE = columns.state("State", states.grant, state_of)


def _in_state(rows: Any, value: str) -> QuerySet[Any]:
    narrowed: QuerySet[Any] = rows.in_state(value)
    return narrowed


def _ends(rows: Any, value: str) -> QuerySet[Any]:
    narrowed: QuerySet[Any] = rows.live().filter(expires_at__lte=Now() + timedelta(days=int(value)))
    return narrowed


def _limits_nothing(rows: Any, _value: str) -> QuerySet[Any]:
    """Grants of the version before, whose schema every call passes."""
    narrowed: QuerySet[Any] = rows.live().filter(limits_nothing=True)
    return narrowed


VOID_LIMIT = Filter("limit", "Limit", _limits_nothing, lambda _request: (("nothing", "Limits nothing"),))


def common() -> Sequence[Filter]:
    """What every kind of grant can be narrowed by."""
    return (
        Filter("state", "State", _in_state, lambda _request: GrantState.choices),
        Filter("ends", "Ends", _ends, lambda _request: WITHIN),
        Filter("given_by", "Given by", lambda rows, value: rows.filter(granted_by_name__iexact=value)),
    )


def server(column: str) -> Filter:
    """The part of a tool's name before its first `__`."""
    return Filter("server", "Server", lambda rows, value: rows.filter(**{f"{column}__name__startswith": f"{value}__"}))


def _wide(rows: QuerySet[Any], _value: str) -> QuerySet[Any]:
    # As text, since SQLite cannot look into a list; no limit at all is the widest there is.
    said: QuerySet[Any] = rows.annotate(actions_text=Cast("allowed_actions", TextField()))
    return said.filter(Q(allowed_actions__isnull=True) | Q(actions_text__contains="*"))


def _yes(label: str) -> Callable[[HttpRequest], Sequence[tuple[str, str]]]:
    return lambda _request: (("yes", label),)


WIDE_ACTIONS = Filter("wide", "Has *", _wide, _yes("All actions or a *"))
WIDE_ROLE = Filter(
    "wide",
    "Has *",
    lambda rows, _value: rows.filter(
        role__capabilities__removed_at=None,
        role__capabilities__approved_at__isnull=False,
        role__capabilities__prefix__isnull=False,
    ).distinct(),
    _yes("The role has a *"),
)
