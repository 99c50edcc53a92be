"""How much code one call runs through: the modules from the request to its row, and the seven that tell the way."""

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mcp.gateway.batch.worker import batch_worker
from mcp.server import rest_handler
from nhi.models import InvocationLog
from tests.mcp.scene import Scene, run

ROOT = Path(__file__).parents[2]
#: The apps that make a call. `common` has libraries without a word about calls.
APPS = ("nhi", "mcp")
#: What a reader must know to follow one call, in this order; README names them.
ESSENTIAL = [
    "mcp.server.rest_handler",
    "mcp.gateway.pipeline",
    "mcp.gateway.batch.worker",
    "mcp.gateway.batch.batch_transaction",
    "nhi.decisions.engine",
    "mcp.gateway.upstream_call",
    "mcp.gateway.batch.result_writer",
]
MAX_MODULES = 38

pytestmark = [pytest.mark.capability("MCP-07"), pytest.mark.django_db(transaction=True)]


@contextmanager
def modules_that_run() -> Iterator[list[str]]:
    """List the modules of these apps that run in the block, on all its threads, in the order of their first call."""
    modules: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.partition(".")[0] in APPS and name not in modules:
            modules.append(name)

    threading.settrace(note)
    sys.settrace(note)
    try:
        yield modules
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]  # how tracing is ended


def test_one_call_runs_through_few_modules(made: Scene) -> None:
    """A call as most are: known to this process, without a budget, an approval or somebody behind it."""
    token = made.made["tokens"]["bot"]

    async def second_call() -> tuple[dict[str, Any], list[str]]:
        await ask(token)
        # The thread of the desk begins anew, so that it is seen too.
        batch_worker.stop()
        with modules_that_run() as entered:
            return await ask(token), entered

    answer, entered = run(second_call())
    assert InvocationLog.objects.filter(pk=answer["call_id"], status="success").exists()
    assert [name for name in entered if name in ESSENTIAL] == ESSENTIAL
    assert len(entered) <= MAX_MODULES, "\n".join(entered)


def test_the_readme_names_the_modules_that_tell_the_way_of_a_call() -> None:
    text = (ROOT / "README.md").read_text()
    paths = [name.replace(".", "/") + ".py" for name in ESSENTIAL]
    assert [path for path in paths if f"({path})" not in text] == []


async def ask(token: str) -> dict[str, Any]:
    """The body of the answer to one call over REST, past Django, as the web process takes it."""
    body = json.dumps({"parameters": {}}).encode()
    headers = {
        "host": "127.0.0.1", "authorization": f"Bearer {token}", "content-type": "application/json",
        "content-length": str(len(body)),
    }  # fmt: skip
    scope = {
        "type": "http", "method": "POST", "path": "/api/nhi/mcp/tools/peer__echo/call", "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "client": ("127.0.0.1", 5),
    }  # fmt: skip
    left = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.Event().wait()
        return left.pop()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    application = rest_handler.make_application(None, (), lambda _, send: send)  # type: ignore[arg-type]  # unused
    await application(scope, receive, send)
    assert sent[0]["status"] == 200
    found: dict[str, Any] = json.loads(sent[1]["body"])
    return found
