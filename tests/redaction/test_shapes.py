"""Tokens of every kind go wherever they stand, what only looks like one stays, and JSON stays JSON."""

import json
import random
from time import process_time

import pytest

from common.redaction import MASK, RedactionPolicy, Redactor, StreamRedactor, redact_text
from tests.redaction.canaries import PLAIN, TOKENS

pytestmark = pytest.mark.capability("AUD-07")

PLACES = ("{}", "before {} after", '"{}"', "'{}'", "<{}>", "({})", "{}\n", "a={},b", "\\n{}\\n", "line\n{}\nline")
#: Their contexts are not contexts after a letter.
STRONG = [name for name in TOKENS if name.split(",")[0] in ("github", "gitlab", "slack bot", "jwt", "ours", "pem")]


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize("place", PLACES)
def test_a_secret_goes_wherever_it_stands(name: str, place: str) -> None:
    token, secret = TOKENS[name]
    shown = redact_text(place.format(token))
    assert secret not in shown
    assert MASK in shown
    assert redact_text(shown) == shown


@pytest.mark.parametrize("name", TOKENS)
def test_a_secret_goes_out_of_json_in_a_string(name: str) -> None:
    token, secret = TOKENS[name]
    text = json.dumps({"a": [f"see {token}"], "b": 'quote " and \\ backslash', "c": 1})
    for shown in (redact_text(text), redact_text(json.dumps(text))):
        assert secret not in shown
        assert json.dumps(secret)[1:-1] not in shown
        json.loads(shown)
    assert json.loads(redact_text(text))["b"] == 'quote " and \\ backslash'


@pytest.mark.parametrize("name", STRONG)
def test_some_go_even_inside_a_word(name: str) -> None:
    token, secret = TOKENS[name]
    for text in (f"x{token}", f"_{token}", f"%3D{token}", token + token):
        assert secret not in redact_text(text)


def test_escapes_before_a_token_are_not_a_word() -> None:
    for name in ("openai", "anthropic", "google", "bearer"):
        token, secret = TOKENS[name]
        for before in ("\\n", "\\t", "%20", "\\u003d", "key:\\n"):
            assert secret not in redact_text(before + token)


def test_any_two_secrets_beside_each_other_go() -> None:
    drawn, names = random.Random(7), list(TOKENS)
    for _ in range(500):
        first, second = (TOKENS[name] for name in drawn.sample(names, 2))
        shown = redact_text(f"{first[0]} {second[0]}")
        assert first[1] not in shown
        assert second[1] not in shown
        assert redact_text(shown) == shown


@pytest.mark.parametrize("text", PLAIN, ids=lambda text: text[:30])
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert Redactor().redact_and_report(text) == (text, False)
    assert redact_text(f"before {text} after") == f"before {text} after"


def test_images_and_hashes_stay_in_any_number() -> None:
    drawn = random.Random(11)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    for more in ("+/", "-_"):
        blob = "".join(drawn.choices(letters + more, k=300_000))
        assert redact_text(blob) == blob


def test_the_public_part_of_our_token_stays() -> None:
    token, _secret = TOKENS["ours"]
    assert redact_text(token) == f"nhi_agt_0123456789AbCdEf_{MASK}"
    assert redact_text("postgresql://gatehouse:hunter2@db/x") == f"postgresql://gatehouse:{MASK}@db/x"


#: Beginnings of every rule, repeated: none may make a pattern look at the same text again and again.
HOSTILE = (
    "a", "A/", "gh", "ghp_", "github_pat_", "nhi_agt_", "nhi_tok_", "eyJ", "eyJa.", "eyJaaaaaaaaa.", "sk-", "xoxb-",
    "AKIA", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nA\n", "bearer ", "bearer",
    "://", "a://b:", "a://b:c@", "a://'", "token", "token=", "token: ", '"token":', '"token":"', '\\"token\\":\\"',
    "secret.", "a@", "@", "a.", "+1", "1.", "1:", "::", "\\", "(555) ", "[REDACTED:", MASK, "hooks.slack.com/services/",
    "whsec_", "\\u00", "'", '"', " ", "\n",
)  # fmt: skip


@pytest.mark.parametrize("beginning", HOSTILE)
def test_no_text_takes_long(beginning: str) -> None:
    """Each takes some tenths of a second of the processor; one that grew with the square would take minutes."""
    redactor = Redactor(RedactionPolicy(email=True, phone=True, ip=True))
    text = (beginning * 200_000)[:200_000]
    stream, started = StreamRedactor(redactor), process_time()
    redactor.redact_text(text)
    for start in range(0, len(text), 1000):
        stream.feed(text[start : start + 1000])
    stream.flush()
    assert process_time() - started < 10
