"""The sidebar's list. Each app contributes its items when its admin is loaded."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

GROUPS = ("", "Identities", "Access", "Gateway", "Runs", "Tasks", "Activity", "Settings")


@dataclass(frozen=True)
class Item:
    group: str
    title: str
    icon: str
    #: Name of the page's URL in the admin site.
    page: str
    #: Who sees the link. The page checks again.
    shown_to: Callable[[HttpRequest], bool]
    #: Key in the counts of what needs this person; empty for none.
    badge: str = ""
    #: What narrows the page to what its badge counts.
    counted: str = ""
    #: Second letter of the shortcut `g` and this one.
    key: str = ""
    #: Names of other lists that stand under it as tabs.
    also: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return reverse(f"admin:{self.page}")

    def holds(self, path: str) -> bool:
        """Whether an address is the page's own, or one below it or its tabs."""
        below = [self.url] if self.page != "index" else []
        return path == self.url or path.startswith((*below, *(reverse(f"admin:{page}") for page in self.also)))


_items: list[Item] = []
_counters: list[Callable[[HttpRequest], dict[str, int]]] = []


def add_sidebar_items(*items: Item) -> None:
    _items.extend(items)


def count_with(counter: Callable[[HttpRequest], dict[str, int]]) -> None:
    _counters.append(counter)


def counts_for(request: HttpRequest) -> dict[str, int]:
    """What needs this person, by the keys that items name."""
    return {key: number for counter in _counters for key, number in counter(request).items()}


def items_for(request: HttpRequest) -> list[Item]:
    return [item for item in _items if item.shown_to(request)]


def sidebar(request: HttpRequest, counts: dict[str, int]) -> list[dict[str, Any]]:
    """Groups in their order, each with the items that this person sees."""
    shown = items_for(request)
    current = _current(request.path, shown)
    groups = []
    for name in GROUPS:
        entries = [
            {
                "item": item,
                "active": item is current,
                "count": counts.get(item.badge, 0),
                "count_url": f"{item.url}?{item.counted}" if item.counted else "",
            }
            for item in shown
            if item.group == name
        ]
        if entries:
            groups.append({"title": name, "items": entries})
    return groups


def _current(path: str, shown: list[Item]) -> Item | None:
    """The item whose address the path begins with, the longest first."""
    under = [item for item in shown if item.holds(path)]
    return max(under, key=lambda item: len(item.url), default=None)
