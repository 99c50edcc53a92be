"""The description is served, committed, complete and true."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import Client
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from common.api import documentation
from tests.api.conftest import Stage
from tests.api.ids import ids_of

pytestmark = pytest.mark.capability("OPS-04")
ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads(documentation.described())
OPERATIONS = [
    (method, path, operation) for path, verbs in SCHEMA["paths"].items() for method, operation in verbs.items()
]
each = pytest.mark.parametrize(
    "method, path, operation", OPERATIONS, ids=lambda part: part if isinstance(part, str) else ""
)
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
described = schemathesis.openapi.from_dict(SCHEMA)
described.app = WSGIHandler()
# Its systematic cases take minutes; the tables of hostile and wrong input beside this file are ours.
described.config.phases.coverage.enabled = False


def test_it_is_openapi_3_1_and_served_to_everybody() -> None:
    answer = Client().get("/api/schema/")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("application/vnd.oai.openapi+json")
    assert json.loads(answer.content) == SCHEMA
    assert SCHEMA["openapi"].startswith("3.1.")


def test_the_committed_file_is_what_is_served(tmp_path: Path) -> None:
    made = tmp_path / "schema.yml"
    command = [sys.executable, "manage.py", "spectacular", "--validate", "--fail-on-warn", "--file", str(made)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    assert made.read_text() == (ROOT / "schema.yml").read_text(), "run `make schema`"


@each
def test_every_operation_says_what_it_does(method: str, path: str, operation: dict[str, Any]) -> None:
    assert operation["summary"]
    assert operation["operationId"]
    assert {"500", "503"} <= set(operation["responses"])
    if path.startswith("/api/nhi/"):
        assert "401" in operation["responses"]
        assert operation["security"] == [{"token": []}, {"console": []}]
    if "{" in path:
        assert "404" in operation["responses"]
    if "requestBody" in operation:
        assert {"400", "413"} <= set(operation["responses"])


@each
def test_every_operation_has_examples(method: str, path: str, operation: dict[str, Any]) -> None:
    shown = [resolved(response) for response in operation["responses"].values()]
    if "requestBody" in operation:
        shown.append(operation["requestBody"])
    for part in shown:
        for media in part["content"].values():
            assert all(example["value"] for example in media["examples"].values())


def test_operation_ids_are_unique() -> None:
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("page", ["/api/docs/", "/api/redoc/"])
def test_the_pages_come_from_this_house_under_a_strict_policy(page: str) -> None:
    answer = Client().get(page)
    assert answer.status_code == 200
    text = answer.content.decode()
    assert "//" not in text.replace("<!doctype", "")
    assert "<style" not in text
    assert "<script>" not in text
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "script-src 'self'" in policy
    for address in (part.split('"')[1] for part in text.split("src=")[1:]):
        file = Client().get(address)
        assert file.status_code == 200
        assert len(b"".join(file)) > 100  # read to its end, so that it is closed


@pytest.fixture
def known(stage: Stage) -> Iterator[dict[str, list[str]]]:
    """Ids that exist. From here on the framework closes no connection around a request: it belongs to the test."""
    ids = ids_of(stage)
    around = (request_started, request_finished)
    for signal in around:
        signal.disconnect(close_old_connections)
    yield ids
    for signal in around:
        signal.connect(close_old_connections)


# Threads that make connections draw from Python's random at any time; Hypothesis takes the one that generates for it.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@described.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_described(stage: Stage, known: dict[str, list[str]], case: schemathesis.Case) -> None:
    # Half of the cases are about what is there, the other half about what is not.
    if hash_of(case) % 2:
        case.path_parameters = {**case.path_parameters, **named_in(case.path, known)}
    mine = {"Authorization": f"Bearer {stage.admin.token}"}
    headers = mine if case.path.startswith("/api/nhi/") else {}
    # Where a server of somebody's may fail, that is an answer of ours like any other.
    failing = "502" in SCHEMA["paths"][case.path][case.method.lower()]["responses"]
    answer = case.call_and_validate(headers=headers, checks=CHECKS[1:] if failing else CHECKS)
    assert answer.status_code != 500


def named_in(path: str, ids: dict[str, list[str]]) -> dict[str, str]:
    which = next((number for part, number in (("/nhi/{", 1), ("/users/{", 2)) if part in path), 0)
    return {name: every[which % len(every)] for name, every in ids.items() if f"{{{name}}}" in path}


def hash_of(case: schemathesis.Case) -> int:
    return sum(repr(case.body).encode()) + sum(repr(case.path_parameters).encode())


def resolved(response: dict[str, Any]) -> dict[str, Any]:
    ref = response.get("$ref")
    return dict(SCHEMA["components"]["responses"][ref.rpartition("/")[2]]) if ref else response
