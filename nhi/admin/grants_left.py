"""What goes on between two identities after the grant between them has ended: higher apps know it, and say it here."""

from collections.abc import Callable

from common.admin.dialogs import Effect
from nhi.models import Identity

#: Of a caller and its target.
Left = Callable[[Identity, Identity], list[Effect]]
_lefts: list[Left] = []


def add(read: Left) -> None:
    _lefts.append(read)


def between(caller: Identity, target: Identity) -> list[Effect]:
    return [effect for read in _lefts for effect in read(caller, target)]
