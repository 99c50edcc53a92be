"""Ways to have a task done, asked the same: a plain Celery worker, the SDK's server, the product by two runtimes."""

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.calls.processes import Cell, Load, Request, cpu, rss
from benchmarks.runs.waiting import until
from benchmarks.tasks import house, making, words
from benchmarks.tasks.house import House, Peer

#: In the order in which they are asked.
CELERY, SDK, INBOX, IDLE = "celery", "sdk", "inbox", "no-op"
WAYS = (CELERY, SDK, INBOX, IDLE)
OURS = {INBOX: making.INBOX, IDLE: making.IDLE}


@dataclass(frozen=True)
class Turn:
    """What one way did at one concurrency."""

    #: Sends that are answered at once.
    sent: Cell
    #: Tasks a second from the first of these sends until the last of them was done.
    done: float
    #: Sends that are answered when the task has ended.
    whole: Cell

    @classmethod
    def median(cls, turns: "list[Turn]") -> "Turn":
        sent, whole = (Cell.median([getattr(turn, name) for turn in turns]) for name in ("sent", "whole"))
        return cls(sent, round(statistics.median(turn.done for turn in turns), 1), whole)


class Way(ABC):
    def __init__(self, name: str, load: Load, pids: list[int]) -> None:
        self.name, self._load, self._pids = name, load, pids

    @abstractmethod
    def job(self, *, connections: int, seconds: float, waits: bool) -> dict[str, Any]: ...

    @abstractmethod
    def open(self) -> int:
        """Tasks that are not done yet."""

    @abstractmethod
    def ended(self) -> int:
        """Tasks that were ever done, as they should be."""

    def counts(self, pids: list[int]) -> None:
        """The processes whose time is counted, where they are not known from the start."""
        self._pids = pids

    def turn(self, connections: int, seconds: float) -> Turn:
        began = time.monotonic()
        sent = self.measure(connections=connections, seconds=seconds, waits=False)
        until(lambda: not self.open(), f"every task of {self.name} was done", every=0.01)
        done = sent.calls / (time.monotonic() - began)
        return Turn(sent, done, self.measure(connections=connections, seconds=seconds, waits=True))

    def measure(self, *, connections: int, seconds: float, waits: bool) -> Cell:
        used, began = cpu(self._pids), time.monotonic()
        said = self._load.ask(self.job(connections=connections, seconds=seconds, waits=waits))
        # All that were begun, in the time until the last of them was answered: some take longer than a turn.
        rate = round(said["calls"] / (time.monotonic() - began), 1)
        each = round((cpu(self._pids) - used) * 1000 / max(said["calls"], 1), 3)
        cell = Cell(target=self.name, connections=connections, cpu_ms=each, rss_mb=rss(self._pids), **said)
        return replace(cell, rate=rate)


class OverHttp(Way):
    def __init__(
        self, name: str, load: Load, pids: list[int], *, ports: list[int], path: str,
        headers: tuple[tuple[str, str], ...], counts: Callable[[bool], int],
    ) -> None:  # fmt: skip
        super().__init__(name, load, pids)
        self._ports, self._counts = ports, counts
        self._requests: dict[bool, Request] = {
            waits: words.send(path, *headers, waits=waits) for waits in (False, True)
        }  # fmt: skip

    def job(self, *, connections: int, seconds: float, waits: bool) -> dict[str, Any]:
        request = self._requests[waits]
        return {
            "ports": self._ports, "request": request.wire, "expect": request.expect, "connections": connections,
            "warm": 0.0, "seconds": seconds, "to_the_end": True,
        }  # fmt: skip

    def open(self) -> int:
        return self._counts(True)

    def ended(self) -> int:
        return self._counts(False)


class ByCelery(Way):
    """Whoever asks looks at each answer, and has all of them before it says how that went."""

    calls = 0

    def job(self, *, connections: int, seconds: float, waits: bool) -> dict[str, Any]:
        return {"connections": connections, "seconds": seconds, "waits": waits}

    def measure(self, **how: Any) -> Cell:
        cell = super().measure(**how)
        self.calls += cell.calls - cell.errors
        return cell

    def open(self) -> int:
        return 0

    def ended(self) -> int:
        return self.calls


def of_house(name: str, gate: House, clients: Load, pids: list[int]) -> Way:
    agent = OURS[name]
    queries = {True: house.OPEN.format(name=agent), False: house.DONE.format(name=agent)}
    return OverHttp(
        name, clients, pids, ports=gate.ports, path=f"/agents/{agent}/",
        headers=(words.bearer(gate.token(making.CALLER)),), counts=lambda still: gate.ask(queries[still]),
    )  # fmt: skip


def of_peer(peer: Peer, clients: Load) -> Way:
    state = "status->>'state'" if peer.database.is_postgresql else "json_extract(status, '$.state')"
    queries = {still: f"SELECT count(*) FROM tasks WHERE {state} {sign} 'TASK_STATE_COMPLETED'"
               for still, sign in ((True, "<>"), (False, "="))}  # fmt: skip
    return OverHttp(
        SDK, clients, [peer.pid], ports=[peer.port], path="/rpc", headers=(),
        counts=lambda still: house.ask(peer.database, queries[still]),
    )  # fmt: skip
