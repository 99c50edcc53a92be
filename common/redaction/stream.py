"""Redacts text that arrives in pieces: progress, stderr, log lines.

Text is released up to a line end, because no rule reads past one. Three exceptions are checked there: an unfinished
private key, a known value of several lines, and an authorization scheme whose credentials follow. A line longer than
the buffer is cut where no secret was found. A secret longer than the buffer is masked at once, and the rest of the key
or line is dropped as it arrives.
"""

import re

from common.redaction import private_keys
from common.redaction.masks import MASK, SecretSpan
from common.redaction.redactor import Redactor

MAX_BUFFERED_CHARACTERS = 8 * 1024
#: Text that stays in the buffer after a cut in a long line: more than any rule reads ahead.
LOOKAHEAD_CHARACTERS = 4 * 1024
#: Longer than any piece of a known value: a match that starts before the margin is complete.
MARGIN_CHARACTERS = 2 * 1024
SEPARATOR = re.compile(r"[\s,;]")
#: Minimum text per step, so that a line full of secrets is not searched again for each of them.
MIN_STEP_CHARACTERS = 256
SCHEME_AT_END = re.compile(r"(?i)(?:bearer|basic)\s{0,32}\Z")
#: Longer than the end line of a key, which may be split between two pieces.
KEY_EDGE_CHARACTERS = 128


class StreamRedactor:
    """`feed` returns the text that is safe so far, `flush` the rest at the end. For one stream and one thread."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or Redactor()
        self._held = ""
        #: What is dropped now: the rest of a "key" or of a "line"; empty for nothing.
        self._swallowing = ""
        # The first lines of known values of several lines: text that ends with them may continue with the rest.
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
        """Return the remaining text; the object can then be used for a new stream."""
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
        """The position of the last line end in the buffer at which no secret continues."""
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
        """A part of a line that is too long, or the mask of a secret that is too long."""
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
        assert begin is not None  # a key starts the buffer
        self._held, self._swallowing = self._held[begin.end() :], "key"
        return MASK

    def _mask_line(self) -> str:
        shown, self._held, self._swallowing = self._redactor.redact_text(self._held), "", "line"
        return shown

    def _drop_masked_rest(self, *, ended: bool = False) -> bool:
        """Drop text of a secret whose mask was already returned; True if the secret has ended."""
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
    """The contexts of the spans, merged where they overlap."""
    regions: list[tuple[int, int]] = []
    for first, last in sorted((item.context_start, item.context_end) for item in found):
        if regions and first < regions[-1][1]:
            regions[-1] = regions[-1][0], max(last, regions[-1][1])
        else:
            regions.append((first, last))
    return regions


def _find_region_around(regions: list[tuple[int, int]], at: int) -> tuple[int, int]:
    """The region that a cut at this position would split, or an empty region at the position."""
    return next(((first, last) for first, last in regions if first < at < last), (at, at))


def _find_separator_before(text: str, regions: list[tuple[int, int]], at: int) -> int:
    """The position of a separator shortly before, unless it is inside a region."""
    near = max((match.end() for match in SEPARATOR.finditer(text, max(0, at - MIN_STEP_CHARACTERS), at)), default=at)
    return near if _find_region_around(regions, near) == (near, near) else at
