#!/usr/bin/env python3
"""The agent that the A2A protocol's test kit (TCK) talks to: what it does follows from the id of each message.

    TCK_AGENT=1 make up

starts one, as the agent `tck`. It is a worker of an inbox like `inbox_worker.py` and uses all that an inbox offers:
pieces of artifacts, questions, messages in place of results, refusals. With TCK_INPUT_REQUIRED=1 it asks back wherever
it would complete a task.
"""

import base64
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from inbox_worker import Away, Lost, Refused, Work, ask

PAUSE = 1.0
#: Tasks that are taken in one go.
MOST = 20
#: Longer than the kit waits for a stream that stays open.
LONG = 6.0
Part = dict[str, Any]
FILE: Part = {"raw": base64.b64encode(b"Hello").decode(), "filename": "output.txt", "mediaType": "text/plain"}
URL: Part = {"url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain"}
DATA: Part = {"data": {"key": "value", "count": 42}, "mediaType": "application/json"}


def text(said: str) -> Part:
    return {"text": said}


def hand_over(work: Work, part: Part, *, append: bool = False, last: bool = True) -> None:
    made = {"artifactId": "output", "name": "output", "parts": [part]}
    work.tell("artifacts", artifact=made, append=append, last=last)


def complete(work: Work) -> None:
    if os.environ.get("TCK_INPUT_REQUIRED"):
        work.tell("ask", message="What else?")
        return
    work.tell("progress", message="Hello from TCK")
    work.tell("complete", result=None)


def makes(part: Part) -> Callable[[Work], None]:
    def act(work: Work) -> None:
        hand_over(work, part)
        work.tell("complete", result=None)

    return act


def in_chunks(work: Work) -> None:
    hand_over(work, text("chunk-1 "), last=False)
    hand_over(work, text("chunk-2"), append=True)
    work.tell("complete", result=None)


def stays_open(work: Work) -> None:
    work.over.wait(LONG)
    work.tell("complete", result=None)


#: By the beginning of the message's id; of several that fit, the longest.
ACTS: dict[str, Callable[[Work], None]] = {
    "tck-complete-task": complete,
    "tck-input-required": lambda work: work.tell("ask", message="What do you want to know?"),
    "tck-artifact-text": makes(text("Generated text content")),
    "tck-artifact-file": makes(FILE),
    "tck-artifact-file-url": makes(URL),
    "tck-artifact-data": makes(DATA),
    "tck-message-response": lambda work: work.tell("answer", parts=[text("Direct message response")]),
    "tck-reject-task": lambda work: work.tell("reject", message="rejected"),
    "tck-stream-001": makes(text("Stream hello from TCK")),
    "tck-stream-002": lambda work: work.tell("complete", result=None),
    "tck-stream-003": makes(text("Stream task lifecycle")),
    "tck-stream-ordering-001": makes(text("Ordered output")),
    "tck-stream-artifact-text": makes(text("Streamed text content")),
    "tck-stream-artifact-file": makes(FILE),
    "tck-stream-artifact-chunked": in_chunks,
    "test-resubscribe-message-id": stays_open,
}


def act_of(message_id: str) -> Callable[[Work], None]:
    fitting = [start for start in ACTS if message_id.startswith(start)]
    return ACTS[max(fitting, key=len)] if fitting else complete


def do(work: Work) -> None:
    try:
        with work.kept():
            act_of(work.message["messageId"])(work)
    except Lost:
        return
    except (Refused, Away) as error:
        print(f"{work.task_id}: {error}", file=sys.stderr, flush=True)


def main() -> None:
    if not os.environ.get("GATEHOUSE_URL") or not os.environ.get("GATEHOUSE_TOKEN"):
        sys.exit("Set GATEHOUSE_URL to Gatehouse's address and GATEHOUSE_TOKEN to a credential of the agent.")
    if not os.environ["GATEHOUSE_URL"].startswith(("http://", "https://")):
        sys.exit("GATEHOUSE_URL has to begin with http:// or https://.")
    while True:
        try:
            taken = ask("POST", "/claim", {"limit": MOST, "wait": 20})["tasks"]
        except Refused as refused:
            sys.exit(str(refused))
        except Away as error:
            print(error, file=sys.stderr, flush=True)
            time.sleep(PAUSE)
            continue
        # One that takes its time holds up no other.
        for one in taken:
            threading.Thread(target=do, args=(Work(one),), daemon=True).start()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)  # as shells say it
