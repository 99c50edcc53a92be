"""Structures are walked to their ends and stay what they were; what cannot be looked at goes as a whole."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.redaction import EMAIL, IP, MASK, PHONE, UNREADABLE, RedactionPolicy, Redactor, redact, redact_text
from tests.redaction.canaries import PLAIN, TOKENS, A

pytestmark = pytest.mark.capability("AUD-07")

KNOWN = frozenset({"known canary/1", 'odd"known\\one', "REDACTED"})
ALL = Redactor(RedactionPolicy(email=True, phone=True, ip=True), KNOWN)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.lists(
        st.one_of(
            st.sampled_from([*(token for token, _ in TOKENS.values()), *PLAIN[:70], *KNOWN, MASK, EMAIL, UNREADABLE]),
            st.sampled_from([*'"\\{}[]:=,@/ \n-._', "password", "Bearer ", "://", "ghp_", "me@x.org", "10.0.0.1"]),
            st.text(max_size=5),
        ),
        max_size=5,
    ).map("".join),
)
NAMES = st.one_of(TEXTS, st.sampled_from(["password", "token", "name", "text", "apiKey", "tokens", "max_tokens"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=400, deadline=None)
@given(VALUES)
def test_a_second_time_changes_nothing(value: Any) -> None:
    for redactor in (Redactor(), ALL):
        once, applied = redactor.redact_and_report(value)
        assert applied == (once != value)
        assert redactor.redact_and_report(once) == (once, False)
        assert json.loads(json.dumps(once)) == once


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_a_text_is_redacted_once_and_for_all(text: str) -> None:
    for redactor in (Redactor(), ALL):
        once = redactor.redact_text(text)
        assert redactor.redact_text(once) == once


@settings(max_examples=400, deadline=None)
@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_json_in_a_string_stays_json(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps({"of": value}, indent=indent, ensure_ascii=ascii_only)
    for redactor in (Redactor(), ALL):
        json.loads(redactor.redact_text(text))
        json.loads(json.loads(redactor.redact_text(json.dumps(text))))


def test_names_and_values_are_looked_at_everywhere() -> None:
    token = f"ghp_{A[:36]}"
    value = {token: 1, "a": [{"b": ({"c": token},)}, {token}, token.encode(), bytearray(token.encode())], 3: token}
    assert ALL.redact_value(value) == {
        MASK: 1,
        "a": [{"b": [{"c": MASK}]}, [MASK], MASK.encode(), MASK.encode()],
        3: MASK,
    }


def test_a_copy_is_made_and_the_original_stays() -> None:
    value = {"a": [1, {"password": "x"}], "b": {"c": "plain"}}
    clean = redact(value)
    assert value == {"a": [1, {"password": "x"}], "b": {"c": "plain"}}
    clean["b"]["c"] = "changed"
    assert value["b"] == {"c": "plain"}


def test_two_names_that_become_one_stay_two() -> None:
    clean = redact({f"ghp_{A[:36]}": 1, f"gho_{A[:36]}": 2, MASK: 3})
    assert sorted(clean.values()) == [1, 2, 3]


def test_it_says_whether_anything_was_taken_out() -> None:
    redactor = Redactor(secret_values=KNOWN)
    for value in (
        "plain",
        7,
        None,
        {"a": [1, (2, 3)]},
        {"password": MASK},
        [f"x {MASK}"],
        {"password": None},
        b"plain",
    ):
        assert redactor.redact_and_report(value)[1] is False
    for value in ("known canary/1", {"password": "x"}, [{"known canary/1": 1}], {"a": "Bearer abc123def"}):
        assert redactor.redact_and_report(value)[1] is True


def test_what_is_too_deep_or_too_large_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Any = "end"
    for _ in range(5000):
        deep = [deep]
    clean, applied = Redactor().redact_and_report({"deep": deep, "a": 1})
    assert applied
    assert UNREADABLE in str(clean)
    assert "end" not in str(clean)
    assert clean["a"] == 1
    monkeypatch.setattr("common.redaction.redactor.MAX_PARTS", 100)
    assert Redactor().redact_and_report({"a": list(range(200)), "b": 1}) == ({"a": UNREADABLE, "b": 1}, True)
    round_about: list[Any] = []
    round_about += [round_about, round_about]
    assert Redactor().redact_and_report(round_about)[1]


class Broken(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(["hunter2"])

    def __len__(self) -> int:
        return 1


def test_an_error_inside_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Redactor().redact_and_report({"a": Broken(), "b": "plain"}) == (UNREADABLE, True)

    def fails(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("common.redaction.labelled_secrets.find_spans", fails)
    assert Redactor().redact_and_report(["plain text"]) == (UNREADABLE, True)
    assert redact_text("plain text") == UNREADABLE
    assert redact({"a": "plain text"}) == UNREADABLE


PEOPLE = {
    "me@example.org": EMAIL, "first.last+tag@mail.example.co.uk": EMAIL, "+49 30 1234567": PHONE, "+4930123456": PHONE,
    "(555) 123-4567": PHONE, "555-123-4567": PHONE, "+1 (555) 123-4567": PHONE, "10.0.0.1": IP, "192.168.178.255": IP,
    "2001:db8::1": IP, "fe80::1": IP, "::1": IP, "::ffff:10.0.0.1": IP, "2001:db8:0:0:0:0:0:1": IP,
}  # fmt: skip


@pytest.mark.parametrize("text", PEOPLE)
@pytest.mark.parametrize("place", ["{}", "write {} now", "<{}>", '"{}"', "at {}.", "{}, and"])
def test_what_belongs_to_people_goes_when_the_policy_says_so(text: str, place: str) -> None:
    mask = PEOPLE[text]
    flags = {EMAIL: "email", PHONE: "phone", IP: "ip"}
    assert redact_text(place.format(text)) == place.format(text)
    assert Redactor(RedactionPolicy(**{flags[mask]: True})).redact_text(place.format(text)) == place.format(mask)
    others = RedactionPolicy(**{flag: True for kind, flag in flags.items() if kind != mask})
    assert Redactor(others).redact_text(place.format(text)) == place.format(text)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-18", "12:30:45", "18:00", "std::vector", "a::b::c()", "999.1.1.1", "1.2.3", "1234567890", "v1.2.3.4.5",
        "4f1c2a9e-7b3d-4c8e-9f0a-1b2c3d4e5f60", "@home", "me@localhost", "a @ b", "$1,299.00", "3.141592653589793",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_person_or_a_place_stays(text: str) -> None:
    assert ALL.redact_text(text) == text


def test_secrets_may_stay_when_the_policy_says_so() -> None:
    redactor = Redactor(RedactionPolicy(secrets=False, email=True), frozenset({"known canary"}))
    assert redactor.redact_value({"password": "x me@example.org", "a": "known canary"}) == {
        "password": f"x {EMAIL}",
        "a": "known canary",
    }


@pytest.mark.parametrize(
    ("secret", "number"),
    [("860213947", 860213947), ("860213947", 1860213947), ("860213947", 860213947.0), ("86021.3947", 86021.3947)],
)
def test_a_known_secret_of_digits_is_masked_as_a_number(secret: str, number: float) -> None:
    redactor = Redactor(secret_values=frozenset({secret}))
    clean, changed = redactor.redact_and_report(
        {"pin": number, "list": [number], "count": 12, "ok": True, "none": None}
    )
    assert changed
    assert clean == {"pin": MASK, "list": [MASK], "count": 12, "ok": True, "none": None}


def test_a_number_in_the_text_of_json_is_masked_and_stays_json() -> None:
    redactor = Redactor(secret_values=frozenset({"860213947"}))
    assert json.loads(redactor.redact_text('{"pin": 860213947, "count": 12}')) == {"pin": MASK, "count": 12}


def test_numbers_stay_numbers_where_no_known_secret_is_one() -> None:
    value = {"count": 860213947, "ratio": 0.5}
    assert Redactor(secret_values=frozenset({"a-secret-of-words"})).redact_and_report(value) == (value, False)
