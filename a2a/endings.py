"""Who is told that a task has ended, whatever ended it. Filled in `AppConfig.ready()`.

They hear of it when it is committed, in the process that ended it: a hint, since that process may end first. Whoever
must not miss one sweeps too.
"""

from collections.abc import Callable

from django.db import transaction

from a2a.models import Task

#: Called outside any transaction. Called twice, it does nothing the second time.
Listener = Callable[[Task], None]
_listeners: list[Listener] = []


def on_end(listener: Listener) -> None:
    if listener not in _listeners:
        _listeners.append(listener)


def tell(task: Task) -> None:
    """Once the caller's transaction is committed. What goes wrong then is logged: the end is written."""
    for listener in _listeners:
        _tell(listener, task)


def _tell(listener: Listener, task: Task) -> None:
    def told() -> None:
        listener(task)

    transaction.on_commit(told, robust=True)
