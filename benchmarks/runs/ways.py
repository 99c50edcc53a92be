"""Three ways to have a program run, asked the same: by hand, by a plain Celery worker, by the supervisor.

Of each run there are four moments, by the clock of this machine: when it was asked for, when its program says that it
began and that it ended, and when whoever asked sees what became of it.
"""

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any, Generic, TypeVar
from uuid import UUID

from celery.result import AsyncResult

from benchmarks.runs import plain, rows
from benchmarks.runs.programs import AT_ONCE
from benchmarks.runs.waiting import PATIENCE
from supervisor import submitting
from supervisor.access import Caller
from supervisor.models import Execution
from supervisor.submitting import Wish

#: From outside nothing but looking tells that a run is done; what looking adds is this.
LOOK_EVERY = 0.003
Asked = TypeVar("Asked")
#: Asked for, began, ended, seen.
Moments = tuple[float, float, float, float]


class Way(ABC, Generic[Asked]):
    @abstractmethod
    def ask(self, name: str) -> Asked: ...

    @abstractmethod
    def done(self, asked: Collection[Asked]) -> list[Asked]:
        """Those of these of which it can be told from outside that they are done."""

    @abstractmethod
    def said(self, asked: Asked) -> str:
        """What it wrote; an error if it did not end well."""

    def run(self, name: str, count: int) -> list[Moments]:
        """So many at once, until all are done."""
        asked: dict[Asked, float] = {}
        for _ in range(count):
            at = time.time()
            asked[self.ask(name)] = at
        seen = self._seen(asked)
        return [(at, *_words(self.said(one)), seen[one]) for one, at in asked.items()]

    def _seen(self, asked: Collection[Asked]) -> dict[Asked, float]:
        seen: dict[Asked, float] = {}
        until = time.monotonic() + PATIENCE
        while waiting := [one for one in asked if one not in seen]:
            if time.monotonic() > until:
                raise SystemExit(f"{len(waiting)} of {len(asked)} runs did not end.")
            for one in self.done(waiting):
                seen[one] = time.time()
            time.sleep(LOOK_EVERY)
        return seen


class ByHand(Way["Future[str]"]):
    """`subprocess.run` in as many threads as the others have places."""

    def __init__(self, path: Callable[[str], str]) -> None:
        self._path = path
        self._threads = ThreadPoolExecutor(AT_ONCE)

    def ask(self, name: str) -> "Future[str]":
        return self._threads.submit(_call, self._path(name))

    def done(self, asked: "Collection[Future[str]]") -> "list[Future[str]]":
        return [one for one in asked if one.done()]

    def said(self, asked: "Future[str]") -> str:
        return asked.result()


class ByCelery(Way["AsyncResult[Any]"]):
    def __init__(self, path: Callable[[str], str]) -> None:
        self._path = path

    def ask(self, name: str) -> "AsyncResult[Any]":
        return plain.call.delay(self._path(name))

    def done(self, asked: "Collection[AsyncResult[Any]]") -> "list[AsyncResult[Any]]":
        return [one for one in asked if one.ready()]

    def said(self, asked: "AsyncResult[Any]") -> str:
        return str(asked.get())


class BySupervisor(Way[UUID]):
    @cached_property
    def caller(self) -> Caller:
        return rows.caller()

    def ask(self, name: str) -> UUID:
        return submitting.submit(caller=self.caller, agent=rows.agent(name), wish=Wish()).execution.pk

    def done(self, asked: Collection[UUID]) -> list[UUID]:
        return list(Execution.objects.done().filter(pk__in=asked).values_list("pk", flat=True))

    def said(self, asked: UUID) -> str:
        return rows.output(asked)


def _call(program: str) -> str:
    return subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout


def _words(said: str) -> tuple[float, float]:
    began, ended = map(float, said.split())
    return began, ended
