"""Where higher apps hang what follows from a run's moves. Each fills this in its `AppConfig.ready()`.

They hear of a move when it is committed, in the process that made it: a hint, since that process may end first. Whoever
must not miss one sweeps too.
"""

from collections.abc import Callable

from django.db import transaction

from supervisor.models import Execution

#: Called outside any transaction, with the row as it was moved. Called twice, it does nothing the second time.
Listener = Callable[[Execution], None]
_listeners: list[Listener] = []


def on_moved(listener: Listener) -> None:
    if listener not in _listeners:
        _listeners.append(listener)


def tell(execution: Execution) -> None:
    """Once the caller's transaction is committed. What goes wrong then is logged: the move is made."""
    for listener in _listeners:
        _tell(listener, execution)


def _tell(listener: Listener, execution: Execution) -> None:
    def told() -> None:
        listener(execution)

    transaction.on_commit(told, robust=True)
