"""The same by API: what a page of the gateway offers as `curl` is an address that the API has, with that method."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.test import Client

from tests.console.walk import Stage

pytestmark = pytest.mark.capability("CON-05")

OFFERED = re.compile(r"curl -X (\w+) \S*?(/api/[^\s\"'?]+)")
#: Below these, each page that tells of the API tells of the gateway's, or of tasks.
ROOTS = ("admin/mcp/", "admin/nhi/invocationlog/", "admin/a2a/")


def described() -> list[tuple[str, re.Pattern[str]]]:
    paths: dict[str, Any] = yaml.safe_load(Path(settings.BASE_DIR, "schema.yml").read_text())["paths"]
    return [
        (method.upper(), re.compile(re.sub(r"\\{\w+\\}|\{\w+\}", "[^/]+", path)))
        for path, methods in paths.items()
        for method in methods
    ]


def test_what_pages_of_the_gateway_and_of_tasks_say_of_the_api_is_described(db: None) -> None:
    stage, known, told = Stage(), described(), 0
    client = Client()
    client.force_login(stage.mara, backend="django.contrib.auth.backends.ModelBackend")
    for root in ROOTS:
        for place in stage.places(root):
            answer = client.get(place.path)
            body = unescape(answer.content.decode()) if not answer.streaming else ""
            for method, path in OFFERED.findall(body):
                told += 1
                assert any(one == method and pattern.fullmatch(path) for one, pattern in known), (place, method, path)
    assert told > 20


def test_an_empty_log_shows_a_command_that_there_is(mara: Client) -> None:
    body = unescape(mara.get("/admin/nhi/invocationlog/").content.decode())
    calls = [path for method, path in OFFERED.findall(body) if method == "POST"]
    assert calls
    assert all(any(pattern.fullmatch(path) for method, pattern in described() if method == "POST") for path in calls)
