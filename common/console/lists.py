"""Lists: columns, filters, search, order, pages, saved views and export, from one declaration."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, QueryDict

PER_PAGE = 50
#: Parts of the address that are no filter.
OWN = frozenset({"q", "sort", "page", "before", "after", "export"})

Cell = Callable[[Any], Any]
#: A lookup such as `name__icontains`, or what makes a condition of the term.
Lookup = str | Callable[[str], Q]


@dataclass(frozen=True)
class Column:
    label: str
    cell: Cell
    #: For the export; a cell of the page may hold markup.
    text: Cell
    #: What the order goes by; empty for a column that has no order.
    sort: str = ""
    #: Whether it stays at 360 px; at most four do.
    narrow: bool = False


@dataclass(frozen=True)
class Filter:
    name: str
    label: str
    apply: Callable[[QuerySet[Any], str], QuerySet[Any]]
    #: What may be chosen; without any the filter is a line to type in.
    choices: Callable[[HttpRequest], Sequence[tuple[str, str]]] | None = None
    #: The type of the line to type in.
    kind: str = "text"
    #: What it says while nothing is chosen.
    empty: str = "Any"


@dataclass(frozen=True)
class Preset:
    """A view that everyone has: a name and a query."""

    label: str
    query: str = ""


@dataclass(frozen=True)
class Bulk:
    """A verb for what was ticked; `url` is a dialog that takes the ids."""

    label: str
    page: str
    danger: bool = False


@dataclass(frozen=True)
class Drawn:
    """A filter as it stands in this request."""

    filter: Filter
    value: str
    options: list[tuple[str, str]]

    @property
    def said(self) -> str:
        return dict(self.options).get(self.value, self.value)


@dataclass
class Listing:
    """One request's view of a list."""

    request: HttpRequest
    rows: QuerySet[Any]
    columns: Sequence[Column]
    filters: Sequence[Filter] = ()
    search: Sequence[Lookup] = ()
    order: Sequence[str] = ()
    drawn: list[Drawn] = field(init=False)

    def __post_init__(self) -> None:
        self.drawn = [self._draw(one) for one in self.filters]

    @property
    def query(self) -> QueryDict:
        return self.request.GET

    @property
    def term(self) -> str:
        return self.query.get("q", "").strip()[:200]

    @property
    def sort(self) -> str:
        wanted = self.query.get("sort", "")
        return wanted if wanted.removeprefix("-") in {column.sort for column in self.columns if column.sort} else ""

    @property
    def narrowed(self) -> list[Drawn]:
        return [one for one in self.drawn if one.value]

    @property
    def is_narrowed(self) -> bool:
        return bool(self.term or self.narrowed)

    @property
    def said(self) -> str:
        """`the search`, `this filter`, `3 filters`: what a list without rows was narrowed by."""
        filters = len(self.narrowed)
        words = ["the search"] if self.term else []
        words += ["this filter" if filters == 1 else f"these {filters} filters"] if filters else []
        return " and ".join(words)

    @property
    def state(self) -> str:
        """The part of the address that a saved view keeps: filters, search and order."""
        return urlencode(sorted([*self.kept, *([("sort", self.sort)] if self.sort else [])]))

    @property
    def kept(self) -> list[tuple[str, str]]:
        """What narrows it, by the names in the address."""
        return [*((one.filter.name, one.value) for one in self.narrowed), *([("q", self.term)] if self.term else [])]

    def matching(self) -> QuerySet[Any]:
        """What the filters and the search leave, in the order that was asked for."""
        rows = self.rows
        for one in self.narrowed:
            rows = one.filter.apply(rows, one.value)
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

    def _draw(self, one: Filter) -> Drawn:
        value = self.query.get(one.name, "").strip()[:200]
        options = list(one.choices(self.request)) if one.choices else []
        if one.choices and value not in dict(options):
            value = ""
        return Drawn(one, value, options)


def choice_filter(name: str, label: str, path: str, choices: Iterable[tuple[str, str]]) -> Filter:
    options = list(choices)
    return Filter(name, label, lambda rows, value: rows.filter(**{path: value}), lambda _request: options)


def text_filter(name: str, label: str, path: str) -> Filter:
    return Filter(name, label, lambda rows, value: rows.filter(**{path: value}))
