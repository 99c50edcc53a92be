"""What a peer offers, written so that both lines of the SDK accept it."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any


def offer(server: Any, context: Any, error: type[Exception], notes: Path | None) -> None:
    offer_answers(server)
    offer_troubles(server, error, notes)
    offer_words(server, context, error)
    offer_others(server)


def offer_answers(server: Any) -> None:
    @server.tool()
    def echo(text: str) -> str:
        """Say it back."""
        return text

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool(structured_output=False)
    def big(size: int) -> str:
        """One text of that many bytes."""
        return "x" * size

    @server.tool()
    def environment() -> dict[str, str]:
        """The environment that this server was given."""
        return dict(os.environ)


def offer_troubles(server: Any, error: type[Exception], notes: Path | None) -> None:
    def note(**said: Any) -> None:
        if notes:
            with notes.open("a") as file:
                file.write(json.dumps(said) + "\n")

    @server.tool()
    def fail() -> str:
        """Always an error of the tool."""
        raise error("This tool always fails.")

    @server.tool()
    def crash() -> str:
        """End the whole server in the middle of the call."""
        note(event="crashed", pid=os.getpid())
        os._exit(3)

    @server.tool()
    async def sleep(seconds: float) -> str:
        """Wait, and note how the wait ended."""
        note(event="begun", pid=os.getpid())
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            note(event="cancelled", pid=os.getpid())
            raise
        note(event="ended", pid=os.getpid())
        return f"Slept for {seconds} seconds."


def offer_words(server: Any, context: Any, error: type[Exception]) -> None:
    async def progress(steps: int, ctx: Any) -> str:
        """Report each step."""
        for step in range(1, steps + 1):
            await ctx.report_progress(step, steps, f"step {step}")
        return f"{steps} steps"

    async def secret(text: str, ctx: Any, fails: bool = False) -> dict[str, str]:
        """Say it everywhere: progress, stderr, text, structured content; or in the text of an error."""
        await ctx.report_progress(1, 1, text)
        print(text, file=sys.stderr, flush=True)
        if fails:
            raise error(text)
        return {"said": text}

    for tool in (progress, secret):
        # The SDK finds the parameter for its context by this class, which each line of it has for itself.
        tool.__annotations__["ctx"] = context
        server.tool()(tool)


def offer_others(server: Any) -> None:
    @server.prompt()
    def greeting(name: str) -> str:
        """A greeting for somebody."""
        return f"Please greet {name}."

    @server.resource("note://readme")
    def readme() -> str:
        """A text."""
        return "Read me."

    @server.resource("note://{name}")
    def by_name(name: str) -> str:
        """A text for each name."""
        return f"A note named {name}."
