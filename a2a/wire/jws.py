"""Signatures of cards: JSON Web Signatures (RFC 7515) by ES256, whose payload is read off the card itself."""

import base64
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from common import canonical_json

ALGORITHM, CURVE = "ES256", "P-256"
#: The order of the curve's group: a private key is a number below it.
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@dataclass(frozen=True, repr=False)
class Key:
    id: str
    private: ec.EllipticCurvePrivateKey


@lru_cache(maxsize=32)
def key(key_id: str, seed: bytes) -> Key:
    """The key of a seed of 64 bytes, twice as many as a key has: then no key is likelier than another."""
    return Key(key_id, ec.derive_private_key(int.from_bytes(seed) % (ORDER - 1) + 1, ec.SECP256R1()))


def sign(payload: bytes, by: Key, *, jku: str) -> dict[str, str]:
    """An entry of a card's `signatures`; `jku` is where its key is published."""
    header = {"alg": ALGORITHM, "typ": "JOSE", "kid": by.id, "jku": jku}
    protected = _base64url(json.dumps(header, separators=(",", ":")).encode())
    made = by.private.sign(f"{protected}.{_base64url(payload)}".encode(), ec.ECDSA(SHA256()))
    pair = b"".join(number.to_bytes(32) for number in decode_dss_signature(made))
    return {"protected": protected, "signature": _base64url(pair)}


def public(of: Key) -> dict[str, str]:
    """Its half for everybody, as RFC 7517 writes it."""
    numbers = of.private.public_key().public_numbers()
    point = {"x": _base64url(numbers.x.to_bytes(32)), "y": _base64url(numbers.y.to_bytes(32))}
    return {"kty": "EC", "crv": CURVE, **point, "kid": of.id, "alg": ALGORITHM, "use": "sig"}


def payloads(card: dict[str, Any], read_as: dict[str, Any]) -> list[bytes]:
    """What to sign so that every reading of the card finds its signature.

    A2A signs the canonical JSON, but clients differ in what they leave out of it first. Some take the card as it came.
    The official SDK reads it as a 1.0 card (`read_as`) and drops whatever is empty, at every depth.
    """
    as_it_is, reduced = canonical_json.encode(card), canonical_json.encode(_without_empty(read_as))
    return [as_it_is] if as_it_is == reduced else [as_it_is, reduced]


def is_signable(card: dict[str, Any]) -> bool:
    """Text beyond ASCII is escaped by some clients and left as it is by others: no signature fits both."""
    return canonical_json.encode(card).isascii()


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without_empty(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one not in ("", [], {}, None)}
    if isinstance(value, list):
        return [one for one in map(_without_empty, value) if one not in ("", [], {}, None)]
    return value


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
