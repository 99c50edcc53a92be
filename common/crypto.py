"""Keyed hashes and signatures, MACs of log rows, and encryption of single fields."""

import base64
import hmac
import os
from functools import cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from common import installation_keys

ROW_KEY_LABEL = "record"
#: The key id in rows of earlier versions for a key derived from SECRET_KEY, whichever SECRET_KEY was current.
LEGACY_ROW_KEY_ID = "sk"


class UnsealError(ValueError):
    """The sealed text was changed, belongs to another place, or its key is not configured."""


def fingerprint(secret: str) -> bytes:
    """The stored form of a secret: an HMAC with TOKEN_PEPPER, which is not in the database."""
    return hmac.digest(settings.TOKEN_PEPPER.encode(), secret.encode(), "sha256")


def is_equal_in_constant_time(first: bytes, second: bytes) -> bool:
    return hmac.compare_digest(first, second)


def sign(label: str, message: bytes) -> bytes:
    return hmac.digest(_derive_key(settings.SECRET_KEY, label), message, "sha256")


def compute_row_mac(message: bytes) -> str:
    """`<key id>:<hex>` for a record row, with the first signing key or, without signing keys, one from SECRET_KEY."""
    if settings.SIGNING_KEYS.keys:
        key_id, secret = settings.SIGNING_KEYS.primary_key
        key = _derive_key(secret.hex(), ROW_KEY_LABEL)
    else:
        key_id, key = _row_key_of_secret_key(settings.SECRET_KEY)
    return f"{key_id}:{hmac.digest(key, message, 'sha256').hex()}"


def is_row_mac_valid(message: bytes, mac: str) -> bool:
    key_id, _, digest = mac.partition(":")
    expected = (hmac.digest(key, message, "sha256").hex() for key in _candidate_row_keys(key_id))
    return any(hmac.compare_digest(text.encode(), digest.encode("utf-8", "replace")) for text in expected)


def has_row_mac_key(mac: str) -> bool:
    return bool(_candidate_row_keys(mac.partition(":")[0]))


def seal(text: str, *, place: str) -> str:
    """Encrypt a text for one table, row and field. A copy of it in another row cannot be decrypted."""
    key_id, key = settings.FIELD_KEYS.primary_key
    nonce = os.urandom(12)
    sealed = AESGCM(key).encrypt(nonce, text.encode(), place.encode())
    return f"{key_id}.{base64.urlsafe_b64encode(nonce + sealed).decode()}"


def unseal(sealed: str, *, place: str) -> str:
    key_id, _, body = sealed.partition(".")
    key = settings.FIELD_KEYS.keys.get(key_id)
    if key is None:
        raise UnsealError(f"The field key {key_id!r} is not among FIELD_KEYS.")
    try:
        raw = base64.urlsafe_b64decode(body)
        return AESGCM(key).decrypt(raw[:12], raw[12:], place.encode()).decode()
    except (InvalidTag, ValueError) as error:
        raise UnsealError("The sealed text was changed or belongs elsewhere.") from error


def derive_signing_keys(label: str) -> dict[str, bytes]:
    """Derive a key of 32 bytes for one use from each signing key, by key id. The first key signs."""
    if settings.SIGNING_KEYS.keys:
        return {key_id: _derive_key(key.hex(), label) for key_id, key in settings.SIGNING_KEYS.keys.items()}
    return {"sk": _derive_key(settings.SECRET_KEY, label)}


@cache
def _derive_key(secret: str, label: str) -> bytes:
    return installation_keys.derive(secret, label)


def _candidate_row_keys(key_id: str) -> list[bytes]:
    """The configured keys that this id can refer to."""
    candidates = []
    if secret := settings.SIGNING_KEYS.keys.get(key_id):
        candidates.append(_derive_key(secret.hex(), ROW_KEY_LABEL))
    for secret_key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        row_key_id, key = _row_key_of_secret_key(secret_key)
        if key_id in (row_key_id, LEGACY_ROW_KEY_ID):
            candidates.append(key)
    return candidates


@cache
def _row_key_of_secret_key(secret_key: str) -> tuple[str, bytes]:
    """A row key derived from SECRET_KEY, and an id that differs for each SECRET_KEY. No signing key id has a dot."""
    key = _derive_key(secret_key, ROW_KEY_LABEL)
    return f"{LEGACY_ROW_KEY_ID}.{hmac.digest(key, b'id', 'sha256').hex()[:8]}", key
