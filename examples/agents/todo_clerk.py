#!/usr/bin/env python3
"""An agent that takes its input as arguments and uses a tool: it puts what it is told on the to-do list.

    python3 todo_clerk.py Water the plants

It knows neither the to-do server nor its secrets. It calls the tool through Gatehouse, as the agent that it is, with
the address and the token that every run finds in its environment.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

TOOL = "todo__create_todo"
SECONDS = 60


class Refused(Exception):
    """No result, and a sentence that says why."""

    exit_code = 1


class Away(Refused):
    """No answer, which may pass: by this code Gatehouse knows that the run can be tried again."""

    exit_code = 75


def call(tool: str, parameters: dict[str, Any]) -> dict[str, Any]:
    house, token = os.environ.get("GATEHOUSE_URL"), os.environ.get("GATEHOUSE_TOKEN")
    if not house or not token:
        raise Refused("GATEHOUSE_URL and GATEHOUSE_TOKEN are not set: let Gatehouse start this agent.")
    if not house.startswith(("http://", "https://")):
        raise Refused("GATEHOUSE_URL has to begin with http:// or https://.")
    try:
        request = urllib.request.Request(  # noqa: S310 -- the house's own address, which it put there itself
            f"{house.rstrip('/')}/api/nhi/mcp/tools/{tool}/call",
            data=json.dumps({"parameters": parameters}).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:  # noqa: S310 -- the same
            return dict(json.load(reply))
    except urllib.error.HTTPError as error:
        # Of these two nothing has come; after others it may have.
        raise (Away if error.code in {429, 503} else Refused)(sentence(error)) from None
    except OSError as error:
        raise Away(f"Gatehouse gave no answer: {error}") from None
    except (ValueError, HTTPException) as error:
        raise Refused(f"GATEHOUSE_URL leads to no Gatehouse: {error}") from None


def sentence(error: urllib.error.HTTPError) -> str:
    """What Gatehouse says about a refusal, whoever else may have answered in its place."""
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError):
        return f"Gatehouse answered {error.code}."


def main() -> None:
    title = " ".join(sys.argv[1:]).strip()
    if not title:
        sys.exit("Say what is to be done.")
    try:
        reply = call(TOOL, {"title": title})
    except Refused as refused:
        print(refused, file=sys.stderr)
        sys.exit(refused.exit_code)
    if "result" not in reply:
        sys.exit(f"A person has to allow this first: call {reply.get('call_id')} waits for approval.")
    print("\n".join(part["text"] for part in reply["result"]["content"] if part.get("type") == "text"))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # as shells say it
