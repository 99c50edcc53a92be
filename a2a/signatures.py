"""Standard Webhooks 1.0: the secret that both sides know, and what is signed with it."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence

PREFIX = "whsec_"
#: The standard takes 24 to 64.
BYTES = 32


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(BYTES)).decode()


def headers(known: Sequence[str], *, webhook_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """One signature for each secret: while one is rotated, whoever knows either of the two can verify."""
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(_signature(secret, signed) for secret in known),
    }


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    return f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"
