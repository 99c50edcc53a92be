"""Canonical JSON: the rules of RFC 8785 for numbers, strings and the order of names, by vectors of our own."""

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.canonical_json import CanonicalizationError, encode

pytestmark = pytest.mark.capability("AUD-01")


def double(bits: str) -> float:
    """The double with these sixteen hexadecimal digits."""
    return float(struct.unpack(">d", bytes.fromhex(bits))[0])


#: What ECMAScript's Number.prototype.toString says of a double: shortest digits, an exponent from 1e21 and below 1e-6.
NUMBERS = [
    (0.0, "0"), (-0.0, "0"), (1.0, "1"), (-1.5, "-1.5"), (100.0, "100"), (0.1, "0.1"), (0.000001, "0.000001"),
    (0.0000001, "1e-7"), (0.00000123, "0.00000123"), (1.23e-7, "1.23e-7"), (1e20, "100000000000000000000"),
    (1e21, "1e+21"), (1.5e21, "1.5e+21"), (123456789012345680000.0, "123456789012345680000"), (1e-6, "0.000001"),
    (9e15, "9000000000000000"), (0.1 + 0.2, "0.30000000000000004"), (1 / 3, "0.3333333333333333"), (5e-324, "5e-324"),
    (-5e-324, "-5e-324"), (1.7976931348623157e308, "1.7976931348623157e+308"),
    (2.2250738585072014e-308, "2.2250738585072014e-308"), (double("433fffffffffffff"), "9007199254740991"),
    (double("4340000000000000"), "9007199254740992"), (double("4340000000000001"), "9007199254740994"),
    (double("44b52d02c7e14af6"), "1e+23"), (double("44b52d02c7e14af5"), "9.999999999999997e+22"),
    (2**53, "9007199254740992"), (2**53 + 1, "9007199254740992"), (2**63, "9223372036854776000"),
    (-(2**63), "-9223372036854776000"), (10**21, "1e+21"), (10**25 + 1, "1e+25"), (0, "0"), (-7, "-7"), (True, "true"),
    (False, "false"),
]  # fmt: skip

STRINGS = [
    ("", '""'), ("a", '"a"'), ('"', '"\\""'), ("\\", '"\\\\"'), ("/", '"/"'), ("\b\f\n\r\t", '"\\b\\f\\n\\r\\t"'),
    ("\x00\x1f", '"\\u0000\\u001f"'), ("\x7f", '"\x7f"'), ("é", '"é"'), ("€", '"€"'), ("😀", '"😀"'),
    ("\u2028", '"\u2028"'), ("<script>", '"<script>"'), ("\ufeff", '"\ufeff"'), ("e\u0301", '"e\u0301"'),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), NUMBERS)
def test_numbers(value: float, text: str) -> None:
    assert encode(value).decode() == text
    assert encode([value]).decode() == f"[{text}]"


@pytest.mark.parametrize(("value", "text"), STRINGS)
def test_strings(value: str, text: str) -> None:
    assert encode(value).decode() == text


def test_names_are_ordered_by_utf_16() -> None:
    """By code point U+FB33 comes before U+1F600; as UTF-16 the first half of the latter comes first."""
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\x80", "\u00f6", "a", "A", "", "aa", "10", "2"]
    ordered = ["", "\r", "1", "10", "2", "A", "a", "aa", "\x80", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(encode(dict.fromkeys(names)))) == ordered


def test_no_space_and_nested_order() -> None:
    value = {"b": [1, {"d": None, "c": True}], "a": {}, "é": []}
    assert encode(value).decode() == '{"a":{},"b":[1,{"c":true,"d":null}],"é":[]}'


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        "\ud800",
        {"\udc00": 1},
        {1: 2},
        {None: 1},
        {True: 1},
        b"x",
        {1, 2},
        object(),
        10**400,
        1j,
    ],
)
def test_what_json_does_not_know_is_refused(value: Any) -> None:
    for held in (value, [value], {"a": value}):
        with pytest.raises(CanonicalizationError):
            encode(held)


def test_what_is_nested_without_end_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(CanonicalizationError):
        encode(deep)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.integers(-(2**53), 2**53),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_it_is_json_for_the_same_value_and_a_fixed_point(value: Any) -> None:
    text = encode(value)
    # Beyond 2**53 the shortest digits name the same double and another whole number.
    assert json.loads(text, parse_int=float) == value
    assert encode(json.loads(text)) == text


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 9)))
def test_the_order_of_making_does_not_matter(value: dict[str, int]) -> None:
    assert encode(dict(reversed(value.items()))) == encode(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_is_read_back_exactly(value: float) -> None:
    assert float(encode(value)) == value
