"""The example server keeps its promises over both transports and in every version of the protocol."""

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.services.house import ROOT

pytestmark = pytest.mark.capability("MCP-15")

SERVER = ROOT / "examples" / "todo_server.py"
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
HANDSHAKES = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
PARAMETERS = {
    "create_todo": ({"title", "description", "priority", "tags", "due_date"}, ["title"]),
    "list_todos": ({"status", "priority", "tags", "due_date_before", "due_date_after"}, []),
    "update_todo": ({"todo_id", "title", "description", "status", "priority", "tags", "due_date"}, ["todo_id"]),
    "search_todos": ({"query", "status", "priority"}, ["query"]),
    "delete_todo": ({"todo_id"}, ["todo_id"]),
}


class Stdio:
    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-I", str(SERVER), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last_id = 0

    def send(self, message: Any) -> None:
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        return json.loads(self.process.stdout.readline())

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params or {}})
        reply = self.read()
        assert reply["id"] == self.last_id
        return dict(reply)

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return dict(self.ask("tools/call", {"name": name, "arguments": arguments, "_meta": META})["result"])

    def close(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(5) == 0
        self.process.stdout.close()


@pytest.fixture
def stdio() -> Iterator[Stdio]:
    with closing(Stdio()) as server:
        yield server


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    command = [sys.executable, "-I", str(SERVER), "--http", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        yield int(server.stderr.readline().rpartition(":")[2].partition("/")[0])
        server.terminate()


def post(port: int, body: Any, **headers: str) -> tuple[int, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as link:
        link.request("POST", "/mcp", body if isinstance(body, bytes) else json.dumps(body), named)
        response = link.getresponse()
        content = response.read()
        return response.status, json.loads(content) if content else None


def modern(port: int, method: str, params: dict[str, Any] | None = None, **headers: str) -> tuple[int, Any]:
    name = {"Mcp_Name": params["name"]} if params and "name" in params else {}
    told = {"MCP_Protocol_Version": VERSION, "Mcp_Method": method, **name, **headers}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **(params or {})}}
    return post(port, body, **told)


def test_the_tools_are_those_of_the_seed(stdio: Stdio) -> None:
    tools = stdio.ask("tools/list", {"_meta": META})["result"]["tools"]
    told = {tool["name"]: tool["inputSchema"] for tool in tools}
    assert {name: (set(schema["properties"]), schema["required"]) for name, schema in told.items()} == PARAMETERS
    for tool in tools:
        jsonschema_rs.meta.validate(tool["inputSchema"])
        jsonschema_rs.meta.validate(tool["outputSchema"])
        assert tool["annotations"]["readOnlyHint"] is tool["name"].startswith(("list", "search"))


def test_a_todo_lives_and_every_output_fits_its_schema(stdio: Stdio) -> None:
    tools = stdio.ask("tools/list", {"_meta": META})["result"]["tools"]
    schemas = {tool["name"]: tool["outputSchema"] for tool in tools}

    def call(name: str, **arguments: Any) -> Any:
        result = stdio.call(name, **arguments)
        assert result["isError"] is False, result
        jsonschema_rs.validate(schemas[name], result["structuredContent"])
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["structuredContent"]

    milk = call("create_todo", title="Buy milk", tags=["home", "shop"], due_date="2026-12-01", priority=1)
    call("create_todo", title="Write", description="A letter to the MILKMAN")
    assert call("list_todos", tags=["shop"], due_date_before="2026-12-02")["todos"] == [milk]
    assert call("list_todos", due_date_after="2026-12-01")["total"] == 0
    assert call("search_todos", query="milk")["total"] == 2
    assert call("search_todos", query="milk", priority=1)["total"] == 1
    done = call("update_todo", todo_id=milk["id"], status="completed")
    assert done == {**milk, "status": "completed"}
    assert call("list_todos", status="active")["total"] == 1
    assert call("delete_todo", todo_id=milk["id"]) == {"deleted": True, "todo": done}
    assert call("list_todos")["total"] == 1


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("delete_todo", {"todo_id": 99}, "There is no todo 99"),
        ("update_todo", {"todo_id": 99, "title": "x"}, "There is no todo 99"),
        ("update_todo", {"todo_id": 1}, "Say what to change"),
        ("create_todo", {}, "title must be given"),
        ("create_todo", {"title": ""}, "title must have 1 to 200 characters"),
        ("create_todo", {"title": "x", "priority": 6}, "priority must be at most 5"),
        ("create_todo", {"title": "x", "priority": True}, "priority must be of type integer"),
        ("create_todo", {"title": "x", "tags": ["a", 1]}, "tags[1] must be of type string"),
        ("create_todo", {"title": "x", "due_date": "2026-02-30"}, "due_date must be a day"),
        ("create_todo", {"title": "x", "colour": "red"}, "There is no parameter colour"),
        ("list_todos", {"status": "lost"}, "status must be one of: active, completed"),
    ],
)
def test_bad_arguments_are_results_a_model_can_learn_from(
    stdio: Stdio, name: str, arguments: dict[str, Any], told: str
) -> None:
    result = stdio.call(name, **arguments)
    assert result["isError"] is True
    assert told in result["content"][0]["text"]


@pytest.mark.parametrize("version", HANDSHAKES)
def test_handshake_versions_over_stdio(stdio: Stdio, version: str) -> None:
    hello = stdio.ask("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t"}})
    assert hello["result"]["protocolVersion"] == version
    stdio.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert stdio.ask("ping")["result"] == {}
    result = stdio.ask("tools/call", {"name": "create_todo", "arguments": {"title": "x"}})["result"]
    assert result["structuredContent"]["id"] == 1
    assert "resultType" not in result
    stdio.send([{"jsonrpc": "2.0", "id": 7, "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/x"}])
    told = stdio.read()
    assert told == [{"jsonrpc": "2.0", "id": 7, "result": {}}] if version == "2025-03-26" else told["error"]


def test_the_stateless_version_over_stdio(stdio: Stdio) -> None:
    offer = stdio.ask("server/discover", {"_meta": META})["result"]
    assert offer["supportedVersions"] == [VERSION]
    assert (offer["resultType"], offer["capabilities"]) == ("complete", {"tools": {}})
    future = {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    error = stdio.ask("tools/list", {"_meta": future})["error"]
    assert (error["code"], error["data"]) == (-32022, {"supported": [VERSION], "requested": "2099-01-01"})
    assert stdio.ask("ping", {"_meta": META})["error"]["code"] == -32601
    assert stdio.ask("tools/call", {"name": "no_such", "_meta": META})["error"]["code"] == -32602
    assert stdio.ask("server/discover")["error"]["code"] == -32602


def test_hostile_lines_are_answered_and_survived(stdio: Stdio) -> None:
    for line, code in [(b"{", -32700), (b"[" * 100_000, -32700), (b"[]", -32600), (b"7", -32600), (b"\xff", -32700)]:
        stdio.process.stdin.write(line + b"\n")
        stdio.process.stdin.flush()
        assert stdio.read()["error"]["code"] == code
    odd = {"jsonrpc": "2.0", "id": None, "method": "tools/list"}
    stdio.send(odd)
    assert stdio.read()["error"]["code"] == -32600
    assert stdio.call("list_todos")["isError"] is False


def test_the_list_outlives_the_process(tmp_path: Path) -> None:
    store = str(tmp_path / "todos.json")
    with closing(Stdio("--store", store)) as server:
        server.call("create_todo", title="Grüße")
        server.call("delete_todo", todo_id=server.call("create_todo", title="x")["structuredContent"]["id"])
    with closing(Stdio("--store", store)) as server:
        assert [todo["title"] for todo in server.call("list_todos")["structuredContent"]["todos"]] == ["Grüße"]
        assert server.call("create_todo", title="y")["structuredContent"]["id"] == 3, "no id is given twice"


def test_a_file_of_another_kind_is_not_written_over(tmp_path: Path) -> None:
    store = tmp_path / "keys.json"
    store.write_text('{"secret": "x"}')
    command = [sys.executable, "-I", str(SERVER), "--store", str(store)]
    refused = subprocess.run(command, input="", capture_output=True, text=True, timeout=10, check=False)
    assert (refused.returncode, refused.stderr) == (1, f"{store} holds no to-do list.\n")
    assert store.read_text() == '{"secret": "x"}'


def test_what_it_cannot_begin_with_it_names(port: int, tmp_path: Path) -> None:
    for given, said in (
        (["--http", str(port)], f"Port {port} cannot be used: "),
        (["--http", "70000"], "Port 70000 cannot be used: "),
        (["--store", str(tmp_path)], f"{tmp_path} cannot be read: Is a directory.\n"),
    ):
        command = [sys.executable, "-I", str(SERVER), *given]
        refused = subprocess.run(command, input="", capture_output=True, text=True, timeout=10, check=False)
        assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
        assert refused.stderr.startswith(said)


def test_a_list_that_cannot_be_kept_stays_as_it_was(tmp_path: Path) -> None:
    with closing(Stdio("--store", str(tmp_path / "no" / "todos.json"))) as server:
        refused = server.call("create_todo", title="x")
        assert (refused["isError"], refused["content"][0]["text"]) == (
            True,
            "The list cannot be kept, and stays as it was: No such file or directory.",
        )
        assert server.call("list_todos")["structuredContent"]["todos"] == []


def test_the_stateless_version_over_http(port: int) -> None:
    assert modern(port, "server/discover")[1]["result"]["supportedVersions"] == [VERSION]
    status, body = modern(port, "tools/call", {"name": "create_todo", "arguments": {"title": "x"}})
    assert (status, body["result"]["structuredContent"]["title"]) == (200, "x")


@pytest.mark.parametrize(
    ("method", "params", "headers", "status", "code"),
    [
        ("tools/list", {}, {"Mcp_Method": "tools/call"}, 400, -32020),
        ("tools/call", {"name": "list_todos"}, {"Mcp_Name": "delete_todo"}, 400, -32020),
        ("tools/list", {}, {"MCP_Protocol_Version": "2025-11-25"}, 400, -32020),
        ("tools/list", {"_meta": {}}, {}, 400, -32602),
        ("ping", {}, {}, 404, -32601),
        ("tools/call", {"name": "no_such"}, {}, 400, -32602),
    ],
)
def test_what_http_refuses(
    port: int, method: str, params: dict[str, Any], headers: dict[str, str], status: int, code: int
) -> None:
    found, body = modern(port, method, params, **headers)
    assert (found, body["error"]["code"], body["id"]) == (status, code, 1)


def test_a_version_that_nobody_speaks_is_told_which_are(port: int) -> None:
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    status, body = modern(port, "tools/list", {"_meta": meta}, MCP_Protocol_Version="2099-01-01")
    assert (status, body["error"]["code"], body["error"]["data"]["supported"]) == (400, -32022, [VERSION])


def test_the_handshake_over_http(port: int) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
    assert post(port, hello)[1]["result"]["protocolVersion"] == "2025-06-18"
    started = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert post(port, started, MCP_Protocol_Version="2025-06-18") == (202, None)
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    assert len(post(port, listing, MCP_Protocol_Version="2025-06-18")[1]["result"]["tools"]) == 5
    assert post(port, [listing])[1][0]["id"] == 2
    assert post(port, [listing], MCP_Protocol_Version="2025-06-18")[1]["error"]["code"] == -32600


def test_strangers_and_odd_requests_are_refused(port: int) -> None:
    assert post(port, {}, Origin="https://evil.example")[0] == 403
    assert post(port, {}, Host="evil.example")[0] == 403
    assert post(port, b"x" * (1024 * 1024 + 1))[0] == 413
    assert post(port, b"{")[1]["error"]["code"] == -32700
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as link:
        link.request("GET", "/mcp")
        response = link.getresponse()
        assert (response.status, response.headers["Allow"]) == (405, "POST")


def test_many_callers_at_once_get_ids_of_their_own(port: int) -> None:
    ids: list[int] = []

    def create() -> None:
        for _ in range(10):
            body = modern(port, "tools/call", {"name": "create_todo", "arguments": {"title": "x"}})[1]
            ids.append(body["result"]["structuredContent"]["id"])

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == len(set(ids)) == 80
