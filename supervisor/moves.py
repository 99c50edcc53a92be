"""Where higher apps hang what follows from a run's moves and from what it writes. Each fills this in its
`AppConfig.ready()`.

They hear of either when it is committed, in the process that made it: a hint, since that process may end first. Whoever
must not miss one sweeps too.
"""

from collections.abc import Callable

from django.db import transaction

from supervisor.models import Execution

#: Called outside any transaction, with the row as it was moved. Called twice, it does nothing the second time.
Listener = Callable[[Execution], None]
_listeners: list[Listener] = []
#: Called in the thread that writes for all runs of a worker: they only make a note of it.
_readers: list[Listener] = []


def on_moved(listener: Listener) -> None:
    if listener not in _listeners:
        _listeners.append(listener)


def tell(execution: Execution) -> None:
    """Once the caller's transaction is committed. What goes wrong then is logged: the move is made."""
    for listener in _listeners:
        _tell(listener, execution)


def on_written(reader: Listener) -> None:
    if reader not in _readers:
        _readers.append(reader)


def wrote(execution: Execution) -> None:
    """More of its output is committed."""
    for reader in _readers:
        reader(execution)


def _tell(listener: Listener, execution: Execution) -> None:
    def told() -> None:
        listener(execution)

    transaction.on_commit(told, robust=True)
