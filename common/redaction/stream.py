"""Redaction of text that comes in pieces: progress, stderr, log lines.

Text goes out up to the last line end behind which nothing is left open, because no rule reads past one, with three
exceptions that are looked at: a private key, a known value of several lines, and a scheme whose credentials follow.
A line that is longer than what may be held back is cut where nothing was found. A secret longer than that is masked
at once, and the rest of the key or of the line swallowed as it comes.
"""

import re

from common.redaction import private_keys
from common.redaction.masks import MASK, Find
from common.redaction.redactor import Redactor

HELD = 8 * 1024
#: What is held behind a cut in a long line: more than any rule reads ahead.
AHEAD = 4 * 1024
#: Longer than any piece of a known value: what begins before it has been seen whole.
MARGIN = 2 * 1024
SPACE = re.compile(r"[\s,;]")
#: Each step takes at least as much, so that a line made of finds is not looked at for every one of them.
NEAR = 256
SCHEME = re.compile(r"(?i)(?:bearer|basic)\s{0,32}\Z")
#: The end line of a key and a little more, which may be cut by the edge of a piece.
EDGE = 128


class StreamRedactor:
    """`feed` returns what may be shown so far; `flush` the rest, at the end. For one stream and one thread."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or Redactor()
        self._held = ""
        #: What is being dropped: the rest of a "key" or of a "line".
        self._swallowing = ""
        # Where a line of a known value ends inside of it: text that ends so may go on with the rest.
        self._open_lines = tuple(
            form.text[: match.end()]
            for form in self._redactor.forms()
            for match in re.finditer("\n", form.text)
            if match.end() < len(form.text)
        )

    def feed(self, chunk: str) -> str:
        return "".join(self._feed(chunk[start : start + HELD]) for start in range(0, len(chunk), HELD))

    def flush(self) -> str:
        """What is left; the stream may begin anew afterwards."""
        self._swallowed(ended=True)
        self._swallowing = ""
        return self._take(len(self._held))

    def _feed(self, chunk: str) -> str:
        self._held += chunk
        if not self._swallowed() or ("\n" not in chunk and len(self._held) <= HELD):
            return ""
        shown = self._take(self._line_end())
        while len(self._held) > HELD and self._swallowed():
            shown += self._forced()
        return shown

    def _take(self, count: int) -> str:
        shown, self._held = self._held[:count], self._held[count:]
        return self._redactor.text(shown) if shown else ""

    def _line_end(self) -> int:
        """How much of what is held ends with a line, and has nothing open at its end."""
        at = self._held.rfind("\n") + 1
        while at:
            if (key := private_keys.open_at(self._held[:at])) >= 0:
                at = self._held.rfind("\n", 0, key) + 1
            elif self._is_open(at):
                at = self._held.rfind("\n", 0, at - 1) + 1
            else:
                break
        return at

    def _is_open(self, at: int) -> bool:
        return self._held.endswith(self._open_lines, 0, at) or bool(SCHEME.search(self._held[max(0, at - 40) : at]))

    def _forced(self) -> str:
        """Some of a line that is too long, or the mask of a secret that is."""
        key, size = private_keys.open_at(self._held), len(self._held)
        if key == 0:
            return self._mask_key()
        if key > 0:
            return self._take(key)
        regions = _regions(self._redactor.finds(self._held))
        first, last = _around(regions, size - AHEAD)
        if first == last:
            return self._take(_after_a_space(self._held, regions, first))
        if last <= size - MARGIN:
            return self._take(last)
        if first >= NEAR:
            return self._take(first)
        return self._take(last) if last < size else self._mask_line()

    def _mask_key(self) -> str:
        begin = private_keys.BEGIN.match(self._held)
        assert begin is not None  # it was found there
        self._held, self._swallowing = self._held[begin.end() :], "key"
        return MASK

    def _mask_line(self) -> str:
        shown, self._held, self._swallowing = self._redactor.text(self._held), "", "line"
        return shown

    def _swallowed(self, *, ended: bool = False) -> bool:
        """Drop what belongs to a secret whose mask is out already; whether nothing more does."""
        if self._swallowing == "line":
            end = self._held.find("\n")
            self._held = self._held[end:] if end >= 0 else ""
            self._swallowing = "" if end >= 0 else "line"
        elif self._swallowing == "key":
            end = private_keys.body_end(self._held, 0)
            edge = len(self._held) - EDGE
            over = ended or end < edge or private_keys.END.search(self._held, 0, end) is not None
            self._held = self._held[end if over else max(0, edge) :]
            self._swallowing = "" if over else "key"
        return not self._swallowing


def _regions(found: list[Find]) -> list[tuple[int, int]]:
    """What had to be read for the finds, apart from each other."""
    regions: list[tuple[int, int]] = []
    for first, last in sorted((item.first, item.last) for item in found):
        if regions and first < regions[-1][1]:
            regions[-1] = regions[-1][0], max(last, regions[-1][1])
        else:
            regions.append((first, last))
    return regions


def _around(regions: list[tuple[int, int]], at: int) -> tuple[int, int]:
    """The region that a cut there would part, or the place itself."""
    return next(((first, last) for first, last in regions if first < at < last), (at, at))


def _after_a_space(text: str, regions: list[tuple[int, int]], at: int) -> int:
    """A place shortly before, where words part, unless that is inside of a region."""
    near = max((match.end() for match in SPACE.finditer(text, max(0, at - NEAR), at)), default=at)
    return near if _around(regions, near) == (near, near) else at
