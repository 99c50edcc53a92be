"""What cards are signed with: a key from each of the installation's signing keys, all published at one address."""

from typing import Any

from django.conf import settings

from a2a.wire import jws
from a2a.wire.cards import Card
from common import crypto

PUBLISHED_AT = "/.well-known/jwks.json"


def published() -> dict[str, Any]:
    """RFC 7517."""
    return {"keys": [jws.public(key) for key in _keys()]}


def signatures(card: Card, *, read_as: Card) -> list[dict[str, str]]:
    """By every key, so that clients may be late in learning of a new one; none where no signature would fit all."""
    if not jws.is_signable(card):
        return []
    jku = f"{settings.PUBLIC_URL}{PUBLISHED_AT}"
    return [jws.sign(payload, key, jku=jku) for payload in jws.payloads(card, read_as) for key in _keys()]


def _keys() -> list[jws.Key]:
    # A label's key has half the length that a seed needs.
    halves = (crypto.derive_signing_keys("card/1"), crypto.derive_signing_keys("card/2"))
    return [jws.key(key_id, one + halves[1][key_id]) for key_id, one in halves[0].items()]
