"""An inbox agent's worker: it takes what waits, says that it is done, and waits for more, over connections that stay.

GATEHOUSE_TOKEN=… python -m benchmarks.tasks.worker PORT [PORT ...]
"""

import http.client
import itertools
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.tasks.words import done

THREADS = 8
#: Seconds that an empty inbox keeps its answer, and any answer may take.
WAIT, PATIENCE = 20, 60
#: A server closes what was silent for longer than it likes.
STALE = 3.0


class Link:
    """A connection to one web process, of one thread."""

    def __init__(self, port: int) -> None:
        self._link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._used = time.monotonic()
        self._headers = {
            "Authorization": f"Bearer {os.environ['GATEHOUSE_TOKEN']}",
            "Content-Type": "application/json",
        }

    def ask(self, method: str, path: str = "", body: Any = None) -> Any:
        sent = None if body is None else json.dumps(body)
        if time.monotonic() - self._used > STALE:
            self._link.close()
        self._link.request(method, f"/api/nhi/a2a/inbox{path}", sent, self._headers)
        reply = self._link.getresponse()
        said, self._used = reply.read(), time.monotonic()
        if reply.status != 200:
            raise SystemExit(f"{method} {path}: {reply.status} {said[:500]!r}")
        return json.loads(said)


class Worker:
    def __init__(self, ports: list[int]) -> None:
        self._ports = itertools.cycle(ports)
        self._held = 0
        self._less = threading.Condition()
        self._own = threading.local()

    def run(self) -> None:
        link = Link(next(self._ports))
        with ThreadPoolExecutor(THREADS) as pool:
            while True:
                for task in link.ask("POST", "/claim", {"limit": self._room(), "wait": WAIT})["tasks"]:
                    with self._less:
                        self._held += 1
                    pool.submit(self._do, task)

    def _room(self) -> int:
        """How many more can be begun at once, as soon as there is one."""
        with self._less:
            while self._held >= THREADS:
                self._less.wait()
            return THREADS - self._held

    def _do(self, task: dict[str, Any]) -> None:
        try:
            self._complete(task)
        except BaseException as error:
            # A pool keeps it to itself; whoever measures must not wait for a task that nobody does.
            print(f"{task['task_id']}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        with self._less:
            self._held -= 1
            self._less.notify_all()

    def _complete(self, task: dict[str, Any]) -> None:
        link = self._own.link = getattr(self._own, "link", None) or Link(next(self._ports))
        result = {"text": done(task["input"]["text"])}
        link.ask("POST", f"/{task['task_id']}/complete", {"lease_token": task["lease_token"], "result": result})


if __name__ == "__main__":
    Worker([int(port) for port in sys.argv[1:]]).run()
