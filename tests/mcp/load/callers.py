"""Clients that call tools over REST at several web processes, as fast as they are answered, and note every reply."""

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    sent: float
    status: int
    body: Json
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        return str(self.body.get("details", {}).get("reason", ""))

    @property
    def call_id(self) -> str:
        return self.headers.get("x-call-id", "")


def call(
    port: int, token: str, tool: str, parameters: Json | None = None, *, timeout: float = 60, link: Any = None
) -> Reply:
    own = None if link is not None else http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    way = own or link
    body = json.dumps({"parameters": parameters or {}})
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    sent = time.monotonic()
    try:
        way.request("POST", f"/api/nhi/mcp/tools/{tool}/call", body, headers)
        reply = way.getresponse()
        read = json.loads(reply.read())
        return Reply(sent, reply.status, read, {name.lower(): value for name, value in reply.getheaders()})
    finally:
        if own is not None:
            own.close()


def at_once(
    ports: Sequence[int], count: int, ask: Callable[[int, Any, int], Reply], *, clients: int = 16
) -> list[Reply]:
    """`count` calls by so many clients, spread over the processes; `ask` gets a port, a connection and a number."""
    replies: list[Reply] = []
    numbers = iter(range(count))
    lock = threading.Lock()
    failures: list[BaseException] = []

    def work(client: int) -> None:
        port = ports[client % len(ports)]
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as link:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                try:
                    replies.append(ask(port, link, number))
                except BaseException as error:
                    failures.append(error)
                    return

    threads = [threading.Thread(target=work, args=(client,), daemon=True) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures, failures[:3]
    return replies


def by_answer(replies: Sequence[Reply]) -> Counter[str]:
    return Counter(f"{reply.status} {reply.reason}".strip() for reply in replies)
