"""A program that was taken off the list of executables: agents learn that its server does not run, people learn why."""

import http.client
import json
import re
import shlex
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.services.house import House, embedded

pytestmark = pytest.mark.capability("NHI-10", "MCP-15")


def test_an_agent_reads_neither_paths_nor_settings(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.touch(0o600)
    with embedded(tmp_path) as house:
        house.wait_until_ready(180)
        printed = re.search(r"^Call a tool: (curl .*)$", house.output, re.MULTILINE)
        assert printed, house.output
        assert house.stop() == 0
        house.environ["EXECUTABLE_ALLOWLIST"] = str(allowed)
        house.start()
        house.wait_until_ready(180)
        token = json.loads(house.manage("issue_credential", "agent/deploy-bot", "--replace", "--json").stdout)["token"]
        status, body = call(house, token, shlex.split(printed[1]))
        assert (status, body["error_code"], body["details"]["reason"]) == (502, "ExecutionFailed", "upstream")
        for_agent = body["message"]
        assert "is not running" in for_agent
        assert body["request_id"] in for_agent
        assert not re.search(r"/\w|[A-Z]+_[A-Z]+|python", for_agent), for_agent
        row = f"/api/nhi/mcp/invocations/{body['details']['call_id']}"
        assert json.loads(house.get(row, Authorization=f"Bearer {token}")[1])["error_message"] == for_agent
        mara = json.loads(house.manage("issue_user_token", "mara", "--json").stdout)["token"]
        assert "EXECUTABLE_ALLOWLIST" in json.loads(house.get(row, Authorization=f"Bearer {mara}")[1])["error_message"]
        assert house.stop() == 0


def call(house: House, token: str, printed: list[str]) -> tuple[int, Any]:
    """What the printed command sends, with a token that holds after the restart."""
    path = next(word for word in printed if word.startswith("http")).partition(f":{house.port}")[2]
    data = printed[printed.index("-d") + 1] if "-d" in printed else printed[printed.index("--data") + 1]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with closing(http.client.HTTPConnection("127.0.0.1", house.port, timeout=40)) as link:
        link.request("POST", path, data, headers)
        answer = link.getresponse()
        return answer.status, json.loads(answer.read())
