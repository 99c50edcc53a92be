"""What goes on between identities after the grants between them have ended: higher apps know it, and say it here."""

from collections.abc import Callable, Sequence

from common.console.dialogs import Effect
from nhi.models import Identity

#: Each is of a caller and its target.
Pairs = Sequence[tuple[Identity, Identity]]
OngoingWorkSource = Callable[[Pairs], list[Effect]]
_ongoing_work_sources: list[OngoingWorkSource] = []


def add_ongoing_work_source(read: OngoingWorkSource) -> None:
    _ongoing_work_sources.append(read)


def ongoing_work_between(pairs: Pairs) -> list[Effect]:
    return [effect for read in _ongoing_work_sources for effect in read(pairs)] if pairs else []
