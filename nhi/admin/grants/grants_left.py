"""What goes on between identities after the grants between them have ended: higher apps know it, and say it here."""

from collections.abc import Callable, Sequence

from common.console.dialogs import Effect
from nhi.models import Identity

#: Each is of a caller and its target.
Pairs = Sequence[tuple[Identity, Identity]]
Left = Callable[[Pairs], list[Effect]]
_lefts: list[Left] = []


def add(read: Left) -> None:
    _lefts.append(read)


def between(pairs: Pairs) -> list[Effect]:
    return [effect for read in _lefts for effect in read(pairs)] if pairs else []
