"""Cards are signed so that any client can tell that they are ours, by keys that we publish."""

import json
import subprocess
from typing import Any

import pytest

from a2a import card_changes, endpoint_changes
from common.installation_keys import KeyRing
from nhi.actors import SYSTEM
from nhi.identities import identities
from nhi.models import Identity
from tests.a2a.cards.reading import decoded, fitting, keys, read
from tests.a2a.conftest import Stage
from tests.services.house import ROOT
from tests.services.peers import NEW

pytestmark = pytest.mark.capability("A2A-04")
#: The official SDK, in its own environment: reads the card and the keys, and says what it thinks.
VERIFIER = """
import copy, json, sys
from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import create_signature_verifier
from jwt import PyJWK
told = json.load(sys.stdin)
known = {key["kid"]: PyJWK(key) for key in told["keys"]}
check = create_signature_verifier(lambda kid, jku: known[kid], ["ES256"])
card = told["card"]
check(parse_agent_card(copy.deepcopy(card)))
print("fits")
card["description"] = "Another"
try:
    check(parse_agent_card(card))
except Exception as error:
    print(type(error).__name__)
"""


@pytest.fixture
def public(stage: Stage) -> Identity:
    return identities.change(actor=SYSTEM, identity=stage.writer, discoverable=True, description="Writes.")


@pytest.mark.parametrize("version", ["", "1.0", "0.3"])
def test_each_form_is_signed_by_a_published_key(public: Identity, version: str) -> None:
    card, known = read(version=version).json(), keys()
    assert fitting(card, known) == ["t1"]
    header = json.loads(decoded(card["signatures"][0]["protected"]))
    assert header == {
        "alg": "ES256", "typ": "JOSE", "kid": "t1", "jku": "http://127.0.0.1:8000/.well-known/jwks.json",
    }  # fmt: skip
    assert not fitting({**card, "url": "https://elsewhere.example.com"}, known)


def test_what_is_published_holds_no_private_part(public: Identity) -> None:
    (key,) = keys().values()
    assert set(key) == {"kty", "crv", "x", "y", "kid", "alg", "use"}
    assert (key["kty"], key["crv"], key["use"]) == ("EC", "P-256", "sig")


def test_while_keys_change_each_of_them_signs(public: Identity, settings: Any) -> None:
    old = keys()
    settings.SIGNING_KEYS = KeyRing({"t2": b"2" * 32, **settings.SIGNING_KEYS.keys})
    card = read(version="1.0").json()
    assert fitting(card, keys()) == ["t2", "t1"]
    assert fitting(card, old) == ["t1"], "who has not heard of the new key yet"
    assert old["t1"] == keys()["t1"]


def test_without_signing_keys_the_installations_secret_stands_in(public: Identity, settings: Any) -> None:
    settings.SIGNING_KEYS = KeyRing()
    assert fitting(read().json(), keys()) == ["sk"]


def test_text_that_clients_sign_in_different_ways_goes_out_unsigned(public: Identity) -> None:
    card_changes.change(actor=SYSTEM, identity=public, description="Schreibt für alle")
    assert "signatures" not in read().json()


@pytest.mark.parametrize("shown", ["bearer_token", "api_key"])
@pytest.mark.parametrize("version", ["", "1.0"])
def test_the_official_sdk_finds_a_signature_that_fits(public: Identity, version: str, shown: str) -> None:
    endpoint_changes.change(actor=SYSTEM, identity=public, authentication=shown)
    asked = json.dumps({"card": read(version=version).json(), "keys": list(keys().values())})
    told = subprocess.run(
        [NEW / "bin" / "python", "-I", "-c", VERIFIER], input=asked, capture_output=True, text=True, cwd=ROOT.parent,
        timeout=60, check=False,
    )  # fmt: skip
    assert told.stdout.split() == ["fits", "InvalidSignaturesError"], told.stderr[-2000:]
