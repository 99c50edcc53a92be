"""Who looks on while what runs as an identity changes: a higher app, of which nothing is known here. Filled in
`AppConfig.ready()`."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from nhi.actors import Actor
from nhi.models import Identity

#: Entered before the change and left after it, in its transaction.
Watch = Callable[[Actor, Identity], AbstractContextManager[None]]
_watches: list[Watch] = []


def add(watch: Watch) -> None:
    if watch not in _watches:
        _watches.append(watch)


@contextmanager
def watched(actor: Actor, identity: Identity) -> Iterator[None]:
    with ExitStack() as stack:
        for watch in _watches:
            stack.enter_context(watch(actor, identity))
        yield
