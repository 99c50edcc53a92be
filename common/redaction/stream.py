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
    """Redacts one text that arrives in pieces: `feed` returns what is safe so far, `flush` the rest."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or Redactor()
        self._buffer = ""
        #: What is dropped now: the rest of a "key" or of a "line"; empty for nothing.
        self._dropping = ""
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
        self._drop_masked_rest(at_end=True)
        self._dropping = ""
        return self._release(len(self._buffer))

    def _feed_piece(self, chunk: str) -> str:
        self._buffer += chunk
        if not self._drop_masked_rest() or ("\n" not in chunk and len(self._buffer) <= MAX_BUFFERED_CHARACTERS):
            return ""
        output = self._release(self._find_safe_line_end())
        while len(self._buffer) > MAX_BUFFERED_CHARACTERS and self._drop_masked_rest():
            output += self._release_part_of_long_line()
        return output

    def _release(self, count: int) -> str:
        released, self._buffer = self._buffer[:count], self._buffer[count:]
        return self._redactor.redact_text(released) if released else ""

    def _find_safe_line_end(self) -> int:
        """The position of the last line end in the buffer at which no secret continues."""
        at = self._buffer.rfind("\n") + 1
        while at:
            if (key_start := private_keys.find_unfinished_key(self._buffer[:at])) >= 0:
                at = self._buffer.rfind("\n", 0, key_start) + 1
            elif self._may_continue(at):
                at = self._buffer.rfind("\n", 0, at - 1) + 1
            else:
                break
        return at

    def _may_continue(self, at: int) -> bool:
        return self._buffer.endswith(self._open_lines, 0, at) or bool(
            SCHEME_AT_END.search(self._buffer[max(0, at - 40) : at])
        )

    def _release_part_of_long_line(self) -> str:
        """A part of a line that is too long, or the mask of a secret that is too long."""
        key_start, size = private_keys.find_unfinished_key(self._buffer), len(self._buffer)
        if key_start == 0:
            return self._mask_key()
        if key_start > 0:
            return self._release(key_start)
        regions = _merge_regions(self._redactor.find_spans(self._buffer))
        first, last = _find_region_around(regions, size - LOOKAHEAD_CHARACTERS)
        if first == last:
            return self._release(_find_separator_before(self._buffer, regions, first))
        if last <= size - MARGIN_CHARACTERS:
            return self._release(last)
        if first >= MIN_STEP_CHARACTERS:
            return self._release(first)
        return self._release(last) if last < size else self._mask_line()

    def _mask_key(self) -> str:
        begin = private_keys.BEGIN_LINE.match(self._buffer)
        assert begin is not None  # a key starts the buffer
        self._buffer, self._dropping = self._buffer[begin.end() :], "key"
        return MASK

    def _mask_line(self) -> str:
        output, self._buffer, self._dropping = self._redactor.redact_text(self._buffer), "", "line"
        return output

    def _drop_masked_rest(self, *, at_end: bool = False) -> bool:
        """Drop text of a secret whose mask was already returned; True if the secret has ended."""
        if self._dropping == "line":
            end = self._buffer.find("\n")
            self._buffer = self._buffer[end:] if end >= 0 else ""
            self._dropping = "" if end >= 0 else "line"
        elif self._dropping == "key":
            end = private_keys.find_body_end(self._buffer, 0)
            edge = len(self._buffer) - KEY_EDGE_CHARACTERS
            is_over = at_end or end < edge or private_keys.END_LINE.search(self._buffer, 0, end) is not None
            self._buffer = self._buffer[end if is_over else max(0, edge) :]
            self._dropping = "" if is_over else "key"
        return not self._dropping


def _merge_regions(spans: list[SecretSpan]) -> list[tuple[int, int]]:
    """The contexts of the spans, merged where they overlap."""
    regions: list[tuple[int, int]] = []
    for first, last in sorted((span.context_start, span.context_end) for span in spans):
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
    separator_end = max(
        (match.end() for match in SEPARATOR.finditer(text, max(0, at - MIN_STEP_CHARACTERS), at)), default=at
    )
    return separator_end if _find_region_around(regions, separator_end) == (separator_end, separator_end) else at
