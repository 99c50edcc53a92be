"""The sidebar, the account menu, and the registration of pages without a model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import URLPattern, path, reverse

GROUPS = ("", "Identities", "Access", "Gateway", "Runs", "Tasks", "Activity", "Settings")


@dataclass(frozen=True)
class SidebarItem:
    """A link in the sidebar."""

    group: str
    title: str
    icon: str
    #: Name of the page's URL in the admin site.
    page: str
    #: Whether this user sees the link. The page checks the permission again.
    shown_to: Callable[[HttpRequest], bool]
    #: Key of the count of items that need this user's attention; empty for none.
    badge: str = ""
    #: Query string that filters the page to the items that its badge counts.
    counted: str = ""
    #: Second key of the keyboard shortcut that starts with `g`.
    key: str = ""
    #: URL names of other lists that are tabs of this page.
    also: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return reverse(f"admin:{self.page}")

    def holds(self, path: str) -> bool:
        """Whether the path is the page itself, or a page below it or below its tabs."""
        prefixes = [self.url] if self.page != "index" else []
        return path == self.url or path.startswith((*prefixes, *(reverse(f"admin:{page}") for page in self.also)))


_items: list[SidebarItem] = []
_counters: list[Callable[[HttpRequest], dict[str, int]]] = []


def add_sidebar_items(*items: SidebarItem) -> None:
    _items.extend(items)


def count_with(counter: Callable[[HttpRequest], dict[str, int]]) -> None:
    _counters.append(counter)


def counts_for(request: HttpRequest) -> dict[str, int]:
    """Counts of items that need this user's attention, by the `badge` keys of sidebar items."""
    return {key: count for counter in _counters for key, count in counter(request).items()}


def items_for(request: HttpRequest) -> list[SidebarItem]:
    return [item for item in _items if item.shown_to(request)]


def sidebar(request: HttpRequest, counts: dict[str, int]) -> list[dict[str, Any]]:
    """The groups in order, each with the items that this user sees."""
    visible_items = items_for(request)
    current = _current(request.path, visible_items)
    groups = []
    for name in GROUPS:
        entries = [
            {
                "item": item,
                "active": item is current,
                "count": counts.get(item.badge, 0),
                "count_url": f"{item.url}?{item.counted}" if item.counted else "",
            }
            for item in visible_items
            if item.group == name
        ]
        if entries:
            groups.append({"title": name, "items": entries})
    return groups


def _current(path: str, items: list[SidebarItem]) -> SidebarItem | None:
    """The item with the longest URL that contains this path."""
    matching_items = [item for item in items if item.holds(path)]
    return max(matching_items, key=lambda item: len(item.url), default=None)


@dataclass(frozen=True)
class AccountLink:
    """A link in the account menu."""

    title: str
    icon: str
    #: Name of the page's URL, with its namespace.
    page: str

    @property
    def url(self) -> str:
        return reverse(self.page)


_entries = [AccountLink("Change password", "key", "admin:password_change")]


def add_account_links(*entries: AccountLink) -> None:
    _entries.extend(entries)


def links(_request: HttpRequest) -> list[AccountLink]:
    return list(_entries)


View = Callable[..., Any]

_pages: list[tuple[str, View, str]] = []


def add_site_page(where: str, view: View, name: str) -> None:
    """`add_site_page("explain/", Explain.as_view(), "explain")` serves `/admin/explain/` as `admin:explain`."""
    _pages.append((where, view, name))


def urls(guard: Callable[[View], View]) -> list[URLPattern]:
    return [path(where, guard(view), name=name) for where, view, name in _pages]
