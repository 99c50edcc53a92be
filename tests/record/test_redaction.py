"""Redaction: secrets go, by name and by shape; structure stays; a second time changes nothing; plain words stay."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.redaction import MASK, redact, redact_text
from nhi.credentials import tokens

pytestmark = pytest.mark.capability("AUD-01")

SECRET_NAMES = [
    "password", "Password", "user_password", "passwd", "passphrase", "secret", "client_secret", "clientSecret",
    "token", "access_token", "accessToken", "X-Auth-Token", "api_key", "apiKey", "api-key", "X-Api-Key", "apikey",
    "authorization", "Authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "sessionid",
    "csrfmiddlewaretoken", "private_key", "privateKey", "pepper", "TOKEN_PEPPER", "otp", "recovery_code",
    "recovery_codes", "secrets", "passwords", "digest",
]  # fmt: skip
PLAIN_NAMES = [
    "name", "tokens", "token_type", "token_endpoint", "public_id", "description", "secretary", "tokenizer", "author",
    "key", "max_tokens_note", "passport", "digestion",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_secret_goes_by_its_name(name: str) -> None:
    for value in ("hunter2", ["hunter2"], {"a": "hunter2"}, "x"):
        assert redact({name: value}) == {name: MASK}
    assert redact([{"deep": {name: "hunter2"}}]) == [{"deep": {name: MASK}}]
    assert redact({name: None, "other": 1}) == {name: None, "other": 1}
    assert redact({name: True}) == {name: True}


@pytest.mark.parametrize("name", ["password", "otp", "recoveryCode", "client-secret"])
def test_a_secret_may_be_a_number(name: str) -> None:
    assert redact({name: 123456}) == {name: MASK}
    assert redact({"max_tokens": 4096, "tokens": 2}) == {"max_tokens": 4096, "tokens": 2}


@pytest.mark.parametrize("name", [name for name in PLAIN_NAMES if name != "max_tokens_note"])
def test_other_names_stay(name: str) -> None:
    assert redact({name: "value"}) == {name: "value"}


BODY = "nhi_agt_0123456789AbCdEf_" + "Zy9x" * 10
TOKEN = BODY + tokens.checksum(BODY)
SHAPES = [
    TOKEN, f"Bearer {TOKEN}", f"x={TOKEN};y", "nhi_tok_" + "A" * 30 + "." + "B" * 43,
    "Authorization: Bearer abc.def-ghi_123", "authorization: basic dXNlcjpwYXNzd29yZDE=",
    "postgresql://gatehouse:hunter2secret@127.0.0.1:5432/x", "redis://:hunter2secret@localhost/0",
    "https://me:hunter2secret@example.org/a",
]  # fmt: skip
SECRETS = (TOKEN.rpartition("_")[2], "B" * 43, "abc.def-ghi_123", "dXNlcjpwYXNzd29yZDE", "hunter2secret")


@pytest.mark.parametrize("text", SHAPES)
def test_a_secret_goes_by_its_shape(text: str) -> None:
    for shown in (
        redact_text(text),
        redact_text(f"before {text} after"),
        str(redact({"note": [text]})),
        str(redact({text: 1})),
    ):
        assert not [secret for secret in SECRETS if secret in shown]
        assert MASK in shown


@pytest.mark.parametrize(
    "text",
    [
        "basic housekeeping", "a bearer of news", "Basic understanding.", "bearer certificates expire",
        "no secret here", "https://example.org/a:b@c", "mailto:a@b.example", "nhi_agent",
        "see RFC 6750 for bearer tokens",
    ],
)  # fmt: skip
def test_plain_words_stay(text: str) -> None:
    assert redact_text(text) == text


TEXTS = st.one_of(st.text(max_size=20), st.sampled_from([*SHAPES, MASK, f"Bearer {MASK}", "nhi_agt_x_" + MASK]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.one_of(TEXTS, st.sampled_from([*SECRET_NAMES, *PLAIN_NAMES])), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=300)
@given(VALUES)
def test_a_second_time_changes_nothing_and_it_stays_json(value: Any) -> None:
    once = redact(value)
    assert redact(once) == once
    assert json.loads(json.dumps(once)) == once


@settings(max_examples=300)
@given(st.lists(TEXTS, max_size=4).map(" ".join), st.lists(TEXTS, max_size=4).map("".join))
def test_text_is_redacted_once_and_for_all(spaced: str, joined: str) -> None:
    for text in (spaced, joined):
        once = redact_text(text)
        assert redact_text(once) == once


@settings(max_examples=200)
@given(st.text(max_size=30), st.text(max_size=30))
def test_our_own_tokens_go_whatever_stands_around_them(before: str, after: str) -> None:
    assert TOKEN.rpartition("_")[2] not in redact_text(before + TOKEN + after)


@settings(max_examples=200)
@given(VALUES)
def test_structure_stays(value: Any) -> None:
    def shape(of: Any) -> Any:
        if isinstance(of, dict):
            return len(of)
        return [shape(item) for item in of] if isinstance(of, list) else type(of)

    once = redact(value)
    if not isinstance(value, dict):
        assert shape(once) == shape(value)
