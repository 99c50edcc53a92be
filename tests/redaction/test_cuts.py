"""Of a text that breaks off no half of a secret stays: neither of a known value nor of what only may be one."""

import base64
from urllib.parse import quote

import pytest

from common.redaction import MASK, UNREADABLE, Redactor
from common.redaction import redactor as module

pytestmark = pytest.mark.capability("AUD-07")
KEY = "Kq7vX2mT9sLw4nRbZz"
SPOKEN = "correct horse battery staple"


@pytest.mark.parametrize("shown", [SPOKEN, quote(SPOKEN), SPOKEN.encode().hex()], ids=["itself", "url", "hex"])
def test_a_known_value_goes_wherever_the_text_breaks_off_in_it(shown: str) -> None:
    redactor = Redactor(secret_values=frozenset({SPOKEN, KEY}))
    for length in range(1, len(shown)):
        assert redactor.redact_truncated_text(f"you sent {shown[:length]}") == "you sent "
    assert redactor.redact_truncated_text(f"you sent {shown} twice: ") == f"you sent {MASK} twice: "


@pytest.mark.parametrize("before", ["", "a", "ab"])
def test_a_known_value_in_base64_goes_with_what_it_shares_with_the_text_before(before: str) -> None:
    redactor, shown = (
        Redactor(secret_values=frozenset({SPOKEN})),
        base64.b64encode(f"{before}{SPOKEN}".encode()).decode(),
    )
    for length in range(4, len(shown)):
        assert redactor.redact_truncated_text(f"{'.' * 9000}{shown[:length]}").strip(".") in {"", shown[:1]}


def test_of_two_values_that_overlap_nothing_stays() -> None:
    redactor = Redactor(secret_values=frozenset({"abcdefgh", "ghijkl and more", "cdefghijk"}))
    for text in ("x abcdefgh", "x abcdefghi", "x ghijkl a", "x abcdefghij"):
        assert redactor.redact_truncated_text(text).rstrip() in {"x", f"x {MASK}"}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("All is well, so f", "All is well, so "),
        ("All is well. ", "All is well. "),
        (f"seen eyJ{'a' * 3000}.eyJ{'b' * 3000}", "seen "),
        (f"Bearer {KEY}", "Bearer "),
        (f'{{"password": "{SPOKEN}', '{"password": "'),
        (f"-----BEGIN PRIVATE KEY-----\n{'MIIE' * 16}\nMII", ""),
        ("", ""),
    ],
    ids=["word", "sentence", "JWT", "scheme", "name", "key", "nothing"],
)
def test_the_last_word_goes_and_so_does_what_was_begun_before_it(text: str, kept: str) -> None:
    assert Redactor().redact_truncated_text(text) == kept


def test_what_cannot_be_looked_at_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_safe_end", lambda *_: 1 / 0)
    assert Redactor().redact_truncated_text("All is well") == UNREADABLE
