"""What the scripts here are asked to do, and how they say what came of it. The same for both lines of the SDK."""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio


def options() -> argparse.Namespace:
    known = argparse.ArgumentParser()
    known.add_argument("target", help="a URL, or a command as a JSON array")
    known.add_argument("token", nargs="?", default="", help="sent as a bearer token")
    known.add_argument("--transport", choices=["http", "sse"], default="http")
    known.add_argument("--version", default="auto", help="auto, legacy, or a date")
    known.add_argument("--header", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"))
    known.add_argument("--list", action="store_true")
    known.add_argument("--call", nargs=2, action="append", default=[], metavar=("NAME", "JSON"))
    known.add_argument("--timeout", type=float, default=20.0, help="for each call")
    known.add_argument("--cancel-after", type=float, help="give each call up after so many seconds")
    asked = known.parse_args()
    asked.command = json.loads(asked.target) if asked.target.startswith("[") else []
    asked.headers = dict(asked.header)
    if asked.token:
        asked.headers["Authorization"] = f"Bearer {asked.token}"
    return asked


@dataclass
class Call:
    """One call: its progress as it came, and its result or error as they stood on the wire."""

    name: str
    progress: list[list[Any]] = field(default_factory=list)
    ended: dict[str, Any] = field(default_factory=dict)

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append([progress, total, message])

    async def run(self, send: Awaitable[Any], asked: argparse.Namespace) -> None:
        try:
            with anyio.move_on_after(asked.cancel_after or asked.timeout) as scope:
                self.ended = {"result": plain(await send)}
        except Exception as error:
            self.ended = {"error": told(error)}
        if scope.cancelled_caught:
            self.ended = {"cancelled": True} if asked.cancel_after else {"error": {"message": "timed out"}}

    def said(self) -> dict[str, Any]:
        return {"name": self.name, "progress": self.progress, **self.ended}


def plain(model: Any) -> Any:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def told(error: BaseException) -> dict[str, Any]:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    data = getattr(error, "error", None)
    return plain(data) if data is not None else {"message": f"{type(error).__name__}: {error}"}


async def drive(
    session: Any, asked: argparse.Namespace, cursor: Callable[[str | None], dict[str, Any]]
) -> dict[str, Any]:
    """List and call as asked, over a session that stands; `cursor` says how this line passes one."""
    said: dict[str, Any] = {}
    if asked.list:
        said["tools"] = await listed(session, cursor)
    calls = []
    for name, arguments in asked.call:
        call = Call(name)
        await call.run(session.call_tool(name, json.loads(arguments), progress_callback=call.on_progress), asked)
        calls.append(call.said())
    return {**said, "calls": calls}


async def listed(session: Any, cursor: Callable[[str | None], dict[str, Any]]) -> list[Any]:
    tools, after = [], None
    while True:
        page = plain(await session.list_tools(**cursor(after)))
        tools += page["tools"]
        after = page.get("nextCursor")
        if after is None:
            return tools


def main(run: Callable[[argparse.Namespace, dict[str, Any]], Awaitable[None]]) -> None:
    """Print what was found out as JSON, also when it ends early; exit 1 when the connection itself failed."""
    said: dict[str, Any] = {}
    try:
        asyncio.run(run(options(), said))
    except BaseException as error:  # the SDK raises groups, and CancelledError for a server that died
        if isinstance(error, SystemExit):
            raise
        said["error"] = told(error)
    print(json.dumps(said))
    raise SystemExit(1 if "error" in said else 0)
