"""No secret passes through a stream, however it is cut into pieces, and what is held back is bounded."""

import random
import string
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.redaction import MASK, RedactionPolicy, Redactor, StreamRedactor
from common.redaction.stream import MAX_BUFFERED_CHARACTERS
from tests.redaction.canaries import BODY, PEM, PLAIN, TOKENS, A

pytestmark = pytest.mark.capability("AUD-07")

KNOWN = frozenset({"known canary/1", "two\nlines of a canary\nand a third", "Zz" * 1500 + "canary"})
REDACTOR = Redactor(secret_values=KNOWN)
WHOLE = [name for name in TOKENS if name != "pem, unfinished"]


def through(chunks: list[str], redactor: Redactor = REDACTOR) -> str:
    stream = StreamRedactor(redactor)
    return "".join([*(stream.feed(chunk) for chunk in chunks), stream.flush()])


def cut(text: str, at: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in at), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


PIECES = st.lists(
    st.one_of(
        st.sampled_from([TOKENS[name][0] for name in WHOLE]),
        st.sampled_from([*KNOWN, *PLAIN[:60], "two\nlines of no canary", "\n", " ", "\n\n", "Bearer\n", "-----BEGIN "]),
        st.text(alphabet="ab \n\"'=:,", max_size=10),
    ),
    max_size=8,
)
PLACES = st.lists(st.integers(0, 1 << 20), max_size=12)


@settings(max_examples=500, deadline=None)
@given(PIECES.map("\n".join), PLACES)
def test_the_outcome_is_that_of_the_whole(text: str, at: list[int]) -> None:
    assert through(cut(text, at)) == REDACTOR.redact_text(text)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(WHOLE), st.text(alphabet="ab ,\n", max_size=20), PLACES)
def test_no_canary_passes(name: str, around: str, at: list[int]) -> None:
    token, secret = TOKENS[name]
    shown = through(cut(f"{around} {token} {around}\n{token}", at))
    assert secret not in shown
    assert MASK in shown


def test_no_canary_passes_at_any_edge() -> None:
    for name in WHOLE:
        token, secret = TOKENS[name]
        for at in range(len(token) + 1):
            assert secret not in through([token[:at], token[at:]])
        assert secret not in through(list(token))
    for value in KNOWN:
        for at in range(0, len(value), 7):
            assert through([f"a\n{value[:at]}", f"{value[at:]}\nb"]) == f"a\n{MASK}\nb"


@pytest.mark.parametrize("name", WHOLE)
def test_a_secret_anywhere_in_a_long_line_goes(name: str) -> None:
    token, secret = TOKENS[name]
    drawn = random.Random(len(name))
    for filler in ("lorem ipsum, ", "x" * 997 + " ", "é; "):
        line = (filler * (60_000 // len(filler)))[:50_000]
        at = drawn.randrange(40_000)
        text = f"{line[:at]} {token} {line[at:]}"
        for size in (1000, 4096, 60_000):
            shown = through([text[start : start + size] for start in range(0, len(text), size)])
            assert secret not in shown
            assert shown == REDACTOR.redact_text(text)


def test_lines_go_out_as_they_come() -> None:
    stream = StreamRedactor(REDACTOR)
    assert stream.feed("one\ntwo") == "one\n"
    assert stream.feed(" three\n") == "two three\n"
    assert stream.feed("Authorization: Bearer\n") == ""
    assert stream.feed(f"{A}\nfour\n") == f"Authorization: Bearer\n{MASK}\nfour\n"
    assert stream.feed("two\nlines of") == ""
    assert stream.feed(" nothing\n") == "two\nlines of nothing\n"
    assert stream.flush() == ""


def test_what_is_held_back_is_bounded() -> None:
    drawn = random.Random(3)
    for letters in (string.ascii_letters, string.ascii_letters + " ", "A", "-", " ", "eyJ.", '"token": '):
        stream, given_, shown = StreamRedactor(REDACTOR), 0, 0
        for _ in range(200):
            chunk = "".join(drawn.choices(letters, k=500))
            given_ += len(chunk)
            shown += len(stream.feed(chunk))
            assert len(stream._buffer) <= MAX_BUFFERED_CHARACTERS
        assert shown + len(stream.flush()) <= given_ + 50


def test_a_key_without_an_end_is_masked_as_it_streams() -> None:
    body = "\n".join(A[:16] * 4 for _ in range(3000))
    stream, shown = StreamRedactor(), ""
    text = f"start\n-----BEGIN PRIVATE KEY-----\n{body}"
    for start in range(0, len(text), 700):
        shown += stream.feed(text[start : start + 700])
        assert len(stream._buffer) <= MAX_BUFFERED_CHARACTERS
    shown += stream.feed("\nand then, it went on: with words.\n" * 20)
    shown += stream.flush()
    assert shown.startswith(f"start\n{MASK}")
    assert shown.count(MASK) == 1
    assert shown.endswith("with words.\n")
    assert A[:16] not in shown


def test_a_long_key_with_an_end_is_masked_up_to_there() -> None:
    body = "\n".join(A[:16] * 4 for _ in range(400))
    text = f"a\n-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\nb\n"
    for size in (1, 64, 5000, 100_000):
        assert through([text[start : start + size] for start in range(0, len(text), size)]) == f"a\n{MASK}\nb\n"


def test_a_key_that_the_stream_ends_in_stays_hidden() -> None:
    for end in range(40, len(PEM), 13):
        shown = through(["x\n", PEM[:end]])
        assert shown == f"x\n{MASK}"
        assert BODY[:20] not in shown


def test_a_token_longer_than_what_is_held_is_swallowed_to_the_end_of_its_line() -> None:
    token = "ghp_" + A * 2000
    text = f"a {token} b\nc\n"
    shown = through([text[start : start + 900] for start in range(0, len(text), 900)])
    assert shown == f"a {MASK}\nc\n"


def test_a_stream_can_begin_anew_and_follows_the_policy() -> None:
    stream = StreamRedactor(Redactor(RedactionPolicy(email=True)))
    assert stream.feed("me@exam") + stream.feed("ple.org") + stream.flush() == "[REDACTED:EMAIL]"
    assert stream.feed("plain\n") == "plain\n"
