"""What passes Django by is counted like every other request, in a house of several processes."""

import http.client
import json
from contextlib import closing

import pytest

from nhi.credentials import tokens
from tests.front.asking import body, headers, message
from tests.services.house import House

pytestmark = [pytest.mark.capability("OPS-03"), pytest.mark.xdist_group("house")]


def numbers(house: House) -> dict[str, float]:
    said = house.get("/metrics")[1].decode()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in said.splitlines() if line[:1] not in {"", "#"})
    }


def ask(house: House, path: str, raw: bytes, told: dict[str, str], *, method: str = "POST") -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", house.port, timeout=30)) as link:
        link.request(method, path, raw, told)
        answer = link.getresponse()
        answer.read()
        return answer.status


def test_requests_and_calls_are_counted(running_house: House) -> None:
    house, token = running_house, tokens.make_credential_token("agt").token
    before = numbers(house)
    asked = message(name="todo__create", arguments={})
    told = {name.decode(): value.decode() for name, value in headers(asked, authorization=f"Bearer {token}")}
    assert ask(house, "/mcp", body(asked), told) == 401
    assert ask(house, "/mcp/a-server-that-somebody-names", b"", {}, method="PROPFIND") == 405
    path = "/api/nhi/mcp/tools/a__tool/call"
    json_too = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    assert ask(house, path, json.dumps({"parameters": {}}).encode(), json_too) == 401
    after = numbers(house)
    rest = "api/nhi/mcp/tools/<name:name>/call"
    for counted, more in {
        'gatehouse_requests_total{method="POST",route="mcp",status="401"}': 1,
        'gatehouse_requests_total{method="other",route="mcp",status="405"}': 1,
        f'gatehouse_requests_total{{method="POST",route="{rest}",status="401"}}': 1,
        'gatehouse_request_seconds_count{route="mcp"}': 2,
        'gatehouse_calls_total{reason="credential_unknown",status="unauthenticated"}': 2,
        'gatehouse_call_seconds_count{status="unauthenticated"}': 2,
    }.items():
        assert after[counted] - before.get(counted, 0) == more, counted
    assert not any("somebody-names" in name or "PROPFIND" in name for name in after)
