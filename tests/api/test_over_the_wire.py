"""The same API from outside, through the server: what only happens between a socket and the framework."""

import http.client
import json
import os
import re
import socket
import subprocess
import time
from contextlib import closing
from typing import Any

import pytest

from tests.services.house import ROOT, House

pytestmark = [pytest.mark.capability("OPS-04", "NHI-04"), pytest.mark.xdist_group("house")]

MEBIBYTE = 1024 * 1024


def token(house: House, name: str = "agent/deploy-bot") -> str:
    return str(json.loads(house.manage("issue_credential", name, "--replace", "--json").stdout)["token"])


def admin(house: House) -> str:
    return str(json.loads(house.manage("issue_user_token", "mara", "--json").stdout)["token"])


def send(house: House, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
    with closing(http.client.HTTPConnection("127.0.0.1", house.port, timeout=20)) as link:
        link.request(method, path, body, {"Content-Type": "application/json", **headers})
        answer = link.getresponse()
        return answer.status, json.loads(answer.read()), dict(answer.headers)


@pytest.fixture(scope="module")
def mara(running_house: House) -> dict[str, str]:
    return {"Authorization": f"Bearer {admin(running_house)}"}


def test_a_body_in_chunks_is_read(running_house: House, mara: dict[str, str]) -> None:
    parts = iter([b'{"kind": "agent", ', b'"name": "in-chunks"}'])
    status, made, _ = send(running_house, "POST", "/api/nhi/identities", parts, **mara)
    assert (status, made["name"]) == (201, "in-chunks")


@pytest.mark.parametrize("size", [MEBIBYTE + 1, 3 * MEBIBYTE])
@pytest.mark.parametrize("chunked", [False, True], ids=["at once", "in chunks"])
def test_more_than_a_mebibyte_is_heard_out_and_refused(
    running_house: House, mara: dict[str, str], size: int, chunked: bool
) -> None:
    body: Any = b" " * size
    status, said, _ = send(running_house, "POST", "/api/nhi/identities", iter([body]) if chunked else body, **mara)
    assert (status, said["error_code"]) == (413, "TooLarge")


def test_a_mebibyte_is_read(running_house: House, mara: dict[str, str]) -> None:
    body = b'{"kind": "robot"' + b" " * (MEBIBYTE - 17) + b"}"
    status, said, _ = send(running_house, "POST", "/api/nhi/identities", body, **mara)
    assert (status, said["details"]["fields"][0]["field"]) == (400, "kind")


def test_who_hangs_up_in_the_middle_leaves_the_server_alone(running_house: House, mara: dict[str, str]) -> None:
    with closing(socket.create_connection(("127.0.0.1", running_house.port))) as link:
        link.sendall(b"POST /api/nhi/identities HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    assert send(running_house, "GET", "/api/nhi/me", **mara)[0] == 200


def test_a_foreign_host_is_refused(running_house: House, mara: dict[str, str]) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", running_house.port, timeout=20)) as link:
        link.request("GET", "/api/nhi/me", headers={"Host": "evil.example", **mara})
        assert link.getresponse().status == 400


def test_odd_paths_are_nothing(running_house: House, mara: dict[str, str]) -> None:
    for path in ("/api/nhi/%00", "/api/nhi/%ff", "/api/nhi//me", "/api/nhi/me%2f", "/api/nhi/..%2f..%2fetc"):
        status, said, _ = send(running_house, "GET", path, **mara)
        assert (status, said["error_code"]) == (404, "NotFound"), path


@pytest.mark.capability("NHI-05")
def test_from_credential_to_call(running_house: House) -> None:
    credential = token(running_house)
    status, said, headers = send(running_house, "GET", "/api/nhi/me")
    assert (status, said["error_code"]) == (401, "Unauthorized")
    found = re.search(r'resource_metadata="(.+?)"', headers["www-authenticate"])
    assert found
    resource = send(running_house, "GET", found[1].removeprefix(running_house.url))[1]
    server = send(running_house, "GET", "/.well-known/oauth-authorization-server")[1]
    assert resource["authorization_servers"] == [server["issuer"]]
    form = (
        f"grant_type=client_credentials&client_id={credential.split('_')[2]}&client_secret={credential}"
        f"&resource={resource['resource']}"
    )
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    endpoint = server["token_endpoint"].removeprefix(running_house.url)
    granted = send(running_house, "POST", endpoint, form, **kind)[1]
    me = send(running_house, "GET", "/api/nhi/me", Authorization=f"Bearer {granted['access_token']}")[1]
    assert (me["kind"], me["name"]) == ("agent", "deploy-bot")


def wait_for_the_demo(house: House, mara: dict[str, str]) -> None:
    """Two calls are the last that it makes, some time after the house is ready."""
    deadline = time.monotonic() + 60
    while len(send(house, "GET", "/api/nhi/mcp/invocations?tool_name=todo", **mara)[1]["invocations"]) < 2:
        assert time.monotonic() < deadline, "the demo made no calls within a minute"
        time.sleep(0.1)


@pytest.mark.capability("MCP-07")
@pytest.mark.parametrize("below", ["/api/nhi/mcp", "/mcp"])
def test_tools_are_called_at_both_of_their_places(running_house: House, mara: dict[str, str], below: str) -> None:
    """Past Django for identities, through it for everybody else: one set of answers."""
    wait_for_the_demo(running_house, mara)
    bot = {"Authorization": f"Bearer {token(running_house)}"}
    writer = {"Authorization": f"Bearer {token(running_house, 'agent/writer')}"}
    place, body = f"{below}/tools/todo__list_todos/call", json.dumps({"parameters": {}})
    status, made, headers = send(running_house, "POST", place, body, **bot)
    assert (status, headers["x-call-id"]) == (200, made["call_id"])
    assert send(running_house, "GET", f"{below}/calls/{made['call_id']}", **bot)[1]["status"] == "done"
    names = [tool["name"] for tool in send(running_house, "GET", f"{below}/tools", **bot)[1]["tools"]]
    assert "todo__list_todos" in names
    refused: list[tuple[str, dict[str, str], int, str]] = [
        (place, writer, 404, "not_found"),
        (f"{below}/tools/no-such__tool/call", bot, 404, "not_found"),
        (place, mara, 403, "identities_only"),
        (place, {}, 401, "no_credential"),
        (place, {"Authorization": "Bearer nonsense"}, 401, "malformed"),
        (place, {"Authorization": "Basic nonsense"}, 401, "malformed"),
    ]
    for path, caller, wanted, reason in refused:
        status, said, headers = send(running_house, "POST", path, body, **caller)
        assert (status, said["details"]["reason"]) == (wanted, reason), path
        assert headers["x-request-id"] == said["request_id"]
    large = json.dumps({"parameters": {"x": "y" * MEBIBYTE}})
    assert send(running_house, "POST", place, large, **bot)[0] == 413


@pytest.mark.capability("MCP-07", "MCP-15")
@pytest.mark.parametrize("page", ["docs/reference/rest.md"])
def test_the_commands_of_the_documentation_work(running_house: House, mara: dict[str, str], page: str) -> None:
    """All of them, one after the other, each of them answered with a 2xx."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    script = "".join(blocks).replace("http://127.0.0.1:8000", running_house.url)
    wait_for_the_demo(running_house, mara)
    credential = token(running_house)
    tool = send(running_house, "GET", "/api/nhi/identities?name=github__create_issue", **mara)[1]["identities"][0]
    environ = {
        **os.environ,
        "ADMIN": mara["Authorization"].removeprefix("Bearer "),
        "TOKEN": credential,
        "PUBLIC_ID": credential.split("_")[2],
        "TOOL": tool["id"],
    }
    checked = 'set -euo pipefail\ncurl() { command curl --fail-with-body -sS "$@"; }\n' + script
    ran = subprocess.run(["bash", "-c", checked], env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("{") >= script.count("curl ")
