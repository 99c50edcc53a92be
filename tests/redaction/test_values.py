"""A known value goes in every dress, whole or inside of something encoded, and short ones are not sought."""

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.redaction import MASK, Redactor

pytestmark = pytest.mark.capability("AUD-07")

VALUES = ("correct horse battery/staple+7", 'quo"te\\back\nline', "пароль-ключ", "plain-Canary", "sixsix", "x" * 5000)
DRESSES: dict[str, Callable[[str], str]] = {
    "itself": str,
    "json": json.dumps,
    "json with letters": lambda value: json.dumps(value, ensure_ascii=False),
    "json in json": lambda value: json.dumps(json.dumps(value)),
    "json with slashes": lambda value: json.dumps(value).replace("/", "\\/"),
    "url": lambda value: quote(value, safe=""),
    "url path": quote,
    "form": quote_plus,
    "url in small letters": lambda value: re.sub("%..", lambda found: found[0].lower(), quote(value, safe="")),
    "hex": lambda value: value.encode().hex(),
    "large hex": lambda value: value.encode().hex().upper(),
    "html": html.escape,
}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:12])
@pytest.mark.parametrize("dress", DRESSES)
def test_a_known_value_goes_in_every_dress(value: str, dress: str) -> None:
    shown = DRESSES[dress](value)
    redactor = Redactor(secret_values=frozenset({value, "another secret"}))
    clean = redactor.redact_text(f"before {shown} after")
    assert clean.replace('"', "").replace("\\", "") == f"before {MASK} after"
    assert redactor.redact_and_report({"a": [shown]})[1] is True


@settings(max_examples=300)
@given(st.binary(max_size=9), st.text(min_size=6, max_size=40), st.binary(max_size=9), st.booleans())
def test_a_known_value_goes_out_of_base64_wherever_it_begins(
    before: bytes, value: str, after: bytes, url: bool
) -> None:
    raw = value.encode("utf-8", "surrogatepass")
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    clean = Redactor(secret_values=frozenset({value})).redact_text(encode(before + raw + after).decode())
    assert MASK in clean
    left, _, right = clean.partition(MASK)
    # Of the characters on either side none holds more of the secret than padding could.
    assert len(left) * 6 <= len(before) * 8
    assert len(right.rstrip("=")) * 6 <= len(after) * 8 + 6


def test_short_values_are_not_sought() -> None:
    redactor = Redactor(secret_values=frozenset({"five5", "", "a"}))
    assert redactor.redact_and_report("five5 a day") == ("five5 a day", False)


def test_a_value_that_stands_in_a_mask_does_no_harm() -> None:
    redactor = Redactor(secret_values=frozenset({"REDACTED", "SECRET]", "[REDACTED:SECRET]", "T]after"}))
    once = redactor.redact_text(f"token ghp_{'Ab1' * 12} and REDACTED, {MASK}after")
    assert redactor.redact_text(once) == once
    assert "[REDACTED:[" not in once


def test_a_long_value_goes_in_parts_too() -> None:
    value = "".join(f"{number:05d}" for number in range(1000))
    clean = Redactor(secret_values=frozenset({value})).redact_text("a " + value[:3000] + " b")
    assert clean.startswith(f"a {MASK}{value[2048:3000]}"[: len(MASK) + 2])
    assert value[:2048] not in clean


def test_overlapping_values_go_together() -> None:
    redactor = Redactor(secret_values=frozenset({"alpha-beta", "beta-gamma"}))
    assert redactor.redact_text("x alpha-beta-gamma y") == f"x {MASK} y"


def test_values_are_never_shown_by_the_redactor() -> None:
    redactor = Redactor(secret_values=frozenset({"canary-value"}))
    assert "canary" not in f"{redactor!r} {redactor} {redactor.encoded_forms()!r}"
    assert redactor == Redactor(secret_values=frozenset({"canary-value"}))


def test_half_an_escape_is_not_left_behind() -> None:
    redactor = Redactor(secret_values=frozenset({"nabcdef", "0041abcdef"}))
    for text in ('{"a": "x\\nabcdef"}', '{"a": "x\\u0041abcdef"}', '{"a": "x\\\\nabcdef"}'):
        assert MASK in json.loads(redactor.redact_text(text))["a"]
