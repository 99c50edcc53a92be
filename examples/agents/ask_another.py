#!/usr/bin/env python3
"""An agent that asks another one: what it is given goes on as a task, and what comes of that is its own answer.

    python3 ask_another.py --to triage-bot --type summarise < notes.txt

It knows the other by name and nothing else of it. Gatehouse decides whether it may ask, with the token that every run
finds in its environment; by the same token it knows which task this one is a part of.
"""

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any

SECONDS = 60
#: Between two looks, at most.
PAUSE = 2.0


class Refused(Exception):
    """No result, and a sentence that says why."""

    exit_code = 1


class Away(Refused):
    """No answer, which may pass: by this code Gatehouse knows that the run can be tried again."""

    exit_code = 75


def ask(method: str, path: str, body: Any = None, **headers: str) -> dict[str, Any]:
    house, token = os.environ.get("GATEHOUSE_URL"), os.environ.get("GATEHOUSE_TOKEN")
    if not house or not token:
        raise Refused("GATEHOUSE_URL and GATEHOUSE_TOKEN are not set: let Gatehouse start this agent.")
    if not house.startswith(("http://", "https://")):
        raise Refused("GATEHOUSE_URL has to begin with http:// or https://.")
    try:
        request = urllib.request.Request(  # noqa: S310 -- the house's own address, which it put there itself
            f"{house.rstrip('/')}/api/nhi/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers},
            method=method,
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


def find(name: str) -> str:
    """The id of an agent that this one may ask."""
    me = ask("GET", "me")["id"]
    for agent in ask("GET", f"identities/{me}/effective-access")["agents"]:
        if agent["name"] == name:
            return str(agent["agent_id"])
    raise Refused(f"There is no agent {name} that this one may ask.")


def send(to: str, task_type: str, text: str) -> str:
    body = {"target_agent_id": to, "task_type": task_type, "input": {"input": text}}
    # Started again after a failure, this run is given the task that it sent before.
    key = {"Idempotency-Key": f"run-{os.environ['GATEHOUSE_RUN_ID']}"} if "GATEHOUSE_RUN_ID" in os.environ else {}
    return str(ask("POST", "a2a/tasks", body, **key)["task_id"])


def result_of(task_id: str) -> Any:
    """What comes of the task. A run has its timeout, so this has none."""
    pause = 0.1
    while (task := ask("GET", f"a2a/tasks/{task_id}"))["state"] in {"pending", "running"}:
        time.sleep(pause)
        pause = min(pause * 1.5, PAUSE)
    if task["state"] != "completed":
        raise Refused(
            f"The task is {task['state']}: {task['error_message'] or task['error_code'] or 'no reason given'}"
        )
    return task["result"]


def main() -> None:
    options = argparse.ArgumentParser(description="Hand what comes in to another agent.")
    options.add_argument("--to", required=True, help="the name of the other agent")
    options.add_argument("--type", default="summarise", help="what kind of task it is")
    given = options.parse_args()
    try:
        result = result_of(send(find(given.to), given.type, sys.stdin.read()))
    except Refused as refused:
        print(refused, file=sys.stderr)
        sys.exit(refused.exit_code)
    print(f"{given.to} says:")
    print(result["text"].rstrip() if isinstance(result, dict) and set(result) == {"text"} else json.dumps(result))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # as shells say it
    except UnicodeDecodeError:
        sys.exit("What came in is no text in UTF-8.")
