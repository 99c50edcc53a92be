"""The command palette: groups of hits from the providers of each app."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.http import HttpRequest

from common.console import navigation

LONGEST = 200
PER_GROUP = 6


@dataclass(frozen=True)
class Hit:
    """One result of the command palette: a link, and a note that explains it."""

    title: str
    url: str
    icon: str
    note: str = ""


@dataclass(frozen=True)
class Group:
    """Results of the command palette under a common title."""

    title: str
    hits: list[Hit]


Provider = Callable[[HttpRequest, str], Iterable[Group]]

_providers: list[Provider] = []


def add_palette_providers(*providers: Provider) -> None:
    _providers.extend(providers)


def find(request: HttpRequest, term: str) -> list[Group]:
    """Pages, objects and actions that match the term and are available to this user; without a term only pages."""
    groups = [_pages(request, term)]
    if term:
        groups += [group for provider in _providers for group in provider(request, term)]
    return [group for group in groups if group.hits]


def _pages(request: HttpRequest, term: str) -> Group:
    lower_term = term.lower()
    items = [item for item in navigation.items_for(request) if lower_term in item.title.lower()]
    items.sort(key=lambda item: not item.title.lower().startswith(lower_term))
    max_hits = PER_GROUP if term else len(items)
    return Group("Pages", [Hit(item.title, item.url, item.icon, item.group) for item in items[:max_hits]])
