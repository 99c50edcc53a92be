"""Console pages without a model. Each app registers its own pages when it is loaded."""

from collections.abc import Callable
from typing import Any

from django.urls import URLPattern, path

View = Callable[..., Any]

_pages: list[tuple[str, View, str]] = []


def add_site_page(where: str, view: View, name: str) -> None:
    """`add_site_page("explain/", Explain.as_view(), "explain")` serves `/admin/explain/` as `admin:explain`."""
    _pages.append((where, view, name))


def urls(guard: Callable[[View], View]) -> list[URLPattern]:
    return [path(where, guard(view), name=name) for where, view, name in _pages]
