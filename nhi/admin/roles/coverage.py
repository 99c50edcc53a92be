"""How many tools patterns match, worked out in memory: one query for any number of roles."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from nhi.actors import Actor
from nhi.choices import Kind, State
from nhi.decisions import capabilities
from nhi.models import Identity

#: Sorts after whatever may follow a prefix.
LAST = chr(0x10FFFF)


class Coverage:
    """The capabilities of the tools that the actor sees, sorted, so that a pattern is a stretch of them."""

    def __init__(self, actor: Actor) -> None:
        tools = Identity.objects.visible_to(actor).of_kind(Kind.TOOL).exclude(state=State.ARCHIVED)
        known = tools.order_by().values_list("capability", flat=True)
        self._sorted = sorted(capability for capability in known if capability is not None)

    @property
    def total(self) -> int:
        return len(self._sorted)

    def count(self, patterns: Iterable[str]) -> int:
        """Tools that any of the patterns matches, each once."""
        matched, reached = 0, 0
        for start, end in sorted(map(self._stretch, patterns)):
            matched += max(0, end - max(start, reached))
            reached = max(reached, end)
        return matched

    def _stretch(self, pattern: str) -> tuple[int, int]:
        begins = capabilities.prefix(pattern)
        if begins is None:
            return bisect_left(self._sorted, pattern), bisect_right(self._sorted, pattern)
        return bisect_left(self._sorted, begins), bisect_left(self._sorted, f"{begins}{LAST}")
