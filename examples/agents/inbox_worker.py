#!/usr/bin/env python3
"""An agent that fetches its tasks itself, wherever it runs: it counts the words of what it is given.

    GATEHOUSE_URL=http://127.0.0.1:8000 GATEHOUSE_TOKEN=nhi_agt_… python3 inbox_worker.py

Start as many as you like: a task is lent to one of them at a time. While one works it sends a heartbeat, so a task of
one that died is soon another's; when Gatehouse says that a task is over, the work on it stops. With --once it ends when
nothing waits.
"""

import argparse
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any

LEASE = 30
#: Seconds: for a task to come, after Gatehouse gave no answer, and for any answer.
WAIT = 20
PAUSE = 2.0
SECONDS = 30


#: The exit code for what may pass.
TRY_AGAIN = 75


class Refused(Exception):
    """What Gatehouse does not let this worker do, as a sentence."""


class Away(Exception):
    """Gatehouse gave no answer, or none now: the next time it may."""


class Lost(Exception):
    """The task is another's by now, or has ended: the work on it is for nothing."""


def ask(method: str, path: str, body: Any = None) -> dict[str, Any]:
    try:
        request = urllib.request.Request(  # noqa: S310 -- the address that who starts this has given
            f"{os.environ['GATEHOUSE_URL'].rstrip('/')}/api/nhi/a2a/inbox{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {os.environ['GATEHOUSE_TOKEN']}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:  # noqa: S310 -- the same
            return dict(json.load(reply))
    except urllib.error.HTTPError as error:
        said = f"Gatehouse answered {error.code}{sentence(error)}"
        if error.code == 409:
            raise Lost(said) from None
        raise (Away if error.code == 429 or error.code >= 500 else Refused)(said) from None
    except OSError as error:
        raise Away(f"Gatehouse gave no answer: {error}") from None
    except (ValueError, HTTPException) as error:
        raise Refused(f"GATEHOUSE_URL leads to no Gatehouse: {error}") from None


def sentence(error: urllib.error.HTTPError) -> str:
    """What Gatehouse says about a refusal; nothing where another answered in its place."""
    try:
        return f": {json.load(error)['message']}"
    except (OSError, ValueError, LookupError, TypeError):
        return "."


class Work:
    """A task that this worker holds."""

    def __init__(self, claimed: dict[str, Any]) -> None:
        self.task_id, self.input, self.message = claimed["task_id"], claimed["input"], claimed["message"]
        self._token = claimed["lease_token"]
        self.over = threading.Event()

    def tell(self, verb: str, **body: Any) -> None:
        try:
            ask("POST", f"/{self.task_id}/{verb}", {"lease_token": self._token, **body})
        except Lost:
            self.over.set()
            raise

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Heartbeats from beside, as long as the work takes."""
        done = threading.Event()
        beating = threading.Thread(target=self._beat, args=(done,), daemon=True)
        beating.start()
        try:
            yield
        finally:
            done.set()
            beating.join()

    def _beat(self, done: threading.Event) -> None:
        while not done.wait(LEASE / 3) and not self.over.is_set():
            try:
                self.tell("heartbeat")
            except Lost:
                return
            except (Refused, Away):
                continue  # it may work the next time; the lease is three times as long


def count(text: str, work: Work) -> dict[str, int]:
    """The work itself. It looks now and then whether anybody still wants it."""
    words: dict[str, int] = {}
    for number, line in enumerate(text.splitlines() or [""], 1):
        if work.over.is_set():
            raise Lost
        for word in line.lower().split():
            words[word] = words.get(word, 0) + 1
        if number % 10_000 == 0:
            work.tell("progress", message=f"{number} lines are read")
    return {"words": sum(words.values()), "different": len(words)}


def do(work: Work) -> None:
    try:
        given = work.input.get("input", work.input.get("text")) if isinstance(work.input, dict) else None
        if not isinstance(given, str):
            work.tell("fail", error_code="no_text", error_message='Give a text, like {"input": "Water the plants"}.')
            return
        with work.kept():
            work.tell("progress", message="Counting")
            result = count(given, work)
        work.tell("complete", result=result)
        print(f"{work.task_id}: {result['words']} words", flush=True)
    except Lost:
        print(f"{work.task_id}: not ours any more", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description="Do the tasks of an agent's inbox.")
    options.add_argument("--once", action="store_true", help="end when nothing waits")
    once = options.parse_args().once
    if not os.environ.get("GATEHOUSE_URL") or not os.environ.get("GATEHOUSE_TOKEN"):
        sys.exit("Set GATEHOUSE_URL to Gatehouse's address and GATEHOUSE_TOKEN to a credential of the agent.")
    if not os.environ["GATEHOUSE_URL"].startswith(("http://", "https://")):
        sys.exit("GATEHOUSE_URL has to begin with http:// or https://.")
    away = False
    while True:
        try:
            taken = ask("POST", "/claim", {"lease_seconds": LEASE, "wait": 0 if once else WAIT})["tasks"]
            for task in taken:
                do(Work(task))
            away = False
        except Refused as refused:
            sys.exit(str(refused))
        except Away as error:
            if once:
                print(error, file=sys.stderr)
                sys.exit(TRY_AGAIN)
            if not away:
                print(f"{error} (asked again every {PAUSE:g} s)", file=sys.stderr, flush=True)
            away, taken = True, []
            time.sleep(PAUSE)
        if once and not taken:
            return


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # as shells say it; a task that it holds is offered again when its lease ends
