#!/usr/bin/env python3
"""A to-do list as an MCP server: five tools, one file, nothing but Python's own library.

    python3 todo_server.py                     one client, over standard input and output
    python3 todo_server.py --http 8765         many clients, at http://127.0.0.1:8765/mcp
    python3 todo_server.py --store todos.json  the same, and the list outlives the process

It speaks the stateless protocol of 2026-07-28, where every request says its version, and the older ones that begin with
`initialize`. Read it from the top: the list, the tools, the protocol, the two transports.
"""

import argparse
import base64
import binascii
import contextlib
import json
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]

SERVER = {"name": "todo", "title": "To-do list", "version": "1.0.0"}
INSTRUCTIONS = "Keeps a to-do list. Look a todo's id up with list_todos or search_todos before you change it."

# ── The list ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Problem(Exception):
    """What the caller asked for cannot be done, as a sentence that helps it to ask again."""


@dataclass(frozen=True)
class Todo:
    id: int
    title: str
    created_at: str
    description: str = ""
    status: str = "active"
    priority: int = 3
    tags: list[str] = field(default_factory=list)
    due_date: str | None = None


class Todos:
    """The list in memory, for any number of threads; with a file, every change is on disk before it is answered."""

    def __init__(self, store: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._store = store
        self._todos: dict[int, Todo] = {}
        self._last_id = 0
        if store and store.exists():
            self._read(store)

    def add(self, **fields: Any) -> Todo:
        with self._lock:
            todo = Todo(id=self._last_id + 1, created_at=now(), **fields)
            self._keep({**self._todos, todo.id: todo}, last_id=todo.id)
            return todo

    def change(self, todo_id: int, **fields: Any) -> Todo:
        with self._lock:
            todo = replace(self._find(todo_id), **fields)
            self._keep({**self._todos, todo_id: todo}, last_id=self._last_id)
            return todo

    def remove(self, todo_id: int) -> Todo:
        with self._lock:
            todo = self._find(todo_id)
            self._keep({key: row for key, row in self._todos.items() if key != todo_id}, last_id=self._last_id)
            return todo

    def where(self, *tests: Callable[[Todo], bool]) -> list[Todo]:
        with self._lock:
            return [todo for todo in self._todos.values() if all(test(todo) for test in tests)]

    def _read(self, store: Path) -> None:
        try:
            kept = json.loads(store.read_text(encoding="utf-8"))
            self._todos = {row["id"]: Todo(**row) for row in kept["todos"]}
            self._last_id = kept["last_id"]
        except (ValueError, KeyError, TypeError):
            # Whatever it is, it is not ours to write over.
            sys.exit(f"{store} holds no to-do list.")
        except OSError as error:
            sys.exit(f"{store} cannot be read: {error.strerror}.")

    def _find(self, todo_id: int) -> Todo:
        if todo_id not in self._todos:
            raise Problem(f"There is no todo {todo_id}. list_todos shows the ids that exist.")
        return self._todos[todo_id]

    def _keep(self, todos: dict[int, Todo], *, last_id: int) -> None:
        # The file first: when it cannot be written, the list stays as the file has it.
        if self._store:
            kept = {"last_id": last_id, "todos": [asdict(todo) for todo in todos.values()]}
            beside = self._store.with_name(f"{self._store.name}.new")
            try:
                beside.write_text(json.dumps(kept, ensure_ascii=False, indent=1), encoding="utf-8")
                beside.replace(self._store)
            except OSError as error:
                raise Problem(f"The list cannot be kept, and stays as it was: {error.strerror}.") from None
        self._todos, self._last_id = todos, last_id


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# ── The tools ────────────────────────────────────────────────────────────────────────────────────────────────────

TITLE = {"type": "string", "minLength": 1, "maxLength": 200, "description": "What is to be done"}
DESCRIPTION = {"type": "string", "maxLength": 5000, "description": "More words, where the title is not enough"}
STATUS = {"type": "string", "enum": ["active", "completed"]}
PRIORITY = {"type": "integer", "minimum": 1, "maximum": 5, "description": "1 is the most urgent, 5 the least"}
TAGS = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 50}, "maxItems": 20}
DATE = {"type": "string", "format": "date"}
TODO_ID = {"type": "integer", "minimum": 1, "description": "The id, as list_todos shows it"}
TODO = {
    "type": "object",
    "properties": {
        "id": TODO_ID,
        "title": TITLE,
        "created_at": {"type": "string", "format": "date-time"},
        "description": DESCRIPTION,
        "status": STATUS,
        "priority": PRIORITY,
        "tags": TAGS,
        "due_date": {"type": ["string", "null"], "format": "date"},
    },
    "required": ["id", "title", "created_at", "description", "status", "priority", "tags", "due_date"],
    "additionalProperties": False,
}
FOUND = {
    "type": "object",
    "properties": {"todos": {"type": "array", "items": TODO}, "total": {"type": "integer", "minimum": 0}},
    "required": ["todos", "total"],
    "additionalProperties": False,
}
DELETED = {
    "type": "object",
    "properties": {"deleted": {"type": "boolean"}, "todo": TODO},
    "required": ["deleted", "todo"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Tool:
    name: str
    title: str
    description: str
    run: Callable[..., Json]
    parameters: Mapping[str, Json]
    required: tuple[str, ...]
    output: Json
    reads_only: bool = False
    destroys: bool = False
    repeatable: bool = False

    @property
    def input_schema(self) -> Json:
        return {
            "type": "object",
            "properties": dict(self.parameters),
            "required": list(self.required),
            "additionalProperties": False,
        }

    def definition(self) -> Json:
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output,
            "annotations": {
                "readOnlyHint": self.reads_only,
                "destructiveHint": self.destroys,
                "idempotentHint": self.repeatable,
                "openWorldHint": False,
            },
        }


TOOLS: dict[str, Tool] = {}


def tool(**facts: Any) -> Callable[[Callable[..., Json]], Callable[..., Json]]:
    """Offer a function under its own name; it is called with the list and the checked arguments."""

    def offer(run: Callable[..., Json]) -> Callable[..., Json]:
        TOOLS[run.__name__] = Tool(name=run.__name__, run=run, **facts)
        return run

    return offer


@tool(
    title="Create a todo",
    description="Creates a new todo item with title, optional description, priority, tags, and due date",
    parameters={"title": TITLE, "description": DESCRIPTION, "priority": PRIORITY, "tags": TAGS, "due_date": DATE},
    required=("title",),
    output=TODO,
)
def create_todo(todos: Todos, **fields: Any) -> Json:
    return asdict(todos.add(**fields))


@tool(
    title="List todos",
    description="Lists todos filtered by status, priority, tags, or due date",
    parameters={
        "status": STATUS,
        "priority": PRIORITY,
        "tags": {**TAGS, "description": "Todos that have all of these"},
        "due_date_before": {**DATE, "description": "Due earlier than this day"},
        "due_date_after": {**DATE, "description": "Due later than this day"},
    },
    required=(),
    output=FOUND,
    reads_only=True,
    repeatable=True,
)
def list_todos(
    todos: Todos,
    tags: list[str] | None = None,
    due_date_before: str | None = None,
    due_date_after: str | None = None,
    **equal: Any,
) -> Json:
    return found(
        todos.where(
            lambda todo: all(getattr(todo, name) == value for name, value in equal.items()),
            lambda todo: set(tags or ()) <= set(todo.tags),
            # A day as ISO 8601 writes it sorts as text; what has no day is due neither before nor after one.
            lambda todo: due_date_before is None or bool(todo.due_date and todo.due_date < due_date_before),
            lambda todo: due_date_after is None or bool(todo.due_date and todo.due_date > due_date_after),
        )
    )


@tool(
    title="Update a todo",
    description="Updates an existing todo's fields by ID",
    parameters={
        "todo_id": TODO_ID,
        "title": TITLE,
        "description": DESCRIPTION,
        "status": STATUS,
        "priority": PRIORITY,
        "tags": TAGS,
        "due_date": DATE,
    },
    required=("todo_id",),
    output=TODO,
    destroys=True,
    repeatable=True,
)
def update_todo(todos: Todos, todo_id: int, **fields: Any) -> Json:
    if not fields:
        raise Problem("Say what to change: title, description, status, priority, tags or due_date.")
    return asdict(todos.change(todo_id, **fields))


@tool(
    title="Search todos",
    description="Searches todos by keyword in title or description",
    parameters={"query": {"type": "string", "minLength": 1, "maxLength": 200}, "status": STATUS, "priority": PRIORITY},
    required=("query",),
    output=FOUND,
    reads_only=True,
    repeatable=True,
)
def search_todos(todos: Todos, query: str, **equal: Any) -> Json:
    word = query.casefold()
    return found(
        todos.where(
            lambda todo: all(getattr(todo, name) == value for name, value in equal.items()),
            lambda todo: word in todo.title.casefold() or word in todo.description.casefold(),
        )
    )


@tool(
    title="Delete a todo",
    description="Deletes a todo by ID",
    parameters={"todo_id": TODO_ID},
    required=("todo_id",),
    output=DELETED,
    destroys=True,
    repeatable=True,
)
def delete_todo(todos: Todos, todo_id: int) -> Json:
    return {"deleted": True, "todo": asdict(todos.remove(todo_id))}


def found(todos: list[Todo]) -> Json:
    return {"todos": [asdict(todo) for todo in todos], "total": len(todos)}


# ── Arguments: as much of JSON Schema as the tools above use ───────────────────────────────────────────────────────

KINDS: dict[str, type] = {"string": str, "integer": int, "array": list, "object": dict}


def check(value: Any, schema: Json, name: str) -> None:
    kind = schema["type"]
    # To Python, true is an integer; to JSON it is not.
    if not isinstance(value, KINDS[kind]) or isinstance(value, bool):
        raise Problem(f"{name} must be of type {kind}.")
    CHECKS[kind](value, schema, name)


def check_text(value: str, schema: Json, name: str) -> None:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        raise Problem(f"{name} must have {schema.get('minLength', 0)} to {schema['maxLength']} characters.")
    if value not in schema.get("enum", [value]):
        raise Problem(f"{name} must be one of: {', '.join(schema['enum'])}.")
    if schema.get("format") == "date" and not is_date(value):
        raise Problem(f"{name} must be a day like 2026-12-31.")


def check_number(value: int, schema: Json, name: str) -> None:
    if value < schema.get("minimum", value):
        raise Problem(f"{name} must be at least {schema['minimum']}.")
    if value > schema.get("maximum", value):
        raise Problem(f"{name} must be at most {schema['maximum']}.")


def check_items(value: list[Any], schema: Json, name: str) -> None:
    if len(value) > schema["maxItems"]:
        raise Problem(f"{name} must have at most {schema['maxItems']} items.")
    for number, item in enumerate(value):
        check(item, schema["items"], f"{name}[{number}]")


def check_members(value: Json, schema: Json, _name: str) -> None:
    if missing := [key for key in schema["required"] if key not in value]:
        raise Problem(f"{', '.join(missing)} must be given.")
    if unknown := [key for key in value if key not in schema["properties"]]:
        known = ", ".join(schema["properties"])
        raise Problem(f"There is no parameter {', '.join(unknown)}. The parameters are: {known}.")
    for key, member in value.items():
        check(member, schema["properties"][key], key)


CHECKS: dict[str, Callable[[Any, Json, str], None]] = {
    "string": check_text,
    "integer": check_number,
    "array": check_items,
    "object": check_members,
}


def is_date(value: str) -> bool:
    try:
        return date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


# ── The protocol: a message in, its answer out ─────────────────────────────────────────────────────────────────────

MODERN = ("2026-07-28",)
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
WITH_BATCHES = "2025-03-26"
META = "io.modelcontextprotocol/"
LIST_IS_GOOD_FOR_MS = 60_000

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022


class Refusal(Exception):
    """A JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Json | None = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message, **({"data": data} if data else {})}


def answer(message: Any, todos: Todos) -> Json | None:
    """The reply to one message; None to a notification, which gets none."""
    request_id = None
    try:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise Refusal(INVALID_REQUEST, "Not a JSON-RPC 2.0 message.")
        if "method" not in message or "id" not in message:
            return None
        if not isinstance(message["id"], str | int) or isinstance(message["id"], bool):
            raise Refusal(INVALID_REQUEST, "An id must be a string or an integer.")
        request_id = message["id"]
        return {"jsonrpc": "2.0", "id": request_id, "result": result(message["method"], params_of(message), todos)}
    except Refusal as refusal:
        return {"jsonrpc": "2.0", "id": request_id, "error": refusal.error}


def params_of(message: Json) -> Json:
    params = message.get("params", {})
    if not isinstance(params, dict) or not isinstance(params.get("_meta", {}), dict):
        raise Refusal(INVALID_PARAMS, "params and _meta must be objects.")
    return params


def result(method: str, params: Json, todos: Todos) -> Json:
    # Since 2026-07-28 every request says its version; before that, only the first one did.
    if is_modern(method, params):
        check_meta(params.get("_meta", {}))
        return modern_result(method, params, todos)
    return handshake_result(method, params, todos)


def is_modern(method: str, params: Json) -> bool:
    return method == "server/discover" or f"{META}protocolVersion" in params.get("_meta", {})


def check_meta(meta: Json) -> None:
    version = meta.get(f"{META}protocolVersion")
    if not isinstance(version, str) or not isinstance(meta.get(f"{META}clientCapabilities"), dict):
        raise Refusal(INVALID_PARAMS, f"_meta must hold {META}protocolVersion and {META}clientCapabilities.")
    if version not in MODERN:
        data = {"supported": list(MODERN), "requested": version}
        raise Refusal(UNSUPPORTED_VERSION, "This version of the protocol is not spoken here.", data)


def modern_result(method: str, params: Json, todos: Todos) -> Json:
    about = {"resultType": "complete", "_meta": {f"{META}serverInfo": SERVER}}
    cached = {"ttlMs": LIST_IS_GOOD_FOR_MS, "cacheScope": "public"}
    if method == "server/discover":
        offer: Json = {"supportedVersions": list(MODERN), "capabilities": {"tools": {}}}
        return {**offer, "instructions": INSTRUCTIONS, **cached, **about}
    if method == "tools/list":
        return {**list_tools(params), **cached, **about}
    if method == "tools/call":
        return {**call_tool(params, todos), **about}
    raise Refusal(METHOD_NOT_FOUND, f"There is no method {method}.")


def handshake_result(method: str, params: Json, todos: Todos) -> Json:
    if method == "initialize":
        asked = params.get("protocolVersion")
        version = asked if asked in HANDSHAKE else HANDSHAKE[0]
        offer: Json = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": SERVER}
        return {**offer, "instructions": INSTRUCTIONS}
    if method == "ping":
        return {}
    if method == "tools/list":
        return list_tools(params)
    if method == "tools/call":
        return call_tool(params, todos)
    raise Refusal(METHOD_NOT_FOUND, f"There is no method {method}.")


def list_tools(params: Json) -> Json:
    if "cursor" in params:
        raise Refusal(INVALID_PARAMS, "All tools are on the first page: there is no cursor.")
    return {"tools": [offered.definition() for offered in TOOLS.values()]}


def call_tool(params: Json, todos: Todos) -> Json:
    name, arguments = params.get("name"), params.get("arguments", {})
    called = TOOLS.get(name) if isinstance(name, str) else None
    if called is None:
        raise Refusal(INVALID_PARAMS, f"There is no tool {name}.")
    try:
        check(arguments, called.input_schema, "arguments")
        output = called.run(todos, **arguments)
    except Problem as problem:
        # Not a JSON-RPC error: a model reads this, and can call again with better arguments.
        return {"content": [{"type": "text", "text": str(problem)}], "isError": True}
    text = json.dumps(output, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": output, "isError": False}


def parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Refusal(PARSE_ERROR, "Not JSON.") from error


def encode(reply: Any) -> bytes:
    return json.dumps(reply, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def failure(refusal: Refusal) -> Json:
    return {"jsonrpc": "2.0", "id": None, "error": refusal.error}


def answer_all(message: Any, todos: Todos, *, batches: bool) -> Any:
    """The reply to a message, or to each one of an array where the version has those."""
    if not (batches and isinstance(message, list) and message):
        return answer(message, todos)
    return [reply for one in message if (reply := answer(one, todos)) is not None] or None


# ── Over standard input and output ─────────────────────────────────────────────────────────────────────────────────


def serve_stdio(todos: Todos) -> None:
    """A message a line, until the client closes our input. Nothing else may be printed on standard output."""
    version = ""
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        try:
            reply = answer_all(parse(line), todos, batches=version == WITH_BATCHES)
        except Refusal as refusal:
            reply = failure(refusal)
        if reply is not None:
            if isinstance(reply, dict):
                version = reply.get("result", {}).get("protocolVersion", version)
            sys.stdout.buffer.write(encode(reply) + b"\n")
            sys.stdout.buffer.flush()


# ── Over HTTP ──────────────────────────────────────────────────────────────────────────────────────────────────────

LARGEST_BODY = 1024 * 1024
#: Bytes, and seconds, of a refused request that are still taken in.
READ_AWAY, READ_AWAY_FOR = 8 * 1024 * 1024, 2.0
LOOPBACK = {"127.0.0.1", "localhost", "[::1]"}
STATUS_OF = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}


class Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "todo"
    # A reply leaves in one piece: headers and body sent apart would wait for each other's receipt.
    wbufsize = 64 * 1024
    disable_nagle_algorithm = True
    timeout = 120
    todos: Todos

    def do_POST(self) -> None:
        if problem := self.refused():
            self.reply(problem)
            self.read_away()
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            self.reply(*self.exchange(parse(body)))
        except Refusal as refusal:
            self.reply(400, failure(refusal))

    def do_GET(self) -> None:
        # No stream of our own to offer, and no session to end.
        self.reply(405, allow="POST")

    def do_DELETE(self) -> None:
        self.do_GET()

    def refused(self) -> int:
        """The status for what is not even looked at; 0 when all is well."""
        self.close_connection = True
        length = self.headers.get("Content-Length", "")
        if self.path != "/mcp":
            return 404
        # A page in the user's browser must not reach us through a name it has pointed here.
        if not self.is_local():
            return 403
        if not length.isascii() or not length.isdigit():
            return 411
        if int(length) > LARGEST_BODY:
            return 413
        self.close_connection = self.headers.get("Connection", "").lower() == "close"
        return 0

    def read_away(self) -> None:
        """Whoever still sends would be cut off before the reply is read."""
        self.wfile.flush()
        self.connection.settimeout(READ_AWAY_FOR)
        left = READ_AWAY
        with contextlib.suppress(OSError):
            while left > 0 and (read := self.rfile.read1(64 * 1024)):
                left -= len(read)

    def is_local(self) -> bool:
        origin = self.headers.get("Origin")
        hosts = [self.headers.get("Host", ""), urlsplit(origin).netloc] if origin else [self.headers.get("Host", "")]
        return all(host.rpartition(":")[0] in LOOPBACK or host in LOOPBACK for host in hosts)

    def exchange(self, message: Any) -> tuple[int, Any]:
        """The status and the body for a message."""
        version = self.headers.get("MCP-Protocol-Version", WITH_BATCHES).strip()
        if begins_session(message) or (version in HANDSHAKE and not says_version(message)):
            reply = answer_all(message, self.todos, batches=version == WITH_BATCHES)
            return (200, reply) if reply is not None else (202, None)
        return self.modern_exchange(message, version)

    def modern_exchange(self, message: Any, version: str) -> tuple[int, Any]:
        try:
            if isinstance(message, dict) and "id" in message and "method" in message:
                self.check_headers(message, params_of(message), version)
            reply = answer(message, self.todos)
        except Refusal as refusal:
            reply = {**failure(refusal), "id": message["id"]}
        if reply is None:
            return 202, None
        return STATUS_OF.get(reply.get("error", {}).get("code"), 200), reply

    def check_headers(self, message: Json, params: Json, version: str) -> None:
        """What the headers say must be what the body says: who reads only one must not be fooled."""
        method, meta = message["method"], params.get("_meta", {})
        if f"{META}protocolVersion" not in meta or f"{META}clientCapabilities" not in meta:
            check_meta(meta)
        told = {"MCP-Protocol-Version": meta[f"{META}protocolVersion"], "Mcp-Method": method}
        if method == "tools/call":
            told["Mcp-Name"] = params.get("name")
        heard = {name: decoded(self.headers.get(name, "")) for name in told}
        heard["MCP-Protocol-Version"] = version
        if wrong := [name for name, value in told.items() if heard[name] != value]:
            raise Refusal(HEADER_MISMATCH, f"The header {', '.join(wrong)} does not say what the body says.")

    def reply(self, status: int, body: Any = None, allow: str = "") -> None:
        content = b"" if body is None else encode(body)
        self.send_response(status)
        if allow:
            self.send_header("Allow", allow)
        if content:
            self.send_header("Content-Type", "application/json")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """A line for every request would say nothing that the caller does not know."""


def begins_session(message: Any) -> bool:
    return isinstance(message, dict) and message.get("method") == "initialize"


def says_version(message: Any) -> bool:
    return isinstance(message, dict) and "method" in message and is_modern(message["method"], params_of(message))


def decoded(value: str) -> str:
    """A header's value; what ASCII cannot say comes as =?base64?…?=."""
    value = value.strip()
    if value.startswith("=?base64?") and value.endswith("?="):
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):
            return base64.b64decode(value[9:-2], validate=True).decode()
    return value


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def serve_http(todos: Todos, port: int) -> None:
    handler = type("TodoEndpoint", (Endpoint,), {"todos": todos})
    try:
        server = Server(("127.0.0.1", port), handler)
    except (OSError, OverflowError) as error:
        sys.exit(f"Port {port} cannot be used: {error}")
    with server:
        print(f"Listening on http://127.0.0.1:{server.server_port}/mcp", file=sys.stderr, flush=True)
        server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="A to-do list as an MCP server.")
    parser.add_argument("--http", type=int, metavar="PORT", help="serve HTTP on 127.0.0.1; 0 takes any free port")
    parser.add_argument("--store", type=Path, metavar="FILE", help="keep the list in this file")
    options = parser.parse_args()
    todos = Todos(options.store)
    with contextlib.suppress(KeyboardInterrupt):
        if options.http is None:
            serve_stdio(todos)
        else:
            serve_http(todos, options.http)


if __name__ == "__main__":
    main()
