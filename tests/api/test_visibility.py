"""What is not yours is not there: every path and verb, walked from the schema itself."""

import json
import re
import uuid
from typing import Any

import pytest

from common.api import documentation
from nhi.models import AuditEvent
from tests.api.callers import Caller, Reply
from tests.api.conftest import Stage
from tests.api.ids import ids_of

METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE")
UNSAFE = METHODS[1:]
SCHEMA = json.loads(documentation.described())
PATHS = [path for path in SCHEMA["paths"] if path.startswith("/api/nhi/")]
#: Decided where calls are, over a connection that sees what is committed: tests/api/mcp/test_calls.py.
CALL = "/api/nhi/mcp/tools/{name}/call"
WITH_ID = [path for path in PATHS if "{" in path and path != CALL]
#: Set by the server, wherever they are shown.
SERVER_SET = (
    "id", "state", "state_since", "owner", "created_by", "created_by_id", "created_by_name", "created_at", "updated_at",
    "last_activity_at", "granted_by", "granted_by_id", "revoked_at", "revoked_by", "public_id", "token", "digest",
    "last_used_at", "waiting", "approved_at", "access_epoch", "decision_id", "console_roles",
)  # fmt: skip
BODIES = ("", "[", json.dumps({"reason": "x"}))


def filled(path: str, ids: dict[str, list[str]], which: int = 0) -> str:
    return re.sub(r"{(\w+)}", lambda found: ids[found[1]][which % len(ids[found[1]])], path)


def without_request_id(answer: Reply) -> tuple[int, Any]:
    return answer.status, {**answer.body, "request_id": ""}


@pytest.mark.capability("NHI-08")
@pytest.mark.parametrize("path", WITH_ID)
def test_what_is_not_yours_is_not_there(stage: Stage, path: str) -> None:
    ids = ids_of(stage)
    strangers = [stage.stranger, stage.person("guest")]
    recorded = AuditEvent.objects.count()
    nowhere = re.sub(r"{\w+}", lambda _: str(uuid.uuid4()), path)
    for caller in strangers:
        for method in METHODS:
            for body in BODIES:
                for which in range(3 if "grant_id" in path else 1):
                    foreign = caller.send(method, filled(path, ids, which), body)
                    assert foreign.is_refused(404, "NotFound", "not_found"), (method, path, body[:20])
                    assert without_request_id(foreign) == without_request_id(caller.send(method, nowhere, body))
    assert AuditEvent.objects.count() == recorded


@pytest.mark.capability("NHI-08")
@pytest.mark.parametrize("path", PATHS)
def test_nobody_gets_in_without_a_credential(stage: Stage, path: str) -> None:
    place = filled(path, ids_of(stage))
    for method in METHODS:
        for body in BODIES[:2]:
            assert Caller().send(method, place, body).is_refused(401, "Unauthorized", "no_credential")


@pytest.mark.capability("CON-01")
@pytest.mark.parametrize("path", [path for path in PATHS if "/decisions/" not in path])
def test_an_auditor_changes_nothing(stage: Stage, path: str) -> None:
    ids = ids_of(stage)
    auditor = stage.person("ada", "auditor", "security-admin")
    recorded = AuditEvent.objects.count()
    for method in UNSAFE:
        for place in (filled(path, ids), re.sub(r"{\w+}", lambda _: str(uuid.uuid4()), path)):
            for body in BODIES:
                answer = auditor.send(method, place, body)
                assert answer.is_refused(403, "Unauthorized", "only_reads"), (method, place, body[:20])
    assert AuditEvent.objects.count() == recorded


@pytest.mark.capability("NHI-08")
@pytest.mark.parametrize("path", [path for path in PATHS if "get" in SCHEMA["paths"][path]])
def test_an_auditor_reads_everything(stage: Stage, path: str) -> None:
    auditor = stage.person("ada", "auditor")
    ids = ids_of(stage)
    if "permissions/nhi" in path or "permissions/users" in path:
        ids["grant_id"] = [ids["grant_id"][1 if "nhi/{" in path else 2]]
    assert auditor.get(filled(path, ids)).status == 200


def writes() -> list[tuple[str, str, dict[str, Any]]]:
    """Every operation with a body: method, path, and the schema of what it takes."""
    found = []
    # An envelope has its own way to refuse.
    for path in (path for path in PATHS if path not in {CALL, "/api/nhi/a2a/envelope"}):
        for method, operation in SCHEMA["paths"][path].items():
            if "requestBody" in operation:
                ref = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                found.append((method.upper(), path, SCHEMA["components"]["schemas"][ref.rpartition("/")[2]]))
    return found


@pytest.mark.capability("NHI-01")
@pytest.mark.parametrize("method, path, takes", writes(), ids=lambda part: part if isinstance(part, str) else "")
def test_what_the_server_sets_cannot_be_sent(stage: Stage, method: str, path: str, takes: dict[str, Any]) -> None:
    ids = ids_of(stage)
    kinds = {"permissions/tools": 0, "permissions/nhi": 1, "permissions/users": 2}
    which = next((number for part, number in kinds.items() if part in path), 0)
    assert takes["additionalProperties"] is False
    caller = stage.agent if "/inbox/" in path else stage.admin
    recorded = AuditEvent.objects.count()
    for name in SERVER_SET:
        if name not in takes.get("properties", {}):
            answer = caller.send(method, filled(path, ids, which), json.dumps({name: "x"}))
            assert answer.is_refused(400, "InvalidParameters"), (path, name)
            assert name in answer.fields, (path, name)
    assert AuditEvent.objects.count() == recorded
