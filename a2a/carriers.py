"""What does the tasks of agents that do not run here, by kind. Filled in `AppConfig.ready()`; none is made up.

A kind that nobody carries cannot be chosen.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from a2a.choices import RUN_HERE, RuntimeKind
from a2a.models import Task
from common.errors import Conflict

Check = Callable[[Task], None]


class Elsewhere(Conflict):
    """Another process carries the task now."""

    code = "carried_elsewhere"


@dataclass(frozen=True)
class Carrier:
    #: Sends the task unless it was sent before, and relays what becomes of it through the writer until it has ended.
    #: Before each write it shows the locked row to what it is given, which raises `Elsewhere` where the task is another
    #: process's by now. It is cancelled when that shows, or the task has ended otherwise. Whatever it does with the
    #: database it does by `common.executors.in_thread`, which gives the connection back.
    carry: Callable[[UUID, Check], Awaitable[None]]
    #: Tells who works on it that nobody wants the result any more. It may be told twice, and of what is long over.
    forward_cancel: Callable[[Task], Awaitable[None]]


_carriers: dict[RuntimeKind, Carrier] = {}


def add(kind: RuntimeKind, carrier: Carrier) -> None:
    _carriers[kind] = carrier


def of(kind: str) -> Carrier | None:
    return _carriers.get(RuntimeKind(kind))


def kinds() -> list[RuntimeKind]:
    """Those that tasks may be handed to."""
    there = {RuntimeKind.INBOX, *RUN_HERE, *_carriers}
    return [kind for kind in RuntimeKind if kind in there]
