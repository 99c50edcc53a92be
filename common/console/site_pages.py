"""Pages of the console that belong to no model, at addresses of their own. Each app adds its own when it is loaded."""

from collections.abc import Callable
from typing import Any

from django.urls import URLPattern, path

View = Callable[..., Any]

_pages: list[tuple[str, View, str]] = []


def add_site_page(where: str, view: View, name: str) -> None:
    """`add("explain/", Explain.as_view(), "explain")` stands at `/admin/explain/`, as `admin:explain`."""
    _pages.append((where, view, name))


def urls(guard: Callable[[View], View]) -> list[URLPattern]:
    return [path(where, guard(view), name=name) for where, view, name in _pages]
