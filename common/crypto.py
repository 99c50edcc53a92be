"""Fingerprints, signatures and sealed fields."""

import base64
import hashlib
import hmac
import os
from functools import cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from common import keys


class Unreadable(ValueError):
    """The sealed text was changed, belongs to another place, or its key is gone."""


def fingerprint(secret: str) -> bytes:
    """What is stored of a secret: an HMAC under the pepper, which is not in the database."""
    return hmac.digest(settings.TOKEN_PEPPER.encode(), secret.encode(), "sha256")


def same(one: bytes, other: bytes) -> bool:
    return hmac.compare_digest(one, other)


def sign(label: str, message: bytes) -> bytes:
    return hmac.digest(_derived(settings.SECRET_KEY, label), message, "sha256")


def row_mac(message: bytes) -> str:
    """`<key id>:<hex>` over a record row, under the first signing key."""
    key_id, key = _record_key()
    return f"{key_id}:{hmac.new(key, message, hashlib.sha256).hexdigest()}"


def row_mac_fits(message: bytes, mac: str) -> bool:
    key_id, _, digest = mac.partition(":")
    key = _record_keys().get(key_id)
    return key is not None and hmac.compare_digest(hmac.new(key, message, hashlib.sha256).hexdigest(), digest)


def seal(text: str, *, place: str) -> str:
    """Encrypt for one place (table, row, field): copied to another row it does not open."""
    key_id, key = settings.FIELD_KEYS.first
    nonce = os.urandom(12)
    sealed = AESGCM(key).encrypt(nonce, text.encode(), place.encode())
    return f"{key_id}.{base64.urlsafe_b64encode(nonce + sealed).decode()}"


def unseal(sealed: str, *, place: str) -> str:
    key_id, _, body = sealed.partition(".")
    key = settings.FIELD_KEYS.keys.get(key_id)
    if key is None:
        raise Unreadable(f"The field key {key_id!r} is not among FIELD_KEYS.")
    try:
        raw = base64.urlsafe_b64decode(body)
        return AESGCM(key).decrypt(raw[:12], raw[12:], place.encode()).decode()
    except (InvalidTag, ValueError) as error:
        raise Unreadable("The sealed text was changed or belongs elsewhere.") from error


def signing_keys(label: str) -> dict[str, bytes]:
    """For one use: a key of 32 bytes from each of the installation's signing keys, by its id; the first signs."""
    if settings.SIGNING_KEYS.keys:
        return {key_id: _derived(key.hex(), label) for key_id, key in settings.SIGNING_KEYS.keys.items()}
    return {"sk": _derived(settings.SECRET_KEY, label)}


@cache
def _derived(secret: str, label: str) -> bytes:
    return keys.derive(secret, label)


def _record_key() -> tuple[str, bytes]:
    return next(iter(_record_keys().items()))


def _record_keys() -> dict[str, bytes]:
    return signing_keys("record")
