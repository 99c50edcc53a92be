"""Pages as tests read them, and what showing one asked of the database."""

import re
from typing import Any

from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext


def text(client: Client, path: str, status: int = 200, **query: str) -> str:
    answer = client.get(path, query)
    assert answer.status_code == status, path
    return words(answer)


def words(answer: Any) -> str:
    return str(answer.content.decode())


def plain(answer: Any) -> str:
    """The page as one reads it: without markup, on one line."""
    shown = re.sub(r"<(script|style).*?</\1>", "", words(answer), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", shown))


def main_of(page: str) -> str:
    return page[page.index("<main") : page.index("</main>")]


def queries(client: Client, path: str) -> int:
    client.get(path)  # the session's own write
    cache.clear()
    with CaptureQueriesContext(connection) as seen:
        assert client.get(path).status_code == 200
    return len(seen)


def confirmed(client: Client, path: str, **more: str) -> int:
    """Of a dialog that was looked at first."""
    seen = client.get(path).context["seen"]
    return client.post(path, {"reason": "Handled by hand", "seen": seen, **more}).status_code
