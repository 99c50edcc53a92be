"""Clients that ask without pause, over connections that stay open, and write down when they sent and what they got."""

import http.client
import json
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Probe:
    """A request that is sent again and again."""

    name: str
    token: str
    #: None: "who am I"; else "may I call this".
    target_id: str | None = None


@dataclass(frozen=True)
class Call:
    sent: float
    status: int
    allowed: bool


@dataclass
class Hammer:
    ports: list[int]
    probes: list[Probe]
    calls: dict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self, each: int) -> None:
        """`each` clients for every web process."""
        for number in range(each * len(self.ports)):
            thread = threading.Thread(target=self._run, args=(number,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def wait_for(self, name: str, count: int, after: float = 0.0) -> None:
        """Until so many calls of this probe were sent after that moment and answered."""
        deadline = time.monotonic() + 60
        while sum(call.sent > after for call in list(self.calls[name])) < count:
            assert time.monotonic() < deadline, f"{name}: {len(self.calls[name])} calls, {self.errors[:3]}"
            time.sleep(0.02)

    def _run(self, number: int) -> None:
        link = http.client.HTTPConnection("127.0.0.1", self.ports[number % len(self.ports)], timeout=30)
        turn = number
        while not self._end.is_set():
            probe = self.probes[turn % len(self.probes)]
            turn += 1
            try:
                self.calls[probe.name].append(_send(link, probe))
            except (OSError, http.client.HTTPException) as error:
                self.errors.append(f"{probe.name}: {error!r}")
                link.close()
        with suppress(OSError):
            link.close()


def _send(link: http.client.HTTPConnection, probe: Probe) -> Call:
    headers = {"Authorization": f"Bearer {probe.token}"}
    sent = time.monotonic()
    if probe.target_id is None:
        link.request("GET", "/api/nhi/me", headers=headers)
    else:
        body = json.dumps({"target_id": probe.target_id})
        link.request("POST", "/api/nhi/decisions/check", body, {**headers, "Content-Type": "application/json"})
    reply = link.getresponse()
    read = reply.read()
    return Call(sent, reply.status, _allows(probe, reply.status, read))


def _allows(probe: Probe, status: int, body: bytes) -> bool:
    if status != 200:
        return False
    said: Any = json.loads(body)
    return probe.target_id is None or said["decision"] == "allow"
