"""Redaction of text that comes in pieces: progress, stderr, log lines.

Text goes out up to the last line end behind which nothing is left open, because no rule reads past one, with three
exceptions that are looked at: a private key, a known value of several lines, and a scheme whose credentials follow.
A line that is longer than what may be held back is cut where nothing was found. A secret longer than that is masked
at once, and the rest of the key or of the line swallowed as it comes.
"""

import re

from common.redaction import private_keys
from common.redaction.masks import MASK, SecretSpan
from common.redaction.redactor import Redactor

MAX_BUFFERED_CHARACTERS = 8 * 1024
#: What is held behind a cut in a long line: more than any rule reads ahead.
LOOKAHEAD_CHARACTERS = 4 * 1024
#: Longer than any piece of a known value: what begins before it has been seen whole.
MARGIN_CHARACTERS = 2 * 1024
SEPARATOR = re.compile(r"[\s,;]")
#: Each step takes at least as much, so that a line made of finds is not looked at for every one of them.
MIN_STEP_CHARACTERS = 256
SCHEME_AT_END = re.compile(r"(?i)(?:bearer|basic)\s{0,32}\Z")
#: The end line of a key and a little more, which may be cut by the edge of a piece.
KEY_EDGE_CHARACTERS = 128


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
            for form in self._redactor.encoded_forms()
            for match in re.finditer("\n", form.text)
            if match.end() < len(form.text)
        )

    def feed(self, chunk: str) -> str:
        return "".join(
            self._feed_piece(chunk[start : start + MAX_BUFFERED_CHARACTERS])
            for start in range(0, len(chunk), MAX_BUFFERED_CHARACTERS)
        )

    def flush(self) -> str:
        """What is left; the stream may begin anew afterwards."""
        self._drop_masked_rest(ended=True)
        self._swallowing = ""
        return self._release(len(self._held))

    def _feed_piece(self, chunk: str) -> str:
        self._held += chunk
        if not self._drop_masked_rest() or ("\n" not in chunk and len(self._held) <= MAX_BUFFERED_CHARACTERS):
            return ""
        shown = self._release(self._find_safe_line_end())
        while len(self._held) > MAX_BUFFERED_CHARACTERS and self._drop_masked_rest():
            shown += self._release_part_of_long_line()
        return shown

    def _release(self, count: int) -> str:
        shown, self._held = self._held[:count], self._held[count:]
        return self._redactor.redact_text(shown) if shown else ""

    def _find_safe_line_end(self) -> int:
        """How much of what is held ends with a line, and has nothing open at its end."""
        at = self._held.rfind("\n") + 1
        while at:
            if (key := private_keys.find_unfinished_key(self._held[:at])) >= 0:
                at = self._held.rfind("\n", 0, key) + 1
            elif self._may_continue(at):
                at = self._held.rfind("\n", 0, at - 1) + 1
            else:
                break
        return at

    def _may_continue(self, at: int) -> bool:
        return self._held.endswith(self._open_lines, 0, at) or bool(
            SCHEME_AT_END.search(self._held[max(0, at - 40) : at])
        )

    def _release_part_of_long_line(self) -> str:
        """Some of a line that is too long, or the mask of a secret that is."""
        key, size = private_keys.find_unfinished_key(self._held), len(self._held)
        if key == 0:
            return self._mask_key()
        if key > 0:
            return self._release(key)
        regions = _merge_regions(self._redactor.find_spans(self._held))
        first, last = _find_region_around(regions, size - LOOKAHEAD_CHARACTERS)
        if first == last:
            return self._release(_find_separator_before(self._held, regions, first))
        if last <= size - MARGIN_CHARACTERS:
            return self._release(last)
        if first >= MIN_STEP_CHARACTERS:
            return self._release(first)
        return self._release(last) if last < size else self._mask_line()

    def _mask_key(self) -> str:
        begin = private_keys.BEGIN_LINE.match(self._held)
        assert begin is not None  # it was found there
        self._held, self._swallowing = self._held[begin.end() :], "key"
        return MASK

    def _mask_line(self) -> str:
        shown, self._held, self._swallowing = self._redactor.redact_text(self._held), "", "line"
        return shown

    def _drop_masked_rest(self, *, ended: bool = False) -> bool:
        """Drop what belongs to a secret whose mask is out already; whether nothing more does."""
        if self._swallowing == "line":
            end = self._held.find("\n")
            self._held = self._held[end:] if end >= 0 else ""
            self._swallowing = "" if end >= 0 else "line"
        elif self._swallowing == "key":
            end = private_keys.find_body_end(self._held, 0)
            edge = len(self._held) - KEY_EDGE_CHARACTERS
            over = ended or end < edge or private_keys.END_LINE.search(self._held, 0, end) is not None
            self._held = self._held[end if over else max(0, edge) :]
            self._swallowing = "" if over else "key"
        return not self._swallowing


def _merge_regions(found: list[SecretSpan]) -> list[tuple[int, int]]:
    """What had to be read for the finds, apart from each other."""
    regions: list[tuple[int, int]] = []
    for first, last in sorted((item.context_start, item.context_end) for item in found):
        if regions and first < regions[-1][1]:
            regions[-1] = regions[-1][0], max(last, regions[-1][1])
        else:
            regions.append((first, last))
    return regions


def _find_region_around(regions: list[tuple[int, int]], at: int) -> tuple[int, int]:
    """The region that a cut there would part, or the place itself."""
    return next(((first, last) for first, last in regions if first < at < last), (at, at))


def _find_separator_before(text: str, regions: list[tuple[int, int]], at: int) -> int:
    """A place shortly before, where words part, unless that is inside of a region."""
    near = max((match.end() for match in SEPARATOR.finditer(text, max(0, at - MIN_STEP_CHARACTERS), at)), default=at)
    return near if _find_region_around(regions, near) == (near, near) else at
