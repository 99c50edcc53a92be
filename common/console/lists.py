"""Columns, filters, search, ordering and selected rows of a list."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, QueryDict

from common.ids import parse_uuid

PER_PAGE = 50
#: Query parameters that are not filters.
OWN = frozenset({"q", "sort", "page", "before", "after", "export"})

Cell = Callable[[Any], Any]
#: A lookup such as `name__icontains`, or a function that builds a condition from the search term.
Lookup = str | Callable[[str], Q]


@dataclass(frozen=True)
class Column:
    """A column of a list. `cell` renders a row's value for the page, `text` for exports."""

    label: str
    cell: Cell
    #: The cell as plain text for exports; a cell of the page may contain markup.
    text: Cell
    #: The field to sort by; empty for a column that cannot be sorted.
    sort: str = ""
    #: Whether the column is shown at a width of 360 px; at most four columns of a list are.
    narrow: bool = False


@dataclass(frozen=True)
class Filter:
    """A filter of a list: the name of its query parameter, its form control, and the function that narrows the rows."""

    name: str
    label: str
    apply: Callable[[QuerySet[Any], str], QuerySet[Any]]
    #: The options of the filter; without options it is a text input.
    choices: Callable[[HttpRequest], Sequence[tuple[str, str]]] | None = None
    #: The type of the text input.
    kind: str = "text"
    #: The label while no option is selected.
    empty: str = "Any"


@dataclass(frozen=True)
class Preset:
    """A predefined view for all users: a name and a query."""

    label: str
    query: str = ""


@dataclass(frozen=True)
class Bulk:
    """An action for the selected rows. `page` is the URL name of a dialog that takes their ids."""

    label: str
    page: str
    danger: bool = False


@dataclass(frozen=True)
class FilterState:
    """A filter with its value and options in this request."""

    filter: Filter
    value: str
    options: list[tuple[str, str]]

    @property
    def said(self) -> str:
        return dict(self.options).get(self.value, self.value)


@dataclass
class ListQuery:
    """The filters, search and order that a request asks for, and the rows of the list that match."""

    request: HttpRequest
    rows: QuerySet[Any]
    columns: Sequence[Column]
    filters: Sequence[Filter] = ()
    search: Sequence[Lookup] = ()
    order: Sequence[str] = ()
    drawn: list[FilterState] = field(init=False)

    def __post_init__(self) -> None:
        self.drawn = [self._draw(list_filter) for list_filter in self.filters]

    @property
    def query(self) -> QueryDict:
        return self.request.GET

    @property
    def term(self) -> str:
        return self.query.get("q", "").strip()[:200]

    @property
    def sort(self) -> str:
        sort_key = self.query.get("sort", "")
        return sort_key if sort_key.removeprefix("-") in {column.sort for column in self.columns if column.sort} else ""

    @property
    def narrowed(self) -> list[FilterState]:
        return [active_filter for active_filter in self.drawn if active_filter.value]

    @property
    def is_narrowed(self) -> bool:
        return bool(self.term or self.narrowed)

    @property
    def said(self) -> str:
        """`the search`, `this filter`, `these 3 filters`: the restrictions of a list without rows, as text."""
        filters = len(self.narrowed)
        words = ["the search"] if self.term else []
        words += ["this filter" if filters == 1 else f"these {filters} filters"] if filters else []
        return " and ".join(words)

    @property
    def state(self) -> str:
        """The query string that a saved view stores: filters, search and order."""
        return urlencode(sorted([*self.kept, *([("sort", self.sort)] if self.sort else [])]))

    @property
    def kept(self) -> list[tuple[str, str]]:
        """The query parameters of the active filters and the search."""
        return [
            *((active_filter.filter.name, active_filter.value) for active_filter in self.narrowed),
            *([("q", self.term)] if self.term else []),
        ]

    def matching(self) -> QuerySet[Any]:
        """The rows that match filters and search, in the requested order."""
        rows = self.rows
        for active_filter in self.narrowed:
            rows = active_filter.filter.apply(rows, active_filter.value)
        if self.term and self.search:
            matches = Q()
            for lookup in self.search:
                matches |= lookup(self.term) if callable(lookup) else Q(**{lookup: self.term})
            rows = rows.filter(matches)
        return rows.order_by(*self._ordered())

    def page(self) -> Any:
        return Paginator(self.matching(), PER_PAGE).get_page(self.query.get("page"))

    def _ordered(self) -> Iterable[str]:
        if not self.sort:
            return self.order
        return [self.sort, *(path for path in self.order if path.removeprefix("-") != self.sort.removeprefix("-"))]

    def _draw(self, list_filter: Filter) -> FilterState:
        value = self.query.get(list_filter.name, "").strip()[:200]
        options = list(list_filter.choices(self.request)) if list_filter.choices else []
        if list_filter.choices and value not in dict(options):
            value = ""
        return FilterState(list_filter, value, options)


def choice_filter(name: str, label: str, path: str, choices: Iterable[tuple[str, str]]) -> Filter:
    options = list(choices)
    return Filter(name, label, lambda rows, value: rows.filter(**{path: value}), lambda _request: options)


def text_filter(name: str, label: str, path: str) -> Filter:
    return Filter(name, label, lambda rows, value: rows.filter(**{path: value}))


MOST = 100
#: For more rows than this, the user must type the number of rows to confirm.
CAREFUL = 20
NAMED = 10


def ticked(request: HttpRequest) -> list[UUID]:
    return [row_id for text in request.GET.getlist("id")[:MOST] if (row_id := parse_uuid(text))]


def takes_all(request: HttpRequest) -> bool:
    """Whether the action applies to all rows that match the list's filters instead of the selected rows."""
    return request.GET.get("all") == "1"


def picked(
    request: HttpRequest, rows: QuerySet[Any], filters: Sequence[Filter], search: Sequence[Lookup] = ()
) -> QuerySet[Any]:
    if takes_all(request):
        return ListQuery(request, rows, (), filters, search).matching()
    return rows.filter(pk__in=ticked(request))


def to_type(count: int) -> str:
    """The text that the user must type to confirm a change of this many rows; empty for a few rows."""
    return str(count) if count > CAREFUL else ""


def limit_names(names: Sequence[str]) -> dict[str, Any]:
    return {"names": names[:NAMED], "unnamed": max(0, len(names) - NAMED)}
